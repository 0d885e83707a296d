"""Export the spans of our own runs to an OTLP endpoint: a collector, or another server like this one.

Spans are sent in the background. Those beyond the limit of pending bytes are dropped and counted. Failed requests are
retried. Spans that were received over OTLP are not exported, so nothing loops, even if the endpoint is this server.
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
    """Return the configured endpoint, if any. Raises SettingsError, which never contains a header's value."""
    if not settings.otlp_endpoint:
        return None
    return OtlpEndpoint(
        url=_endpoint_url(settings.otlp_endpoint),
        headers=parse_headers(settings.otlp_headers),
        wire_format="json" if settings.otlp_protocol == "http/json" else "protobuf",
    )


def mask_headers(headers: str) -> str:
    return "***" if headers else ""


def parse_headers(text: str) -> dict[str, str]:
    """Parse `name=value,other=value`, percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS."""
    headers: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, separator, value = pair.partition("=")
        if not separator:
            raise SettingsError("Invalid otlp_headers: expected name=value pairs separated by commas.")
        headers[name.strip().lower()] = unquote(value.strip())
    try:
        check_headers(headers)
    except PalaverError:
        raise SettingsError("Invalid otlp_headers: contains an invalid HTTP header.") from None
    return headers


def _endpoint_url(text: str) -> str:
    """Return the URL to send to, with OTLP's default path if it has none."""
    import httpx

    try:
        check_url(text)
    except PalaverError as error:
        has_credentials = "@" in text.partition("://")[2].partition("/")[0]
        problem = (
            "the URL must not contain credentials. Use otlp_headers instead." if has_credentials else error.message
        )
        raise SettingsError(f"Invalid otlp_endpoint: {problem}") from None
    url = httpx.URL(text)
    return str(url.copy_with(path=_TRACES_PATH)) if url.path in ("", "/") else text


log = logging.getLogger("palaver.traces")

SpanSink = Callable[[Sequence["Span"]], None]

MAX_PENDING_BYTES = 16 * 1024 * 1024
"""Maximum size of pending spans, approximately."""
_REQUEST_TIMEOUT_S = 10.0
_MAX_RESPONSE_BYTES = 64 * 1024
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
    """Delay before the first retry; it doubles for each further one."""
    max_retry_s: float = 30.0
    """Maximum delay between retries."""
    give_up_s: float = 300.0
    """How long to retry a request before dropping it."""
    close_timeout_s: float = 5.0
    """How long close() waits for pending spans."""


DEFAULT_TIMING = ExportTiming()


