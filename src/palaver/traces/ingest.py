"""From a request body to database rows: decompress, decode, map, redact, and build the columns of each span.

No I/O, but slow enough to need a thread. Spans are processed one by one, so that only bad ones are rejected. A span
that cannot be redacted is not stored. Columns are bounded to what both databases index; the body holds the whole
record.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias, assert_never

import msgspec

from palaver.core import json
from palaver.core.extraction import CELL, Preview, preview, preview_messages
from palaver.core.extraction.previews import ChatPreview, EmptyPreview, JsonPreview, TextPreview
from palaver.core.extraction.truncation import grapheme_boundary, json_excerpt
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.storage.spans.full_text import normalize_words
from palaver.storage.spans.span_logs import SpanLogRow
from palaver.storage.spans.writes import SpanRow, compress_body
from palaver.traces.model import RawSpan, Span, SpanEvent
from palaver.traces.otlp import RejectedSpan, decode_log_request, decode_request
from palaver.traces.otlp.decompression import DEFAULT_LIMITS, RequestLimits, decompress
from palaver.traces.otlp.limits import MAX_EVENTS, MAX_SPAN_BYTES
from palaver.traces.span_mapper import to_span

MAX_INDEXED_CHARS = 256
"""Maximum length of a column that may have an index."""
MAX_LABEL_CHARS = 2_000
"""Maximum length of a column without an index."""
MAX_SEARCH_BYTES = 32 * 1024
"""Maximum size of the messages' text for full-text search."""
_MIN_CUT_PREVIEW_CHARS = 100
"""A preview of at least this length may end in a truncated word."""
MAX_ATTRIBUTE_CHARS = 1_000
"""Maximum length of one attribute for filters."""
MAX_ATTRIBUTES_CHARS = 64 * 1024
"""Maximum length of all attributes together for filters."""
_MAX_INT64 = (1 << 63) - 1
_INT64_RANGE = range(-_MAX_INT64 - 1, _MAX_INT64 + 1)
_ESCAPED_NUL = b"\\u0000"


def build_row(span: Span) -> SpanRow:
    preview_in, preview_out = input_preview(span), output_preview(span)
    usage = span.usage
    return SpanRow(
        project=span.project,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        start=span.start,
        duration_ms=_finite(span.duration_ms) or 0.0,
        kind=span.kind,
        status=span.status,
        name=_truncate_column(span.name, MAX_LABEL_CHARS) or "unnamed",
        status_message=_truncate_column(span.status_message, MAX_LABEL_CHARS),
        model=_truncate_column(span.model),
        provider=_truncate_column(span.provider),
        finish=_truncate_column(span.finish),
        session=_truncate_column(span.session),
        user=_truncate_column(span.user),
        workflow=_truncate_column(span.workflow),
        run_id=_truncate_column(span.run_id),
        service=_truncate_column(span.service),
        scope=_truncate_column(span.scope),
        tool=_truncate_column(span.tool.name if span.tool else None),
        exception=_truncate_column(span.exception.type if span.exception else None),
        input_tokens=None if usage is None else min(usage.input_tokens, _MAX_INT64),
        output_tokens=None if usage is None else min(usage.output_tokens, _MAX_INT64),
        cost=_finite(span.cost),
        cost_source=span.cost_source,
        preview_in=json.encode(preview_in),
        preview_out=json.encode(preview_out),
        words=normalize_words(_search_text(span, preview_in, preview_out)),
        labels=encode_filter_attributes(span.attributes),
        body=compress_body(_encode_span(span)),
    )


def _encode_span(span: Span) -> bytes:
    try:
        return json.encode(span)
    except UnicodeEncodeError:  # A lone surrogate, which JSON can't encode.
        return json.encode(json.to_builtins(span))


# Previews


def input_preview(span: Span) -> Preview:
    """Preview the last user message, or else the inputs."""
    return (
        preview_messages(span.messages_in, "input", CELL) if span.messages_in else preview(span.inputs, "input", CELL)
    )


def output_preview(span: Span) -> Preview:
    """Preview the last answer, or else the outputs, or else the error."""
    result = preview_messages(span.messages_out, "output", CELL) if span.messages_out else EmptyPreview()
    if not result.text and span.outputs is not None:
        value = preview(span.outputs, "output", CELL)
        result = result if isinstance(value, EmptyPreview) else value
    if result.text or span.status != "error":
        return result
    error = span.exception.message if span.exception and span.exception.message else span.status_message
    return preview({"output": error}, "output", CELL) if error else result


# Words


def _search_text(span: Span, *previews: Preview) -> str:
    """Return names, the beginning of the messages, and the previews where they differ."""
    tool = span.tool.name if span.tool else None
    error = span.exception.message if span.exception else None
    names = (span.name, span.workflow, span.model, span.service, tool, error, span.status_message)
    text = " ".join([*(name[:MAX_LABEL_CHARS] for name in names if name), *_leading_texts(span)])
    for item in previews:
        excerpt = _preview_text(item)
        if excerpt and not _contains_words(text, excerpt):  # Most previews repeat a message.
            text = f"{text} {excerpt}"
    return text


def _contains_words(text: str, excerpt: str) -> bool:
    """Whether `text` contains the preview as whole words. The last word of a long preview may be truncated."""
    return f" {excerpt} " in f" {text} " or (len(excerpt) >= _MIN_CUT_PREVIEW_CHARS and f" {excerpt}" in text)


def _preview_text(result: Preview) -> str:
    match result:
        case TextPreview(body=body) | JsonPreview(body=body):
            return body
        case ChatPreview(text=text) | EmptyPreview(text=text):
            return text
        case _:
            assert_never(result)


def _leading_texts(span: Span) -> Iterator[str]:
    remaining = MAX_SEARCH_BYTES
    for message in (*span.messages_in, *span.messages_out):
        for text in _message_texts(message, remaining):
            start = json.replace_surrogates(text[:remaining]).encode()[:remaining]
            yield start.decode(errors="ignore")
            remaining -= len(start)
            if remaining <= 0:
                return


