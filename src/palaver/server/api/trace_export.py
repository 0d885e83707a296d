"""GET /api/traces/export: traces as lines, one by one as they are read; as records, or as OTLP that we take back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from typing import Annotated, Any

from litestar import Response, get
from litestar.params import QueryParameter

from palaver.server.api.conventions import Asked, Window, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.run_views import Told
from palaver.server.api.trace_views import Asker, FilterText, Since, Until, Words, asked_by_url, missing_trace
from palaver.server.rate_limit import RateLimits
from palaver.server.request import ClientDisconnected, Exchange
from palaver.server.settings import Settings
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.queries import SpanQuery
from palaver.traces.stored_spans import ExportFormat, export_page

Format = Annotated[
    ExportFormat,
    QueryParameter(name="format", description="Records, or OTLP/JSON that /v1/traces takes: lines of either."),
]
Trace = Annotated[str | None, QueryParameter(max_length=64, description="This trace only.")]
TRACES = 50
"""Traces that are looked up at once,"""
SPANS = 50
"""and spans that are read."""
_KIND = "application/x-ndjson"
Headers = tuple[tuple[str, str], ...]
_HEADERS: Headers = (("content-type", _KIND), ("content-disposition", 'attachment; filename="traces.jsonl"'))


class TraceExportController(ApiController):
    path = "/api/traces/export"

    settings: Settings
    rate_limits: RateLimits
    run_query: Asker

    @get(
        operation_id="export_traces",
        summary="All spans of the traces that are asked for, as lines",
        media_type=_KIND,
    )
    async def export_traces(
        self,
        request: Asked,
        form: Format = "jsonl",
        trace: Trace = None,
        filter_: FilterText = None,
        search: Words = None,
        since: Since = None,
        until: Until = None,
    ) -> Response[Any]:
        query, caller = asked_by_url(filter_, search, since, until), caller_of(request)
        if trace is None:
            lines = _of_all(self.run_query, caller.project, query, form)
        elif await self.run_query(None, span_pages.get_head_span, caller.project, trace.lower()) is None:
            raise missing_trace(trace)
        else:
            lines = _of_trace(self.run_query, caller.project, trace.lower(), form)
        first = await anext(lines, b"")  # So that what is wrong with the question is told as such.

        async def told(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await tell(exchange, first, lines, self.settings.stream_stall)

        return Told(told)


# Reading


async def _of_all(ask: Asker, project: str, query: SpanQuery, form: ExportFormat) -> AsyncGenerator[bytes]:
    after: str | None = None
    while True:
        page = await ask(query, span_pages.list_traces, project, query, Window(TRACES, after))
        for row in page.data:
            async for lines in _of_trace(ask, project, row.trace_id, form):
                yield lines
        after = page.next
        if after is None:
            return


async def _of_trace(ask: Asker, project: str, trace: str, form: ExportFormat) -> AsyncGenerator[bytes]:
    after: str | None = None
    while True:
        lines, after = await ask(None, export_page, project, trace, form, Window(SPANS, after))
        if lines:
            yield lines
        if after is None:
            return


# Telling


async def tell(
    exchange: Exchange, first: bytes, lines: AsyncGenerator[bytes], stall: float, headers: Headers = _HEADERS
) -> None:
    """Send them as fast as they are taken; break off when the reader leaves, takes nothing, or may read no more."""
    loop = asyncio.get_running_loop()
    sending = loop.create_task(_send(exchange, first, lines, stall, headers))
    leaving = loop.create_task(_left(exchange))
    watched = exchange.authenticator.watch(exchange.caller, sending.cancel) if exchange.authenticator else nullcontext()
    try:
        with watched:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        is_gone = leaving.done()
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.wait([sending, leaving])
    if not sending.cancelled():
        sending.result()  # Its error is ours.
    elif not is_gone and exchange.writer is not None:
        exchange.writer.abort()  # So that nobody takes it for the whole.
    elif not is_gone:
        raise ClientDisconnected


async def _send(exchange: Exchange, first: bytes, lines: AsyncGenerator[bytes], stall: float, headers: Headers) -> None:
    await exchange.start_response(200, headers)
    async with aclosing(lines):
        await _put(exchange, first, stall)
        async for piece in lines:
            await _put(exchange, piece, stall)
    await exchange.send({"type": "http.response.body", "body": b"", "more_body": False})


async def _put(exchange: Exchange, body: bytes, stall: float) -> None:
    if not body:
        return
    try:
        async with asyncio.timeout(stall):
            await exchange.send({"type": "http.response.body", "body": body, "more_body": True})
    except TimeoutError:
        if exchange.writer is not None:
            exchange.writer.abort()
        raise


async def _left(exchange: Exchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass
