"""/api/traces and /api/spans: traces, their scores, and their spans.

A span may hold megabytes. Long parts are truncated and listed in `cut`; they can be read in full, a chunk at a time.
"""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal, cast

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import json
from palaver.core.api_keys import format_key_id
from palaver.errors import NotFound
from palaver.evaluation.review_questions import Question
from palaver.server.api import trace_views as views
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    format_timestamp,
    make_view,
    object_response,
    operation_with_body,
    read_body,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings
from palaver.storage import feedback
from palaver.storage.database import Database
from palaver.storage.evaluations import live_evaluators, reviews
from palaver.storage.evaluations.live_evaluators import LiveScore
from palaver.storage.evaluations.reviews import TraceReview
from palaver.storage.feedback import Feedback
from palaver.storage.pagination import Page, Window
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans import stats as span_stats
from palaver.storage.spans import traces as span_traces
from palaver.storage.spans.stats import StatsGroup, TimeStep
from palaver.storage.spans.traces import SkeletonSpan, SpanTreeItem
from palaver.traces.model import Span

SkeletonLimit = Annotated[int, QueryParameter(ge=1, le=5_000, description="Maximum number of spans.")]
Parent = Annotated[str | None, QueryParameter(max_length=32, description="List the children of this span.")]


class Stats(msgspec.Struct, frozen=True):
    """Statistics of traces, in chronological order."""

    data: list[views.StatRow]