class _ExportFailure(NamedTuple):
    """Why a request failed, whether it may be retried, and after how many seconds."""

    reason: str
    is_temporary: bool
    retry_after_s: float = 0.0


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
        self._max_pending_bytes = max_pending_bytes
        self._timing = timing
        self._pending: deque[Span] = deque()
        self._pending_bytes = 0
        self._batch_ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: httpx.AsyncClient | None = None
        self._is_failing = False
        self._is_closing = False
        self.sent = 0
        self.dropped = 0
        """Number of spans that were not sent, or rejected."""

    def put(self, spans: Sequence["Span"]) -> None:
        """Queue spans; drop spans beyond the limit."""
        if self.endpoint is None:
            return
        for span in spans:
            size = _span_bytes(span)
            if self._is_closing or (self._pending_bytes and self._pending_bytes + size > self._max_pending_bytes):
                self._drop(1, "too many spans are pending")
                continue
            self._pending_bytes += size
            self._pending.append(span)
        if len(self._pending) >= _BATCH_SPANS:
            self._batch_ready.set()
        if self._pending and self._task is None:
            # In an empty context: HTTP instrumentation must not count this as part of a run.
            context = contextvars.Context()
            self._task = asyncio.get_running_loop().create_task(self._run(self.endpoint), context=context)

    async def close(self) -> None:
        """Send pending spans, for a limited time."""
        self._is_closing = True
        self._batch_ready.set()
        if self._task is not None:
            _, unfinished = await asyncio.wait([self._task], timeout=self._timing.close_timeout_s)
            for task in unfinished:
                task.cancel()
                await asyncio.wait([task])
        if self._pending:
            self._drop(len(self._pending), "the server stopped before all spans were sent")
            self._pending.clear()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    # Sending

    async def _run(self, endpoint: OtlpEndpoint) -> None:
        try:
            while self._pending:
                if not self._is_closing and len(self._pending) < _BATCH_SPANS:
                    self._batch_ready.clear()
                    timer = asyncio.get_running_loop().call_later(self._timing.batch_delay_s, self._batch_ready.set)
                    await self._batch_ready.wait()
                    timer.cancel()
                await self._send_batch(endpoint)
        finally:
            self._task = None

    async def _send_batch(self, endpoint: OtlpEndpoint) -> None:
        batch = [self._pending.popleft() for _ in range(min(_BATCH_SPANS, len(self._pending)))]
        size, unsent = sum(map(_span_bytes, batch)), len(batch)
        try:
            requests = await asyncio.to_thread(_encode_requests, batch, self._redact, endpoint.wire_format)
            lost_count = len(batch) - sum(request.spans for request in requests)
            if lost_count:
                self._drop(lost_count, "some spans could not be encoded")
            unsent -= lost_count
            for request in requests:
                await self._deliver(request, endpoint)
                unsent -= request.spans
        except asyncio.CancelledError:
            self._drop(unsent, "the server stopped before all spans were sent")
            raise
        except Exception:  # Don't lose the spans after these.
            log.exception("Failed to export spans")
            self._drop(unsent, "internal error")
        finally:
            self._pending_bytes -= size

    async def _deliver(self, request: "EncodedRequest", endpoint: OtlpEndpoint) -> None:
        """Send a request, with retries."""
        delay, deadline = self._timing.first_retry_s, time.monotonic() + self._timing.give_up_s
        while True:
            failure = await self._send(request, endpoint)
            if failure is None:
                return
            wait = max(failure.retry_after_s, delay * random.uniform(0.5, 1.0))  # noqa: S311 -- no secret
            if not failure.is_temporary or time.monotonic() + wait > deadline:
                self._drop(request.spans, failure.reason)
                return
            self._log_failure(failure.reason)
            await asyncio.sleep(wait)
            delay = min(2 * delay, self._timing.max_retry_s)

    async def _send(self, request: "EncodedRequest", endpoint: OtlpEndpoint) -> _ExportFailure | None:
        import httpx

        from palaver.traces.otlp import MEDIA_TYPES, rejected_span_count

        http = self._client = self._client or client(headers=endpoint.headers, timeout=_REQUEST_TIMEOUT_S)
        headers = {"content-type": MEDIA_TYPES[endpoint.wire_format], "content-encoding": "gzip"}
        body = b""
        try:
            async with http.stream("POST", endpoint.url, content=request.body, headers=headers) as response:
                with suppress(PalaverError):  # Too long, or compressed; the status counts.
                    body = await read_limited(response, _MAX_RESPONSE_BYTES)
        except httpx.HTTPError as error:
            return _ExportFailure(f"the request failed ({type(error).__name__})", is_temporary=True)
        status = response.status_code
        if 200 <= status < 300:
            self._on_accepted(request, rejected_span_count(body, endpoint.wire_format))
            return None
        delay = _parse_retry_after(response.headers.get("retry-after", ""))
        return _ExportFailure(
            f"it returned HTTP {status}", is_temporary=status in _RETRYABLE_STATUSES, retry_after_s=delay
        )

    def _on_accepted(self, request: "EncodedRequest", rejected: int) -> None:
        rejected = min(rejected, request.spans)
        self.sent += request.spans - rejected
        if rejected:
            self._drop(rejected, "it rejected some spans")
        elif self._is_failing:
            self._is_failing = False
            log.info("The OTLP endpoint accepts spans again.")

    def _drop(self, count: int, reason: str) -> None:
        self.dropped += count
        self._log_failure(reason)

    def _log_failure(self, reason: str) -> None:
        """Log the first failure; the next one only after a success."""
        if not self._is_failing:
            self._is_failing = True
            log.warning("Failed to export spans to the OTLP endpoint: %s.", printable(reason))


def combine_sinks(store: SpanSink, exporter: OtlpExporter) -> SpanSink:
    """Return a sink that stores spans and, if there is an endpoint, exports them."""
    if exporter.endpoint is None:
        return store
    put = exporter.put

    def sink(spans: Sequence["Span"]) -> None:
        store(spans)
        put(spans)

    return sink


def _encode_requests(
    spans: Sequence["Span"], redact: Callable[["Span"], "Span"], wire_format: "WireFormat"
) -> "list[EncodedRequest]":
    """Encode requests, in a thread. Spans that cannot be redacted or encoded are left out."""
    from palaver.traces.otlp import EncodedRequest, encode_requests

    redacted: list[Span] = []
    for span in spans:
        try:
            redacted.append(redact(span))
        except Exception:  # Keep the others.
            log.exception("Failed to redact a span for export")
    return [EncodedRequest(gzip.compress(body, 1), count) for body, count in encode_requests(redacted, wire_format)]


def _parse_retry_after(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, which may be a date."""
    if retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        return (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _span_bytes(span: "Span") -> int:
    """Return the approximate size; called on the event loop, so it only adds up lengths."""
    return _SPAN_OVERHEAD_BYTES + sum(len(value) for value in span.attributes.values() if isinstance(value, str))