def _message_texts(message: Message, limit: int) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text) | Reasoning(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield name
                yield arguments
            case ToolResult(output=output):
                yield output if isinstance(output, str) else json_excerpt(output, limit).text
            case File(filename=filename):
                yield filename or ""
            case Data(name=name):
                yield name
            case _:
                assert_never(part)


# Attributes


def encode_filter_attributes(attributes: dict[str, Any]) -> str:
    """Encode the attributes that filters read: texts truncated, lists and objects as text."""
    values: dict[str, Any] = {}
    remaining = MAX_ATTRIBUTES_CHARS
    for name, value in attributes.items():
        shortened = value[:MAX_ATTRIBUTE_CHARS] if type(value) is str else _filter_value(value)
        remaining -= len(name) + (len(shortened) if type(shortened) is str else 8)
        if remaining < 0:
            break
        values[name] = shortened
    try:
        encoded = json.encode(values)
    except UnicodeEncodeError:  # A lone surrogate.
        encoded = _ESCAPED_NUL
    if _ESCAPED_NUL in encoded:  # Rare, so that texts need not be checked one by one.
        values = {
            _storable_text(name): _storable_text(value) if type(value) is str else value
            for name, value in values.items()
        }
        encoded = json.encode(values)
    return encoded.decode()


def _filter_value(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int():
            return value if value in _INT64_RANGE else str(value)[:MAX_ATTRIBUTE_CHARS]
        case float():
            return _finite(value)
        case str():
            return value[:MAX_ATTRIBUTE_CHARS]
        case _:
            return json_excerpt(value, MAX_ATTRIBUTE_CHARS).text[:MAX_ATTRIBUTE_CHARS]


# Texts and numbers


def _truncate_column(text: str | None, max_chars: int = MAX_INDEXED_CHARS) -> str | None:
    if not text:
        return None
    return _storable_text(text if len(text) <= max_chars else text[: grapheme_boundary(text, max_chars)])


def _storable_text(text: str) -> str:
    """Replace characters that either database rejects."""
    if text.isascii() and "\0" not in text:  # The common case, for dozens of texts per span.
        return text
    return json.replace_surrogates(text).replace("\0", "\ufffd")


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


RedactSpan: TypeAlias = Callable[[Span], Span]
"""Returns a span without what must not be stored."""

log = logging.getLogger("palaver.traces")


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for /v1/traces or /v1/logs, not yet decoded."""

    project: str
    """From the sender's credential; nothing in the body can set it."""
    body: bytes
    media_type: str
    encoding: str | None = None
    received_at: datetime


class IngestResult(msgspec.Struct, frozen=True):
    rows: list[SpanRow]
    rejected: list[RejectedSpan]
    pending: int = 0
    """Number of notices about unfinished spans, which are neither stored nor rejected."""


def ingest_request(request: TraceRequest, redact: RedactSpan, limits: RequestLimits = DEFAULT_LIMITS) -> IngestResult:
    """Build the rows of a request. Raises InvalidBody, TooLarge or UnsupportedMediaType."""
    batch = decode_request(
        decompress(request.body, request.encoding, limits), request.media_type, request.received_at, limits
    )
    rows: list[SpanRow] = []
    rejected = list(batch.rejected)
    for index, raw in enumerate(batch.spans):
        row = _build_row_or_log(lambda raw=raw: redact(to_span(raw, project=request.project)), raw)
        if row is None:
            rejected.append(RejectedSpan(index, f"span {raw.span_id} could not be processed"))
        else:
            rows.append(row)
    return IngestResult(rows, rejected, batch.pending)


# Events from log records


class LogIngestResult(msgspec.Struct, frozen=True):
    rows: list[SpanLogRow]
    rejected: list[RejectedSpan]


def ingest_logs(request: TraceRequest, redact: RedactSpan, limits: RequestLimits = DEFAULT_LIMITS) -> LogIngestResult:
    """Build the rows of a request for /v1/logs, one per span. Raises as `ingest_request` does."""
    body = decompress(request.body, request.encoding, limits)
    batch = decode_log_request(body, request.media_type, request.received_at, limits)
    by_span: dict[tuple[str, str], list[SpanEvent]] = {}
    for item in batch.events:
        by_span.setdefault((item.trace_id, item.span_id), []).append(item.event)
    rows: list[SpanLogRow] = []
    rejected = list(batch.rejected)
    for (trace_id, span_id), events in by_span.items():
        carrier = Span(
            project=request.project,
            trace_id=trace_id,
            span_id=span_id,
            start=request.received_at,
            events=tuple(events[:MAX_EVENTS]),
        )
        try:
            encoded = _encode_events(redact(carrier).events)
        except Exception:  # As for spans: events that cannot be redacted are not stored.
            log.exception("Failed to process log records of span %s of trace %s", span_id, trace_id)
            rejected.append(RejectedSpan(0, f"events of span {span_id} could not be processed", "logRecords"))
            continue
        rows.append(
            SpanLogRow(
                project=request.project,
                trace_id=trace_id,
                span_id=span_id,
                received_at=request.received_at,
                body=compress_body(encoded),
            )
        )
    return LogIngestResult(rows, rejected)


class _LoggedEvents(msgspec.Struct, frozen=True):
    """An object, which `compress_body` requires."""

    events: tuple[SpanEvent, ...]


_decode_span = msgspec.json.Decoder(Span).decode
_decode_events = msgspec.json.Decoder(_LoggedEvents).decode


def _encode_events(events: tuple[SpanEvent, ...]) -> bytes:
    return json.encode(_LoggedEvents(events))


def rebuild_span(body: bytes, logged: Sequence[bytes], redact: RedactSpan) -> SpanRow | None:
    """Build the row of a stored span anew, with further events; None if they change nothing or don't fit."""
    span = _decode_span(body)
    new = [event for encoded in logged for event in _decode_events(encoded).events if event not in span.events]
    if not new or len(body) + sum(map(len, logged)) > MAX_SPAN_BYTES:
        return None
    events = sorted((*span.events, *new), key=lambda event: event.at or span.start)[:MAX_EVENTS]
    raw = _raw_span(span, tuple(events))
    is_own_run = span.run_id is not None
    return _build_row_or_log(lambda: redact(to_span(raw, project=span.project, trusted=is_own_run)), span)


def _raw_span(span: Span, events: tuple[SpanEvent, ...]) -> RawSpan:
    """Return the span as it was decoded; of its resource, only the labels are stored."""
    labels = {"service.name": span.service, "session.id": span.session, "user.id": span.user}
    return RawSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        name=span.name,
        start=span.start,
        duration_ms=span.duration_ms,
        failed=span.status == "error",
        status_message=span.status_message,
        attributes=span.attributes,
        resource={name: value for name, value in labels.items() if value is not None},
        events=events,
        links=span.links,
        scope=span.scope,
        dropped=span.dropped,
        notes=span.notes,
        redactions=span.redactions,
    )


def build_rows(spans: Iterable[Span], redact: RedactSpan) -> Sequence[SpanRow]:
    """Build the rows of spans recorded in this process; spans that fail are logged and left out."""
    rows = [_build_row_or_log(lambda span=span: redact(span), span) for span in spans]
    return [row for row in rows if row is not None]


def _build_row_or_log(make_span: Callable[[], Span], source: RawSpan | Span) -> SpanRow | None:
    try:
        return build_row(make_span())
    except Exception:  # A bug that this span triggered; the others are still good.
        log.exception("Failed to process span %s of trace %s", source.span_id, source.trace_id)
        return None
