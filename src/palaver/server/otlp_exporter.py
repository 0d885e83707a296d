"""Export the spans of our own runs to an OTLP endpoint: a collector, or another server like this one.

In the background: pending spans are bounded, and dropped and counted beyond that. Failed requests are retried. Spans
that were sent to us are not exported, so nothing loops, even if the endpoint is this server.
"""

import asyncio
import contextvars
import gzip
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import msgspec

from palaver.errors import PalaverError, SettingsError
from palaver.outbound import check_headers, check_url, client, printable, read_limited
from palaver.server.settings import Settings

if TYPE_CHECKING:
    import httpx

    from palaver.traces.model import Span
    from palaver.traces.otlp import EncodedRequest, WireFormat


_TRACES_PATH = "/v1/traces"


class OtlpEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    headers: dict[str, str] = {}
    wire_format: "WireFormat" = "protobuf"


def configured_endpoint(settings: Settings) -> OtlpEndpoint | None:
    """The configured endpoint, if any. Raises SettingsError, which never contains a header's value."""
    if not settings.otlp_endpoint:
        return None
    return OtlpEndpoint(
        url=_endpoint_url(settings.otlp_endpoint),
        headers=parse_headers(settings.otlp_headers),
        wire_format="json" if settings.otlp_protocol == "http/json" else "protobuf",
    )


def mask_headers(headers: str) -> str:
    return "***" if headers else ""


def parse_headers(given: str) -> dict[str, str]:
    """Parse `name=value,other=value`, percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS."""
    headers: dict[str, str] = {}
    for pair in filter(None, map(str.strip, given.split(","))):
        name, is_there, value = pair.partition("=")
        if not is_there:
            raise SettingsError("Setting otlp_headers: write name=value, and commas between several.")
        headers[name.strip().lower()] = unquote(value.strip())
    try:
        check_headers(headers)
    except PalaverError:
        raise SettingsError("Setting otlp_headers: there is a header in it that HTTP cannot carry.") from None
    return headers


def _endpoint_url(given: str) -> str:
    """The URL to send to; without a path, OTLP's default path."""
    import httpx

    try:
        check_url(given)
    except PalaverError as error:
        told = error.message.replace("Pass credentials with headers=.", "Put credentials into otlp_headers.")
        raise SettingsError(f"Setting otlp_endpoint: {told}") from None
    url = httpx.URL(given)
    return str(url.copy_with(path=_TRACES_PATH)) if url.path in ("", "/") else given


log = logging.getLogger("palaver.traces")

SpanSink = Callable[[Sequence["Span"]], None]

MAX_PENDING_BYTES = 16 * 1024 * 1024
"""Approximate size of pending spans."""
_REQUEST_TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 64 * 1024
_BATCH_SPANS = 100
"""Spans per request."""
_SPAN_OVERHEAD_BYTES = 512
"""Size of an empty span."""
_RETRYABLE_STATUSES = frozenset({408, 429, 502, 503, 504})
"""Statuses after which OTLP allows a retry."""


class ExportTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Delays and timeouts, in seconds."""

    batch_delay_s: float = 1.0
    """How long to collect spans for a request."""
    first_retry_s: float = 1.0
    """Delay before the first retry; it doubles for each further one,"""
    max_retry_s: float = 30.0
    """up to this."""
    give_up_s: float = 300.0
    """How long to retry a request before dropping it."""
    close_timeout_s: float = 5.0
    """How long close() waits for pending spans."""


DEFAULT_TIMING = ExportTiming()


class _ExportFailure(NamedTuple):
    """Why a request failed, whether it may be retried, and after how many seconds."""

    why: str
    passes: bool
    after: float = 0.0


class OtlpExporter:
    """Exports spans. Used on one event loop; encoding runs in a thread."""

    def __init__(
        self,
        endpoint: OtlpEndpoint | None,
        *,
        redact: Callable[["Span"], "Span"],
        max_pending_bytes: int = MAX_PENDING_BYTES,
        timing: ExportTiming = DEFAULT_TIMING,
    ) -> None:
        self.endpoint = endpoint
        self._redact = redact
        self._room = max_pending_bytes
        self._pace = timing
        self._waiting: deque[Span] = deque()
        self._held = 0
        self._enough = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._http: httpx.AsyncClient | None = None
        self._is_ailing = False
        self._is_closing = False
        self.sent = 0
        self.dropped = 0
        """Spans that were not sent, or rejected."""

    def put(self, spans: Sequence["Span"]) -> None:
        """Queue spans; drop those that exceed the limit."""
        if self.endpoint is None:
            return
        for span in spans:
            size = _span_bytes(span)
            if self._is_closing or (self._held and self._held + size > self._room):
                self._drop(1, "spans come faster than it takes them")
                continue
            self._held += size
            self._waiting.append(span)
        if len(self._waiting) >= _BATCH_SPANS:
            self._enough.set()
        if self._waiting and self._working is None:
            # In an empty context: HTTP instrumentation must not count this as part of a run.
            context = contextvars.Context()
            self._working = asyncio.get_running_loop().create_task(self._work(self.endpoint), context=context)

    async def close(self) -> None:
        """Send pending spans, for a limited time."""
        self._is_closing = True
        self._enough.set()
        if self._working is not None:
            _, late = await asyncio.wait([self._working], timeout=self._pace.close_timeout_s)
            for task in late:
                task.cancel()
                await asyncio.wait([task])
        if self._waiting:
            self._drop(len(self._waiting), "the server has stopped")
            self._waiting.clear()
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    # Work

    async def _work(self, to: OtlpEndpoint) -> None:
        try:
            while self._waiting:
                if not self._is_closing and len(self._waiting) < _BATCH_SPANS:
                    self._enough.clear()
                    timer = asyncio.get_running_loop().call_later(self._pace.batch_delay_s, self._enough.set)
                    await self._enough.wait()
                    timer.cancel()
                await self._send_some(to)
        finally:
            self._working = None

    async def _send_some(self, to: OtlpEndpoint) -> None:
        some = [self._waiting.popleft() for _ in range(min(_BATCH_SPANS, len(self._waiting)))]
        size, left = sum(map(_span_bytes, some)), len(some)
        try:
            requests = await asyncio.to_thread(_encode_requests, some, self._redact, to.wire_format)
            lost = len(some) - sum(request.spans for request in requests)
            if lost:
                self._drop(lost, "they could not be written")
            left -= lost
            for request in requests:
                await self._deliver(request, to)
                left -= request.spans
        except asyncio.CancelledError:
            self._drop(left, "the server has stopped")
            raise
        except Exception:  # Don't lose the spans after these.
            log.exception("Spans could not be sent on")
            self._drop(left, "something broke")
        finally:
            self._held -= size

    async def _deliver(self, request: "EncodedRequest", to: OtlpEndpoint) -> None:
        """Send a request, with retries."""
        pause, until = self._pace.first_retry_s, time.monotonic() + self._pace.give_up_s
        while True:
            trouble = await self._sent(request, to)
            if trouble is None:
                return
            if not trouble.passes:
                self._drop(request.spans, trouble.why)
                return
            self._say(trouble.why)
            wait = max(trouble.after, pause * random.uniform(0.5, 1.0))  # noqa: S311 -- no secret
            if time.monotonic() + wait > until:
                self._drop(request.spans, trouble.why)
                return
            await asyncio.sleep(wait)
            pause = min(2 * pause, self._pace.max_retry_s)

    async def _sent(self, request: "EncodedRequest", to: OtlpEndpoint) -> _ExportFailure | None:
        import httpx

        from palaver.traces.otlp import MEDIA_TYPES, rejected_span_count

        http = self._http = self._http or client(headers=to.headers, timeout=_REQUEST_TIMEOUT_S)
        headers = {"content-type": MEDIA_TYPES[to.wire_format], "content-encoding": "gzip"}
        body = b""
        try:
            async with http.stream("POST", to.url, content=request.body, headers=headers) as response:
                with suppress(PalaverError):  # Too long, or compressed; the status counts.
                    body = await read_limited(response, _MAX_ANSWER_BYTES)
        except httpx.HTTPError as error:
            return _ExportFailure(f"it cannot be reached ({type(error).__name__})", passes=True)
        status = response.status_code
        if 200 <= status < 300:
            self._taken(request, rejected_span_count(body, to.wire_format))
            return None
        after = _parse_retry_after(response.headers.get("retry-after", ""))
        return _ExportFailure(f"it answered {status}", passes=status in _RETRYABLE_STATUSES, after=after)

    def _taken(self, request: "EncodedRequest", refused: int) -> None:
        refused = min(refused, request.spans)
        self.sent += request.spans - refused
        if refused:
            self._drop(refused, "it refused some of them")
        elif self._is_ailing:
            self._is_ailing = False
            log.info("The OTLP endpoint takes spans again.")

    def _drop(self, count: int, why: str) -> None:
        self.dropped += count
        self._say(why)

    def _say(self, why: str) -> None:
        """Log the first failure; the next one only after a success."""
        if not self._is_ailing:
            self._is_ailing = True
            log.warning("Spans are not, or not all, sent on to the OTLP endpoint: %s.", printable(why))


def combine_sinks(keep: SpanSink, sender: OtlpExporter) -> SpanSink:
    """A sink that stores spans and exports them, if there is an endpoint."""
    if sender.endpoint is None:
        return keep
    put = sender.put

    def sink(spans: Sequence["Span"]) -> None:
        keep(spans)
        put(spans)

    return sink


def _encode_requests(
    spans: Sequence["Span"], redact: Callable[["Span"], "Span"], form: "WireFormat"
) -> "list[EncodedRequest]":
    """Encode requests, in a thread. Spans that cannot be redacted or encoded are left out."""
    from palaver.traces.otlp import EncodedRequest, encode_requests

    clean: list[Span] = []
    for span in spans:
        try:
            clean.append(redact(span))
        except Exception:  # Keep the others.
            log.exception("A span could not be sent on")
    return [EncodedRequest(gzip.compress(body, 1), count) for body, count in encode_requests(clean, form)]


def _parse_retry_after(retry_after: str) -> float:
    """Seconds of a Retry-After header, which may be a date."""
    if retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        return (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _span_bytes(span: "Span") -> int:
    """Approximate size; called on the event loop, so it only adds up lengths."""
    return _SPAN_OVERHEAD_BYTES + sum(len(value) for value in span.attributes.values() if isinstance(value, str))
