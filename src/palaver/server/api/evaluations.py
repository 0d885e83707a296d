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
from palaver.evaluation.runner.progress import estimate_progress
from palaver.protocols.base import HttpResponse
from palaver.server.api import evaluation_views as views
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Search,
    caller_of,
    encode_object,
    find_replay,
    make_view,
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
from palaver.server.api.streaming import EVENT_STREAM_HEAD, StreamingResponse, last_event_id, send_chunks
from palaver.server.keep_alive import with_keep_alive
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.streaming import escape_line_separators
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as result_store
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters
from palaver.storage.pagination import Page, Window

InState = Annotated[str | None, QueryParameter(name="state", description="State of the evaluation.")]
"""Litestar reserves the argument name `state`; the handler validates the value."""


class EvaluationController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    planner: EvaluationPlanner
    figures: FigureCache
    wake_runner: Callable[[], None]

    @post(
        operation_id="create_evaluation",
        summary="Create an evaluation: run a test set on variants and score the answers",
        status_code=202,
        operation_class=operation_with_body(NewEvaluation),
    )
    async def create_evaluation(self, request: ApiRequest) -> Response[views.CreatedEvaluation]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewEvaluation)
        if (replay := await find_replay(request, self.database, raw)) is not None:
            return replay
        plan = await self.planner.plan(caller.project, body)
        evaluation, now = new_evaluation(new_id("ev"), plan, key=caller.key), utc_now()

        def work(db: Connection) -> HttpResponse:
            stored = evaluations.create_evaluation(db, caller.project, evaluation, now)
            created = views.CreatedEvaluation(id=stored.id, state=stored.state, total=stored.total)
            return encode_object(created, status=202, location=f"{self.settings.root_path}/api/evaluations/{stored.id}")

        response = await run_idempotent(request, self.database, raw, work)
        self.wake_runner()
        self.figures.preload()
        return response

    @get(operation_id="list_evaluations", summary="List evaluations, newest first")
    async def list_evaluations(
        self,
        request: ApiRequest,
        search: Search = None,
        in_state: InState = None,
        testset: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[views.EvaluationRow]:
        if in_state not in (None, *get_args(views.EvaluationState)):
            raise InvalidValue(f"state must be one of {', '.join(get_args(views.EvaluationState))}.", pointer="?state")
        filters = EvaluationFilters(state=in_state, testset=testset, search=search)
        page = await self.database.read(_list_rows, caller_of(request).project, filters, Window(limit, after))
        if page.data:
            self.figures.preload()
        return page

    @get("/{evaluation:str}", operation_id="get_evaluation", summary="Get an evaluation and its configuration")
    async def get_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> Response[views.EvaluationView]:
        stored = await self.database.read(evaluations.get_plan, caller_project(request), evaluation)
        self.figures.preload()
        return object_response(request, _view(*stored))

    @delete("/{evaluation:str}", operation_id="delete_evaluation", summary="Delete an evaluation with all its results")
    async def delete_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> None:
        await self.database.write(evaluations.delete_evaluation, caller_project(request), evaluation)
        self.wake_runner()

    @post(
        "/{evaluation:str}/cancel",
        operation_id="cancel_evaluation",
        summary="Cancel an evaluation; recorded results are kept, and a finished evaluation is not changed",
        status_code=200,
    )
    async def cancel_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> Response[views.EvaluationView]:
        project = caller_project(request)
        await self.database.write(evaluations.cancel_evaluation, project, evaluation, utc_now())
        self.wake_runner()
        return object_response(request, _view(*await self.database.read(evaluations.get_plan, project, evaluation)))

    @post(
        "/{evaluation:str}/rerun",
        operation_id="rerun_evaluation",
        summary="Rerun failed cells, or all cells, of an evaluation",
        status_code=202,
        operation_class=operation_with_body(views.Rerun),
    )
    async def rerun_evaluation(self, request: ApiRequest, evaluation: FromPath[str]) -> Response[views.EvaluationView]:
        raw, body = await read_body(request, self.settings, views.Rerun)
        project, now = caller_project(request), utc_now()

        def work(db: Connection) -> HttpResponse:
            evaluations.rerun_evaluation(db, project, evaluation, body.which, now)
            return encode_object(_view(*evaluations.get_plan(db, project, evaluation)), status=202)

        response = await run_idempotent(request, self.database, raw, work)
        self.wake_runner()
        return response


def caller_project(request: ApiRequest) -> str:
    return caller_of(request).project


def _list_rows(db: Connection, project: str, filters: EvaluationFilters, window: Window) -> Page[views.EvaluationRow]:
    page = evaluations.list_evaluations(db, project, filters, window)
    plans = evaluations.get_plans(db, project, [row.id for row in page.data])
    return page.map(lambda row: views.evaluation_row(row, views.decode_plan(plans[row.id])))


def _view(evaluation: Evaluation, stored_plan: Any) -> views.EvaluationView:
    return views.evaluation_view(evaluation, views.decode_plan(stored_plan))


MIN_POLL_INTERVAL_S = 0.25  # While the evaluation changes; grows to the maximum while it does not.
MAX_POLL_INTERVAL_S = 1.0
_RESULT_BATCH_SIZE = 200

AfterResult = Annotated[
    int | None,
    QueryParameter(name="after", ge=0, le=1 << 31, description="Number of the last result received; 0 for none."),
]


class EvaluationEventController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    rate_limits: RateLimits

    @get(
        "/{evaluation:str}/events",
        operation_id="follow_evaluation",
        summary="Stream an evaluation's progress, results and state until it ends",
        media_type="text/event-stream",
        operation_class=operation_with_stream(views.EvaluationEvent),
    )
    async def follow_evaluation(
        self, request: ApiRequest, evaluation: FromPath[str], after: AfterResult = None
    ) -> Response[Any]:
        caller = caller_of(request)
        evaluation_record, stored_plan = await self.database.read(evaluations.get_plan, caller.project, evaluation)
        last_id = last_event_id(request)
        if evaluation_record.ended_at is not None and last_id is not None and last_id >= evaluation_record.recorded:
            return Response(None, status_code=204)  # Makes an EventSource stop reconnecting.
        last_seq = max(after or 0, last_id or 0)
        frames = evaluation_frames(
            self.database, caller.project, evaluation_record, views.decode_plan(stored_plan), last_seq, utc_now
        )

        async def send(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                chunks = with_keep_alive(frames, EVENT_STREAM_HEAD.keep_alive)
                await send_chunks(exchange, b"", chunks, self.settings.stream_stall, EVENT_STREAM_HEAD.headers)

        return StreamingResponse(send)


async def evaluation_frames(
    database: Database, project: str, evaluation: Evaluation, plan: Plan, last_seq: int, now: Callable[[], datetime]
) -> AsyncGenerator[bytes]:
    """Yield the SSE frames after the result `last_seq`, until the evaluation has ended."""
    previous: Evaluation | None = None
    wait_s = MIN_POLL_INTERVAL_S
    while True:
        if previous is None or evaluation.version != previous.version:
            if previous is None or evaluation.state != previous.state:
                yield _frame("state", last_seq, views.state_event(evaluation)) if evaluation.ended_at is None else b""
            while last_seq < evaluation.recorded:
                batch = await database.read(
                    result_store.list_results_since, project, evaluation.id, last_seq, _RESULT_BATCH_SIZE
                )
                last_seq = batch[-1].seq if batch else evaluation.recorded  # Results of a rerun are deleted first.
                yield b"".join([_frame("cell", result.seq, views.cell_event(result, plan)) for result in batch])
            recent_pace = await database.read(result_store.recent_pace, project, evaluation.id)
            pace = estimate_progress(evaluation, recent_pace, now())
            progress = make_view(views.Progress, evaluation, rate=pace.rate, eta_seconds=pace.eta_seconds)
            yield _frame("progress", last_seq, progress)
            if evaluation.ended_at is not None:
                yield _frame("state", last_seq, views.state_event(evaluation))
                return
            previous, wait_s = evaluation, MIN_POLL_INTERVAL_S
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 1.5, MAX_POLL_INTERVAL_S)
        try:
            evaluation = await database.read(evaluations.get_evaluation, project, evaluation.id)
        except NotFound:
            return  # It was deleted.


def _frame(name: str, seq: int, event: views.EvaluationEvent) -> bytes:
    return escape_line_separators(b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, name.encode(), json.encode(event)))
