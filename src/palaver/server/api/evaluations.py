"""/api/evaluations: start, list, read, cancel, rerun, delete and follow evaluations.

The event stream polls the evaluation's row and reads only new results. Each event's id is the number of the last result
sent, so that a client can resume with Last-Event-ID.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Annotated, Any, get_args

from litestar import Response, delete, get, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.plan.plan import Plan, new_evaluation
from palaver.evaluation.plan.planner import EvaluationPlanner
from palaver.evaluation.plan.request import NewEvaluation
from palaver.evaluation.runner.progress import EvaluationProgress, estimate_progress
from palaver.protocols import sse
from palaver.protocols.base import HttpResponse
from palaver.server.api import evaluation_views as shown
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Search,
    caller_of,
    encode_object,
    find_replay,
    new_id,
    object_response,
    operation_with_body,
    operation_with_stream,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_results import FigureCache
from palaver.server.api.evaluation_views import (
    Begun,
    EvaluationEvent,
    EvaluationRow,
    EvaluationState,
    EvaluationView,
    Progress,
    Rerun,
)
from palaver.server.api.streaming import EVENT_STREAM_HEAD, StreamingResponse, last_event_id, send_pieces
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.streaming import KEEP_ALIVE_INTERVAL_S, escape_line_separators
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters
from palaver.storage.pagination import Page, Window

InState = Annotated[str | None, QueryParameter(name="state", description="How it goes, or how it ended.")]
"""Litestar has another use for a parameter that is called `state`, so it is checked here."""


class EvaluationController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    planner: EvaluationPlanner
    figures: FigureCache
    wake_runner: Callable[[], None]

    @post(
        operation_id="create_evaluation",
        summary="Run a test set over variants, and score what they answer",
        status_code=202,
        operation_class=operation_with_body(NewEvaluation),
    )
    async def create_evaluation(self, request: ApiRequest) -> Response[Begun]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewEvaluation)
        if (before := await find_replay(request, self.database, raw)) is not None:
            return before
        planned = await self.planner.plan(caller.project, body)
        made, now = new_evaluation(new_id("ev"), planned, key=caller.key), utc_now()

        def work(db: Connection) -> HttpResponse:
            begun = evaluations.create_evaluation(db, caller.project, made, now)
            told = Begun(id=begun.id, state=begun.state, total=begun.total)
            return encode_object(told, status=202, location=f"{self.settings.root_path}/api/evaluations/{begun.id}")

        told = await run_idempotent(request, self.database, raw, work)
        self.wake_runner()
        self.figures.preload()
        return told

    @get(operation_id="list_evaluations", summary="Newest first")
    async def list_evaluations(
        self,
        request: ApiRequest,
        search: Search = None,
        in_state: InState = None,
        testset: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[EvaluationRow]:
        if in_state not in (None, *get_args(EvaluationState)):
            raise InvalidValue(f"state is one of {', '.join(get_args(EvaluationState))}.", pointer="?state")
        filters = EvaluationFilters(state=in_state, testset=testset, search=search)
        page = await self.database.read(_list_rows, caller_of(request).project, filters, Window(limit, after))
        if page.data:
            self.figures.preload()
        return page

    @get("/{evaluation:str}", operation_id="get_evaluation", summary="One, and what it was made of")
    async def get_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> Response[EvaluationView]:
        stored = await self.database.read(evaluations.get_plan, caller_project(request), evaluation)
        self.figures.preload()
        return object_response(request, _view(*stored))

    @delete("/{evaluation:str}", operation_id="delete_evaluation", summary="Let go of all of it")
    async def delete_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> None:
        await self.database.write(evaluations.delete_evaluation, caller_project(request), evaluation)
        self.wake_runner()

    @post(
        "/{evaluation:str}/cancel",
        operation_id="cancel_evaluation",
        summary="End it: what is recorded stays; one that has ended stays as it is",
        status_code=200,
    )
    async def cancel_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> Response[EvaluationView]:
        found = await self.database.write(evaluations.cancel_evaluation, caller_project(request), evaluation, utc_now())
        self.wake_runner()
        return object_response(request, await self._whole(request, found))

    @post(
        "/{evaluation:str}/rerun",
        operation_id="rerun_evaluation",
        summary="Run again what failed, or all of it, into the same evaluation",
        status_code=202,
        operation_class=operation_with_body(Rerun),
    )
    async def rerun_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> Response[EvaluationView]:
        raw, body = await read_body(request, self.settings, Rerun)
        project, now = caller_project(request), utc_now()

        def work(db: Connection) -> HttpResponse:
            evaluations.rerun_evaluation(db, project, evaluation, body.which, now)
            return encode_object(_view(*evaluations.get_plan(db, project, evaluation)), status=202)

        response = await run_idempotent(request, self.database, raw, work)
        self.wake_runner()
        return response

    async def _whole(self, request: ApiRequest, found: Evaluation) -> EvaluationView:
        return _view(*await self.database.read(evaluations.get_plan, caller_project(request), found.id))


def caller_project(request: ApiRequest) -> str:
    """The project of whoever asks."""
    return caller_of(request).project


def _list_rows(db: Connection, project: str, filters: EvaluationFilters, window: Window) -> Page[EvaluationRow]:
    page = evaluations.list_evaluations(db, project, filters, window)
    plans = evaluations.get_plans(db, project, [one.id for one in page.data])
    return page.map(lambda one: shown.evaluation_row(one, shown.decode_plan(plans[one.id])))


def _view(found: Evaluation, kept: Any) -> EvaluationView:
    return shown.evaluation_view(found, shown.decode_plan(kept))


MIN_POLL_INTERVAL_S = 0.25
"""Seconds until an evaluation that changes is looked at again,"""
MAX_POLL_INTERVAL_S = 1.0
"""and, at most, one that does not."""
_RESULT_BATCH_SIZE = 200
"""Results that are read at once."""

AfterResult = Annotated[
    int | None,
    QueryParameter(name="after", ge=0, le=1 << 31, description="The number of the last result one has; 0 for none."),
]


class EvaluationEventController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    rate_limits: RateLimits

    @get(
        "/{evaluation:str}/events",
        operation_id="follow_evaluation",
        summary="Its progress, its cells as they are recorded and its state, until it has ended",
        media_type="text/event-stream",
        operation_class=operation_with_stream(EvaluationEvent),
    )
    async def follow_evaluation(
        self, request: ApiRequest, evaluation: FromPath[str], after: AfterResult = None
    ) -> Response[Any]:
        caller = caller_of(request)
        evaluation_record, stored_plan = await self.database.read(evaluations.get_plan, caller.project, evaluation)
        resumed = last_event_id(request)
        if evaluation_record.ended_at is not None and resumed is not None and resumed >= evaluation_record.recorded:
            return Response(None, status_code=204)  # An EventSource then stops.
        seen = max(after or 0, resumed or 0)
        following = evaluation_frames(
            self.database, caller.project, evaluation_record, shown.decode_plan(stored_plan), seen, utc_now
        )

        async def send(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await send_pieces(exchange, b"", following, self.settings.stream_stall, EVENT_STREAM_HEAD.headers)

        return StreamingResponse(send)


async def evaluation_frames(
    database: Database, project: str, found: Evaluation, plan: Plan, seen: int, now: Callable[[], datetime]
) -> AsyncGenerator[bytes]:
    """The frames of what happens after a result, until the evaluation has ended."""
    told: Evaluation | None = None
    quiet, wait = 0.0, MIN_POLL_INTERVAL_S
    while True:
        if told is None or found.version != told.version:
            if told is None or found.state != told.state:
                yield _frame("state", seen, shown.state_event(found)) if found.ended_at is None else b""
            while seen < found.recorded:
                fresh = await database.read(
                    evaluation_pages.list_results_since, project, found.id, seen, _RESULT_BATCH_SIZE
                )
                seen = fresh[-1].seq if fresh else found.recorded  # What is run again has no result meanwhile.
                yield b"".join([_frame("cell", result.seq, shown.cell_event(result, plan)) for result in fresh])
            last = await database.read(evaluation_results.recent_pace, project, found.id)
            yield _frame("progress", seen, _progress(found, estimate_progress(found, last, now())))
            if found.ended_at is not None:
                yield _frame("state", seen, shown.state_event(found))
                return
            told, quiet, wait = found, 0.0, MIN_POLL_INTERVAL_S
        await asyncio.sleep(wait)
        quiet, wait = quiet + wait, min(wait * 1.5, MAX_POLL_INTERVAL_S)
        if quiet > KEEP_ALIVE_INTERVAL_S:
            yield sse.KEEP_ALIVE
            quiet = 0.0
        try:
            found = await database.read(evaluations.get_evaluation, project, found.id)
        except NotFound:
            return  # It was deleted: there is nothing left to tell.


def _progress(found: Evaluation, pace: EvaluationProgress) -> Progress:
    return Progress(
        done=found.done,
        failed=found.failed,
        errors=found.errors,
        total=found.total,
        rate=pace.rate,
        eta_seconds=pace.eta_seconds,
        cost=found.cost,
    )


def _frame(name: str, seq: int, event: EvaluationEvent) -> bytes:
    return escape_line_separators(b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, name.encode(), json.encode(event)))
