"""POST /v1/traces and /v1/logs: the OTLP receiver. Responses are in the encoding of the request.

Of log records, the events of spans are kept, where some instrumentations put messages. 200 means that spans and events
are stored. A temporary failure is 503, after which exporters retry. Spans that can never be stored are reported in a
200 (partial success), so that exporters don't retry.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from palaver.errors import DiskFull, Overloaded, PalaverError, UnsupportedMediaType
from palaver.protocols.base import HttpResponse
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.traces.decode_worker import RequestDecoder
from palaver.traces.writer import SpanWriter

if TYPE_CHECKING:
    from palaver.traces.ingest import TraceRequest
    from palaver.traces.otlp import RejectedSpan, WireFormat
    from palaver.traces.otlp.decompression import RequestLimits
    from palaver.traces.otlp.http import Signal

_RPC_CODES: Mapping[int, int] = {401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 429: 8, 500: 13, 503: 14}
"""google.rpc.Code by HTTP status."""
_INVALID_ARGUMENT = 3
"""The code for all other statuses."""


class OtlpReceiver:
    def __init__(
        self, writer: SpanWriter, decoder: RequestDecoder, settings: Settings, *, now: Callable[[], datetime]
    ) -> None:
        self._writer = writer
        self._decoder = decoder
        self._now = now
        self._settings = msgspec.structs.replace(settings, max_body=settings.otlp_max_body)

    async def response(self, exchange: Exchange, path: str) -> HttpResponse:
        """Store the spans or log records of a request, in the caller's project."""
        # Late: slow to import, and not every server receives spans. preload_decoder() has usually loaded it.
        from palaver.traces.otlp import encode_response, parse_media_type

        media_type = exchange.headers.get("content-type", "")
        wire_format = parse_media_type(media_type)
        self._writer.check_capacity()
        signal: Signal = "logs" if path.endswith("/logs") else "traces"
        store = self._store_events if signal == "logs" else self._store_spans
        try:
            rejected = await store(await self._read_request(exchange, media_type))
        except DiskFull as error:
            raise Overloaded(error.message) from None  # Exporters retry after a 503 only.
        return _otlp_response(200, encode_response(rejected, wire_format, signal), wire_format)

    async def _read_request(self, exchange: Exchange, media_type: str) -> "TraceRequest":
        from palaver.traces.ingest import TraceRequest

        return TraceRequest(
            project=exchange.caller.project,
            body=await exchange.body(self._settings),
            media_type=media_type,
            encoding=exchange.headers.get("content-encoding"),
            received_at=self._now(),
        )

    async def _store_spans(self, request: "TraceRequest") -> "list[RejectedSpan]":
        from palaver.traces.otlp import RejectedSpan

        with self._writer.reserve(len(request.body)):
            ingested = await self._writer.run_in_thread(self._decoder.decode, request, self._limits())
        del request  # Free the memory while the spans wait to be written.
        unwritten_count = await self._writer.write(ingested.rows)
        return [*ingested.rejected, *(RejectedSpan(0, "failed to store a span") for _ in range(unwritten_count))]

    async def _store_events(self, request: "TraceRequest") -> "list[RejectedSpan]":
        from palaver.traces.ingest import ingest_logs

        with self._writer.reserve(len(request.body)):
            ingested = await self._writer.run_in_thread(ingest_logs, request, self._writer.redact, self._limits())
            await self._writer.write_events(ingested.rows)
        return ingested.rejected

    def _limits(self) -> "RequestLimits":
        from palaver.traces.otlp.decompression import RequestLimits

        settings = self._settings
        return RequestLimits(
            compressed_bytes=settings.otlp_max_body,
            decompressed_bytes=settings.otlp_max_unpacked,
            ratio=settings.otlp_max_ratio,
        )

    async def close(self) -> None:
        """Write pending spans, and stop the threads and processes."""
        await self._writer.flush()
        await self._writer.run_in_thread(self._decoder.close)
        await self._writer.close()


def preload_decoder() -> None:
    """Import the decoder, called in a thread at start, so that the first request is fast."""
    import palaver.traces.ingest  # noqa: F401  # pyright: ignore[reportUnusedImport] - importing it takes time


def otlp_error(error: PalaverError, exchange: Exchange, *, status: int) -> HttpResponse:
    """Encode an error as a google.rpc.Status, in the encoding of the request if it has a valid one, else JSON."""
    from palaver.traces.otlp import encode_error, parse_media_type

    try:
        wire_format = parse_media_type(exchange.headers.get("content-type", ""))
    except UnsupportedMediaType:
        wire_format = "json"
    body = encode_error(error.message, wire_format, _RPC_CODES.get(status, _INVALID_ARGUMENT))
    return _otlp_response(status, body, wire_format)


def _otlp_response(status: int, body: bytes, wire_format: "WireFormat") -> HttpResponse:
    from palaver.traces.otlp import MEDIA_TYPES

    return HttpResponse(status=status, headers=(("content-type", MEDIA_TYPES[wire_format]),), body=body)
