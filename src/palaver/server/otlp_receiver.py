"""POST /v1/traces: spans that anybody's instrumentation sends over OTLP. Its answers are OTLP's, in the sender's form.

200 means that the spans are durable. What cannot be kept for a reason that passes is 503, so that exporters keep it and
send it again; what never can is told in a 200, so that they do not.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from palaver.errors import DiskFull, Overloaded, PalaverError, UnsupportedMediaType
from palaver.protocols.base import HttpResponse
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.traces.decode_worker import RequestDecoder
from palaver.traces.writer import SpanWriter

if TYPE_CHECKING:
    from palaver.traces.otlp import WireFormat

_RPC_CODES: Mapping[int, int] = {401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 429: 8, 500: 13, 503: 14}
"""Those of google.rpc.Code, by status."""
_INVALID_ARGUMENT = 3
"""All others: it is the request's fault, and the same again would not help."""


class OtlpReceiver:
    """Takes what is sent."""

    def __init__(
        self, writer: SpanWriter, reader: RequestDecoder, settings: Settings, *, now: Callable[[], datetime]
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._now = now
        self._settings = msgspec.structs.replace(settings, max_body=settings.otlp_max_body)

    async def answer(self, exchange: Exchange) -> HttpResponse:
        """Keep the spans of a request. The project is the caller's, whatever the spans say."""
        # Here, as it takes a while and not every server is sent any; at work it was loaded beside the REST API.
        from palaver.traces.ingest import TraceRequest
        from palaver.traces.otlp import RejectedSpan, RequestLimits, encode_response, parse_media_type

        media_type = exchange.headers.get("content-type", "")
        form = parse_media_type(media_type)
        self._writer.check()
        settings = self._settings
        limits = RequestLimits(
            wire=settings.otlp_max_body, unpacked=settings.otlp_max_unpacked, ratio=settings.otlp_max_ratio
        )
        body = await exchange.body(settings)
        with self._writer.holding(len(body)):
            sent = TraceRequest(
                project=exchange.caller.project,
                body=body,
                media_type=media_type,
                encoding=exchange.headers.get("content-encoding"),
                received_at=self._now(),
            )
            found = await self._writer.off(self._reader.take, sent, limits)
        del sent, body  # It need not stay in memory while its spans wait to be written.
        try:
            lost = await self._writer.write(found.rows)
        except DiskFull as error:
            raise Overloaded(error.message) from None  # An exporter keeps its spans for a 503 only.
        rejected = [*found.rejected, *(RejectedSpan(0, "a span could not be kept") for _ in range(lost))]
        return _otlp_answer(200, encode_response(rejected, form), form)

    async def close(self) -> None:
        """Keep what is on its way, and let go of what reads and writes."""
        await self._writer.flushed()
        await self._writer.off(self._reader.close)
        await self._writer.close()


def preload_decoder() -> None:
    """Load what reads spans, in a thread: whoever sends some first need not wait for it."""
    _intake()


@cache
def _intake() -> ModuleType:
    from palaver.traces import ingest

    return ingest


def otlp_error(error: PalaverError, exchange: Exchange, *, status: int) -> HttpResponse:
    """An error as a google.rpc.Status: in the sender's form, and as JSON where it has none."""
    from palaver.traces.otlp import encode_error, parse_media_type

    try:
        form = parse_media_type(exchange.headers.get("content-type", ""))
    except UnsupportedMediaType:
        form = "json"
    return _otlp_answer(status, encode_error(error.message, form, _RPC_CODES.get(status, _INVALID_ARGUMENT)), form)


def _otlp_answer(status: int, body: bytes, form: "WireFormat") -> HttpResponse:
    from palaver.traces.otlp import MEDIA_TYPES

    return HttpResponse(status=status, headers=(("content-type", MEDIA_TYPES[form]),), body=body)
