"""/api/traces/export and the HTML pages: traces and sessions as files, sent while they are read."""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.server.api import html_export
from palaver.server.api import trace_views as views
from palaver.server.api.conventions import NDJSON, ApiRequest, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.html_export import PAGE_POLICY
from palaver.server.api.streaming import Headers, stream_chunks
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import Settings
from palaver.storage.pagination import Window
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans.queries import SpanQuery
from palaver.traces.stored_spans import ExportFormat, export_page

Format = Annotated[
    ExportFormat,
    QueryParameter(name="format", description="One record per line, or OTLP/JSON lines that /v1/traces accepts."),
]
Trace = Annotated[str | None, QueryParameter(max_length=64, description="Export only this trace.")]
TRACE_BATCH_SIZE = 50
SPAN_BATCH_SIZE = 50
_HEADERS: Headers = (("content-type", NDJSON), ("content-disposition", 'attachment; filename="traces.jsonl"'))


class TraceExportController(ApiController):
    path = "/api/traces/export"

    settings: Settings
    rate_limits: RateLimits
    run_query: views.TraceQueryRunner

    @get(
        operation_id="export_traces",
        summary="Export all spans of the matching traces, as JSON Lines",
        media_type=NDJSON,
    )
    async def export_traces(
        self,
        request: ApiRequest,
        form: Format = "jsonl",
        trace: Trace = None,
        filter_: views.FilterText = None,
        search: views.SearchWords = None,
        since: views.Since = None,
        until: views.Until = None,
    ) -> Response[Any]:
        query, project = views.query_from_url(filter_, search, since, until), caller_of(request).project
        if trace is None:
            lines = _export_traces(self.run_query, project, query, form)
        elif await self.run_query(None, span_queries.get_head_span, project, trace.lower()) is None:
            raise views.missing_trace(trace)
        else:
            lines = _export_trace(self.run_query, project, trace.lower(), form)
        return await stream_chunks(request, lines, _HEADERS, self.rate_limits, self.settings)


async def _export_traces(
    run_query: views.TraceQueryRunner, project: str, query: SpanQuery, form: ExportFormat
) -> AsyncGenerator[bytes]:
    after: str | None = None
    while True:
        page = await run_query(query, span_queries.list_traces, project, query, Window(TRACE_BATCH_SIZE, after))
        for row in page.data:
            async for lines in _export_trace(run_query, project, row.trace_id, form):
                yield lines
        after = page.next
        if after is None:
            return


async def _export_trace(
    run_query: views.TraceQueryRunner, project: str, trace: str, form: ExportFormat
) -> AsyncGenerator[bytes]:
    after: str | None = None
    while True:
        lines, after = await run_query(None, export_page, project, trace, form, Window(SPAN_BATCH_SIZE, after))
        if lines:
            yield lines
        if after is None:
            return


P = ParamSpec("P")
T = TypeVar("T")

SessionName = Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="Name of the session.")]
_HTML = "text/html"


class TracePageController(ApiController):
    path = "/api"

    settings: Settings
    rate_limits: RateLimits
    run_query: views.TraceQueryRunner

    async def _read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run_query(None, work, *args, **kwargs)

    @get(
        "/traces/{trace:str}/export.html",
        operation_id="export_trace_page",
        summary="Export a trace as an HTML file, with its conversation and spans",
        media_type=_HTML,
    )
    async def export_trace_page(self, request: ApiRequest, trace: FromPath[str]) -> Response[Any]:
        trace_id = trace.lower()
        page = html_export.trace_page(self._read, caller_of(request).project, trace_id)
        headers = _html_headers(f"trace-{trace_id}.html")
        return await stream_chunks(request, page, headers, self.rate_limits, self.settings)

    @get(
        "/sessions/thread.html",
        operation_id="export_session_page",
        summary="Export a session's conversation as an HTML file",
        media_type=_HTML,
    )
    async def export_session_page(self, request: ApiRequest, session: SessionName) -> Response[Any]:
        page = html_export.session_page(self._read, caller_of(request).project, session)
        return await stream_chunks(request, page, _html_headers("session.html"), self.rate_limits, self.settings)


def _html_headers(name: str) -> Headers:
    """Return headers that make browsers save the file, and sandbox it if they display it. `name` is not escaped."""
    return (
        ("content-type", f"{_HTML}; charset=utf-8"),
        ("content-disposition", f'attachment; filename="{name}"'),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", f"{PAGE_POLICY}; sandbox"),
    )