class TraceController(ApiController):
    path = "/api/traces"

    settings: Settings
    run_query: views.TraceQueryRunner

    @get(operation_id="list_traces", summary="List traces, newest first, each with its root or earliest span")
    async def list_traces(
        self,
        request: ApiRequest,
        filter_: views.FilterText = None,
        search: views.SearchWords = None,
        since: views.Since = None,
        until: views.Until = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[views.TraceRow]:
        query = views.query_from_url(filter_, search, since, until)
        page = await self.run_query(
            query, span_queries.list_traces, caller_of(request).project, query, Window(limit, after)
        )
        return page.map(partial(make_view, views.TraceRow))

    @post(
        "/query",
        operation_id="query_traces",
        summary="Query traces by a filter on their root or earliest span",
        operation_class=operation_with_body(views.TraceQuery),
        status_code=200,
    )
    async def query_traces(self, request: ApiRequest) -> Page[views.TraceRow]:
        _, body = await read_body(request, self.settings, views.TraceQuery)
        query = body.query
        page = await self.run_query(query, span_queries.list_traces, caller_of(request).project, query, body.window)
        return page.map(partial(make_view, views.TraceRow))

    @get("/stats", operation_id="trace_stats", summary="Get trace counts, errors, durations, tokens and cost over time")
    async def trace_stats(
        self,
        request: ApiRequest,
        by: FromQuery[TimeStep] = "hour",
        group: FromQuery[StatsGroup | None] = None,
        filter_: views.FilterText = None,
        search: views.SearchWords = None,
        since: views.Since = None,
        until: views.Until = None,
    ) -> Stats:
        query = views.query_from_url(filter_, search, since, until)
        project = caller_of(request).project
        rows = await self.run_query(query, span_stats.trace_stats, project, by=by, group=group, query=query)
        return Stats([make_view(views.StatRow, row) for row in rows])

    @get("/{trace:str}", operation_id="get_trace", summary="Get an overview of a trace")
    async def get_trace(self, request: ApiRequest, trace: FromPath[str]) -> Response[views.TraceView]:
        trace_overview = await self.run_query(
            None, span_traces.get_trace_overview, caller_of(request).project, trace.lower()
        )
        if trace_overview is None:
            raise views.missing_trace(trace)
        return object_response(request, views.trace_view(trace_overview))

    @get(
        "/{trace:str}/tree",
        operation_id="get_trace_tree",
        summary="List the top-level spans of a trace, or the children of a span, in order of start time",
    )
    async def get_trace_tree(
        self, request: ApiRequest, trace: FromPath[str], parent: Parent = None, limit: Limit = 200, after: After = None
    ) -> Page[views.SpanTreeRow]:
        project, parent_id = caller_of(request).project, parent if parent is None else parent.lower()
        page = await self.run_query(None, _list_children, project, trace, parent_id, Window(limit, after))
        return page.map(partial(make_view, views.SpanTreeRow))

    @get(
        "/{trace:str}/skeleton",
        operation_id="get_trace_skeleton",
        summary="List all spans of a trace, without their content",
    )
    async def get_trace_skeleton(
        self, request: ApiRequest, trace: FromPath[str], limit: SkeletonLimit = 5_000, after: After = None
    ) -> Page[views.SkeletonRow]:
        page = await self.run_query(None, _list_skeleton, caller_of(request).project, trace, Window(limit, after))
        return page.map(partial(make_view, views.SkeletonRow))


def _list_children(db: Connection, project: str, trace: str, parent: str | None, window: Window) -> Page[SpanTreeItem]:
    _require_trace(db, project, trace)
    return span_traces.list_children(db, project, trace.lower(), parent=parent, window=window)


def _list_skeleton(db: Connection, project: str, trace: str, window: Window) -> Page[SkeletonSpan]:
    _require_trace(db, project, trace)
    return span_traces.list_skeleton(db, project, trace.lower(), window)


def _require_trace(db: Connection, project: str, trace: str) -> None:
    if span_queries.get_head_span(db, project, trace.lower()) is None:
        raise views.missing_trace(trace)


PartName = Literal[
    "attributes",
    "events",
    "links",
    "messages_in",
    "messages_out",
    "inputs",
    "outputs",
    "parameters",
    "tools",
    "exception",
    "status_message",
]
Part = Annotated[
    PartName | None, QueryParameter(description="Truncated part to return in full, as chunks of its JSON.")
]
Offset = Annotated[int, QueryParameter(ge=0, le=1 << 40, description="Number of characters of this JSON to skip.")]

MAX_INLINE_PART_BYTES = 64 * 1024
"""The strings in longer parts are truncated."""
MAX_SHORTENED_TEXT_CHARS = 8 * 1024
MAX_SHORTENED_PART_BYTES = 256 * 1024
"""Parts that are still longer are left empty."""
PIECE_CHARS = 256 * 1024
_EMPTY_PARTS: dict[str, Any] = {"attributes": {}, "parameters": {}, "inputs": None, "outputs": None, "exception": None}


class Record(Span, frozen=True, kw_only=True):
    """A span with its content. Long parts are truncated."""

    cut: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """The full length of each truncated part, in characters of JSON, by name."""


class PartPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of a part's JSON."""

    part: PartName
    offset: int
    total: int
    text: str
    next: int | None
    """The offset of the next chunk; null for the last one."""


class SpanController(ApiController):
    path = "/api/spans"

    settings: Settings
    run_query: views.TraceQueryRunner

    @post(
        "/query",
        operation_id="query_spans",
        summary="Query spans by a filter, newest first",
        operation_class=operation_with_body(views.TraceQuery),
        status_code=200,
    )
    async def query_spans(self, request: ApiRequest) -> Page[views.SpanRow]:
        _, body = await read_body(request, self.settings, views.TraceQuery)
        query = body.query
        page = await self.run_query(query, span_queries.list_spans, caller_of(request).project, query, body.window)
        return page.map(partial(make_view, views.SpanRow))

    @get(
        "/{trace:str}/{span:str}",
        operation_id="get_span",
        summary="Get a span; with part, the full content of a truncated part",
    )
    async def get_span(
        self, request: ApiRequest, trace: FromPath[str], span: FromPath[str], part: Part = None, offset: Offset = 0
    ) -> Response[Record | PartPiece]:
        project = caller_of(request).project
        if part is not None:
            return object_response(request, await self.run_query(None, _load_piece, project, trace, span, part, offset))
        return object_response(request, cast("Record", await self.run_query(None, _load_record, project, trace, span)))


def _load_parts(db: Connection, project: str, trace: str, span: str) -> dict[str, msgspec.Raw]:
    body = span_traces.get_span_body(db, project, trace.lower(), span.lower())
    if body is None:
        raise NotFound(f"Span {span[:80]!r} not found in trace {trace[:80]!r}.")
    return msgspec.json.decode(body, type=dict[str, msgspec.Raw])


def _load_record(db: Connection, project: str, trace: str, span: str) -> dict[str, msgspec.Raw]:
    parts = _load_parts(db, project, trace, span)
    cut: dict[str, int] = {}
    for name, raw in parts.items():
        if len(raw) > MAX_INLINE_PART_BYTES:
            parts[name] = _shorten_part(name, raw)
            cut[name] = len(bytes(raw).decode())
    start = msgspec.json.decode(parts["start"], type=msgspec.structs.fields(Span)[_START].type)
    parts["start"] = _encode_raw(format_timestamp(start))
    return parts | {"cut": _encode_raw(cut)} if cut else parts


def _shorten_part(name: str, raw: msgspec.Raw) -> msgspec.Raw:
    shortened = _encode_raw(shorten_texts(msgspec.json.decode(raw)))
    return shortened if len(shortened) <= MAX_SHORTENED_PART_BYTES else _encode_raw(_EMPTY_PARTS.get(name, []))


def shorten_texts(value: Any) -> Any:
    """Truncate each string in a JSON value to MAX_SHORTENED_TEXT_CHARS."""
    match value:
        case str():
            return value[:MAX_SHORTENED_TEXT_CHARS]
        case list():
            return [shorten_texts(item) for item in cast("list[Any]", value)]
        case dict():
            return {name: shorten_texts(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _load_piece(db: Connection, project: str, trace: str, span: str, part: PartName, offset: int) -> PartPiece:
    parts = _load_parts(db, project, trace, span)
    text = bytes(parts.get(part, b"null")).decode()
    end = offset + PIECE_CHARS
    next_offset = end if end < len(text) else None
    return PartPiece(part=part, offset=offset, total=len(text), text=text[offset:end], next=next_offset)


def _encode_raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.encode(value))


_START = Span.__struct_fields__.index("start")


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A score of a trace. Fields that don't apply to its source are omitted or null."""

    source: Literal["feedback", "review", "online"] = "feedback"
    """Where the score comes from: feedback on a run, an answer in a review, or a live evaluator."""
    name: str | UnsetType = UNSET
    """The key of the review's question, or the evaluator's name."""
    value: float | None
    """Feedback: 1 for up, 0 for down. Otherwise the score, if it is a number."""
    passed: bool | UnsetType = UNSET
    label: str | UnsetType = UNSET
    status: Literal["scored", "skipped", "error"] | UnsetType = UNSET
    """Only for scores of live evaluators."""
    reason: str | UnsetType = UNSET
    review: str | UnsetType = UNSET
    reviewer: str | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    """Set if the score is for the whole session up to this trace."""
    run: str | None
    message: str | None
    """The rated message, if the feedback names one."""
    comment: str
    user: str | None
    key: str | None
    created_at: Timestamp


class Scores(msgspec.Struct, frozen=True):
    """All scores of a trace: feedback, reviews, then live evaluators, each oldest first."""

    data: list[Score]


class TraceScoreController(ApiController):
    path = "/api/traces"

    database: Database

    @get(
        "/{trace:str}/scores",
        operation_id="list_trace_scores",
        summary="List the feedback, review answers and live evaluator scores of a trace",
    )
    async def list_trace_scores(self, request: ApiRequest, trace: FromPath[str]) -> Scores:
        return Scores(await self.database.read(_load_scores, caller_of(request).project, trace))


def _load_scores(db: Connection, project: str, trace: str) -> list[Score]:
    trace_id = trace.lower()
    _require_trace(db, project, trace)
    scores = [_feedback_score(entry) for entry in feedback.list_trace_feedback(db, project, trace_id)]
    for review in reviews.list_trace_reviews(db, project, trace_id):
        scores += _review_scores(review)
    return [*scores, *(_live_score(score) for score in live_evaluators.list_trace_scores(db, project, trace_id))]


def _feedback_score(entry: Feedback) -> Score:
    return Score(
        value=1.0 if entry.rating == "up" else 0.0,
        run=entry.run,
        message=entry.message or None,
        comment=entry.comment,
        user=entry.user or None,
        key=format_key_id(entry.key) if entry.key else None,
        created_at=format_timestamp(entry.created_at),
    )


def _review_scores(review: TraceReview) -> Iterator[Score]:
    for question in msgspec.convert(review.questions, list[Question]):
        value: Any = review.answer.answers.get(question.key)
        if value is None:
            continue
        is_key = review.answer.reviewer.startswith("key_")
        yield Score(
            source="review",
            name=question.key,
            value=float(value) if question.type in ("boolean", "score") else None,
            passed=value if question.type == "boolean" else UNSET,
            label=value if question.type in ("choice", "text") else UNSET,
            review=review.review,
            reviewer=review.answer.reviewer,
            run=None,
            message=None,
            comment=review.answer.comment,
            user=None if is_key else review.answer.reviewer,
            key=review.answer.reviewer if is_key else None,
            created_at=format_timestamp(review.answer.created_at),
        )


def _live_score(score: LiveScore) -> Score:
    return Score(
        source="online",
        name=score.name,
        value=score.score,
        passed=UNSET if score.passed is None else score.passed,
        label=UNSET if score.label is None else score.label,
        status=score.status,
        reason=score.reason or UNSET,
        rule=score.rule,
        session=UNSET if score.session is None else score.session,
        run=None,
        message=None,
        comment="",
        user=None,
        key=None,
        created_at=format_timestamp(score.created_at),
    )
