"""GET /api/evaluations/{id}/events: how an evaluation goes on, as server-sent events, until it has ended.

The table is looked at a few times a second, and only what is new is read. The id of each event is the number of the
result that was told last, so that who comes back with it hears the rest; progress and state are told as they are then.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Annotated, Any

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from palaver.core import json
from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.runner.progress import EvaluationProgress, estimate_progress
from palaver.protocols import sse
from palaver.server.api import evaluation_shown as shown
from palaver.server.api.conventions import Asked, caller_of, streams, utc_now
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_views import EvaluationEvent, Progress
from palaver.server.api.run_views import HEAD, Told
from palaver.server.api.trace_export import tell
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.server.streaming import KEEP_ALIVE_INTERVAL_S, escape_line_separators
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.repository import Evaluation

AGAIN = 0.25
"""Seconds until an evaluation that changes is looked at again,"""
RARELY = 1.0
"""and, at most, one that does not."""
_PIECE = 200
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
        operation_class=streams(EvaluationEvent),
    )
    async def follow_evaluation(
        self, request: Asked, evaluation: FromPath[str], after: AfterResult = None
    ) -> Response[Any]:
        caller = caller_of(request)
        found, kept = await self.database.read(evaluations.get_plan, caller.project, evaluation)
        heard = _last_event_id(request)
        if found.ended_at is not None and heard is not None and heard >= found.recorded:
            return Response(None, status_code=204)  # An EventSource then stops.
        seen = max(after or 0, heard or 0)
        following = followed(self.database, caller.project, found, shown.plan_of(kept), seen, utc_now)

        async def told(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await tell(exchange, b"", following, self.settings.stream_stall, HEAD.headers)

        return Told(told)


async def followed(
    database: Database, project: str, found: Evaluation, plan: Plan, seen: int, now: Callable[[], datetime]
) -> AsyncGenerator[bytes]:
    """The frames of what happens after a result, until the evaluation has ended."""
    told: Evaluation | None = None
    quiet, wait = 0.0, AGAIN
    while True:
        if told is None or found.version != told.version:
            if told is None or found.state != told.state:
                yield _frame("state", seen, shown.state(found)) if found.ended_at is None else b""
            while seen < found.recorded:
                fresh = await database.read(evaluation_pages.list_results_since, project, found.id, seen, _PIECE)
                seen = fresh[-1].seq if fresh else found.recorded  # What is run again has no result meanwhile.
                yield b"".join([_frame("cell", result.seq, shown.cell(result, plan)) for result in fresh])
            last = await database.read(evaluation_results.recent_pace, project, found.id)
            yield _frame("progress", seen, _progress(found, estimate_progress(found, last, now())))
            if found.ended_at is not None:
                yield _frame("state", seen, shown.state(found))
                return
            told, quiet, wait = found, 0.0, AGAIN
        await asyncio.sleep(wait)
        quiet, wait = quiet + wait, min(wait * 1.5, RARELY)
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


def _last_event_id(request: Asked) -> int | None:
    """What an EventSource says that it has, when it comes back."""
    given = request.headers.get("last-event-id", "").strip()
    if not given:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 10:
        raise InvalidValue("Last-Event-ID must be the number of an event.")
    return int(given)
