"""/api/runs/{run}/feedback and /api/feedback: ratings and comments on answers."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response, get, put
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Meta
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.errors import InvalidValue, ItemNotFound, RunNotFound
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Timestamp,
    caller_of,
    make_view,
    object_response,
    operation_with_body,
    read_body,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings
from palaver.storage import feedback, runs
from palaver.storage.database import Database
from palaver.storage.feedback import Feedback, FeedbackCounts, FeedbackEntry, FeedbackFilters, Rating
from palaver.storage.pagination import Page, Window
from palaver.storage.schema import storable_text
from palaver.storage.threads.message_tree import get_node, is_node_id

From = Annotated[
    str | None,
    QueryParameter(name="from", description="RFC 3339 timestamp: only feedback created at or after this time."),
]
_RUN_ID_PREFIXES = ("chatcmpl-", "resp_", "run_")


class FeedbackInput(msgspec.Struct, frozen=True, kw_only=True):
    """A rating of an answer, with an optional comment."""

    rating: Rating | None
    """Null deletes the feedback."""
    comment: Annotated[str, Meta(max_length=4_000)] = ""
    message: Annotated[str, Meta(max_length=80)] | None = None
    """The rated message, if the run produced several."""
    user: Annotated[str, Meta(max_length=128)] = ""
    """A label for the end user on whose behalf the caller rates."""


class FeedbackView(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's feedback on an answer, and the counts of all feedback."""

    run: str
    message: str | None
    rating: Rating | None
    comment: str
    user: str | None
    feedback: FeedbackCounts


class FeedbackRow(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback and the answer it is about."""

    run: str
    message: str | None
    rating: Rating
    comment: str
    user: str | None
    key: str | None
    workflow: str
    asked: Any = msgspec.field(name="in")
    answered: Any = msgspec.field(name="out")
    source: dict[str, str | None]
    """The `source` to send when adding the answer to a test set."""
    created_at: Timestamp


class FeedbackController(ApiController):
    path = "/api"

    database: Database
    settings: Settings

    @put(
        "/runs/{run:str}/feedback",
        operation_id="rate_run",
        summary="Rate an answer; a new rating replaces the previous one, and null removes it",
        operation_class=operation_with_body(FeedbackInput),
    )
    async def rate_run(self, request: ApiRequest, run: FromPath[str]) -> Response[FeedbackView]:
        _, body = await read_body(request, self.settings, FeedbackInput)
        caller, now = caller_of(request), utc_now()
        rated = await self.database.write(_rate, caller.project, run_id(run), body, caller.key or "", now)
        return object_response(request, rated)

    @get("/feedback", operation_id="list_feedback", summary="List feedback, newest first")
    async def list_feedback(
        self,
        request: ApiRequest,
        rating: FromQuery[Rating | None] = None,
        workflow: Filter = None,
        since: From = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[FeedbackRow]:
        filters = FeedbackFilters(rating=rating, workflow=workflow, since=None if since is None else _parse_time(since))
        page = await self.database.read(
            feedback.list_feedback, caller_of(request).project, filters, Window(limit, after)
        )
        return page.map(_row)


def run_id(text: str) -> str:
    """Return the run id of an id in any protocol's form."""
    for prefix in _RUN_ID_PREFIXES:
        text = text.removeprefix(prefix)
    return f"run_{text}"


def _rate(db: Connection, project: str, run: str, body: FeedbackInput, key: str, now: datetime) -> FeedbackView:
    stored_run = runs.get_run(db, project, run) if is_node_id(run) else None
    if stored_run is None:
        raise RunNotFound(f"Run {run[:80]!r} not found.")
    message = body.message
    if message is None:
        message = feedback.find_answer_message(db, project, run)
    elif stored_run.thread is None:
        message = storable_text(message)
    else:
        node = get_node(db, project, stored_run.thread, message)
        if node is None or node.run != run:
            raise ItemNotFound(message, pointer="/message")
    record = Feedback(
        run=run,
        message=message,
        key=key,
        user=body.user,
        rating=body.rating or "up",
        comment=body.comment,
        created_at=now,
    )
    if body.rating is None:
        feedback.delete_feedback(db, project, record)
    else:
        record = feedback.save_feedback(db, project, record)
    counts = feedback.count_feedback(db, project, [run], key=key).get((run, message), FeedbackCounts())
    return FeedbackView(
        run=run,
        message=message or None,
        rating=body.rating,
        comment=record.comment if body.rating else "",
        user=record.user or None,
        feedback=counts,
    )


def _row(entry: FeedbackEntry) -> FeedbackRow:
    record = entry.feedback
    if entry.thread is not None:
        source = {"kind": "conversation", "id": entry.thread, "upto": record.message or None}
    else:
        source = {"kind": "trace", "id": entry.trace_id}
    return make_view(
        FeedbackRow,
        record,
        message=record.message or None,
        user=record.user or None,
        key=format_key_id(record.key) if record.key else None,
        workflow=entry.workflow,
        asked=entry.preview_in,
        answered=entry.preview_out,
        source=source,
    )


def _parse_time(text: str) -> datetime:
    try:
        return msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        raise InvalidValue(
            "from must be an RFC 3339 timestamp with a time zone, e.g. 2026-11-15T07:20:00Z.", pointer="?from"
        ) from None
