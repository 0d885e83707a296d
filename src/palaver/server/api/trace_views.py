"""Traces, spans and sessions as the REST API returns them, and the queries that select them."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import msgspec
from litestar.params import QueryParameter
from msgspec import Meta
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import InvalidJson, InvalidValue, NotFound, QueryTimeout
from palaver.server.api.conventions import Timestamp, make_view, parse_timestamp
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.driver_errors import query_timeout
from palaver.storage.pagination import Window
from palaver.storage.spans import filters as span_filters
from palaver.storage.spans.filters import find_unindexed_names
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.traces import TraceOverview

P = ParamSpec("P")
T = TypeVar("T")

Since = Annotated[
    str | None, QueryParameter(name="from", description="RFC 3339 timestamp: started at or after this time.")
]
Until = Annotated[str | None, QueryParameter(name="to", description="RFC 3339 timestamp: started before this time.")]
SearchWords = Annotated[
    str | None, QueryParameter(max_length=1_000, description='Words and "phrases" to search for; all must match.')
]
FilterText = Annotated[
    str | None,
    QueryParameter(name="filter", max_length=8_000, description="A filter as JSON, as in the body of a query."),
]
_Moment = Annotated[datetime, Meta(tz=True)]


class TraceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query. A filter is `{"field", "op", "value"}`, `{"attribute", …}`, or filters joined by `and` or `or`."""

    filter: Any = None
    """A filter; null for all."""
    search: Annotated[str, Meta(max_length=1_000)] | None = None
    """Words and "phrases" to search for; all must match."""
    since: _Moment | None = msgspec.field(default=None, name="from")
    """Started at or after this time."""
    until: _Moment | None = msgspec.field(default=None, name="to")
    """Started before this time."""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    """Maximum number of items."""
    after: Annotated[str, Meta(max_length=1_000)] | None = None
    """Cursor: the value of `next` on the previous page."""

    @property
    def query(self) -> SpanQuery:
        """Return the span query. Raises InvalidValue for an invalid filter."""
        parsed = None if self.filter is None else span_filters.parse_filter(self.filter)
        return SpanQuery(filter=parsed, search=self.search, since=self.since, until=self.until)

    @property
    def window(self) -> Window:
        return Window(self.limit, self.after)


class SpanRow(msgspec.Struct, frozen=True, kw_only=True):
    """A span in a list."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    status: str
    start: Timestamp
    duration_ms: float
    workflow: str | None
    session: str | None
    user: str | None
    model: str | None
    provider: str | None
    service: str | None
    run_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    preview_in: Any = msgspec.field(name="in")
    preview_out: Any = msgspec.field(name="out")


class TraceRow(SpanRow, frozen=True, kw_only=True):
    """A trace in a list, represented by its root or earliest span. Tokens and cost are totals of its model calls."""

    spans: int
    errors: int


class SpanTreeRow(SpanRow, frozen=True, kw_only=True):
    """A span in the span tree."""

    children: int
    descendants: int
    notes: tuple[str, ...]


class TraceView(msgspec.Struct, frozen=True, kw_only=True):
    """An overview of a trace."""

    trace_id: str
    root: TraceRow
    spans: int
    errors: int
    kinds: dict[str, int]
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    sessions: list[str]


class SkeletonRow(msgspec.Struct, frozen=True, kw_only=True):
    """A span in the outline of a trace."""

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    status: str
    start: Timestamp
    duration_ms: float
    tokens: int | None
    """Input and output tokens; null if unknown."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list, with the input of its first trace and the output of its last."""

    session: str
    first: Timestamp
    last: Timestamp
    traces: int
    spans: int
    preview_in: Any = msgspec.field(name="in")
    preview_out: Any = msgspec.field(name="out")


class StatRow(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the traces in one bucket."""

    at: Timestamp
    group: str | None
    traces: int
    errors: int
    p50_ms: float
    p95_ms: float
    input_tokens: int
    output_tokens: int
    cost: float


def trace_view(overview: TraceOverview) -> TraceView:
    root = make_view(TraceRow, overview.root)
    return make_view(TraceView, root, root=root, kinds=overview.kinds, sessions=overview.sessions)


def query_from_url(filter_: str | None, search: str | None, since: str | None, until: str | None) -> SpanQuery:
    """Build a span query from query parameters. Raises InvalidValue for an invalid filter or timestamp."""
    parsed = None
    if filter_ is not None:
        try:
            parsed = span_filters.parse_filter(json.decode(filter_.encode()), "?filter")
        except InvalidJson:
            raise InvalidValue("Invalid filter: not valid JSON.", pointer="?filter") from None
    return SpanQuery(
        filter=parsed, search=search, since=parse_timestamp(since, "?from"), until=parse_timestamp(until, "?to")
    )


class TraceQueryRunner:
    """Runs queries about traces with the time limit of the settings."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._seconds = settings.query_seconds

    async def __call__(
        self,
        query: SpanQuery | None,
        work: Callable[Concatenate[Connection, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work` in a read transaction. Raises QueryTimeout, which names unindexed fields of the filter."""

        def limited_work(db: Connection) -> T:
            with query_timeout(db, self._seconds):
                return work(db, *args, **kwargs)

        try:
            return await self._database.read(limited_work)
        except QueryTimeout as error:
            unindexed = find_unindexed_names(query.filter) if query is not None and query.filter is not None else []
            if unindexed:
                names = ", ".join(name[:80] for name in unindexed[:5])
                raise QueryTimeout(f"{error.message} No index covers {names}.") from None
            raise


def missing_trace(trace: str) -> NotFound:
    return NotFound(f"Trace {trace[:80]!r} not found.")
