"""From a request body to database rows: decompress, decode, map, redact, and build the columns of each span."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias, assert_never

import msgspec

from palaver.core import json
from palaver.core.extraction import CELL, Preview, preview, preview_messages
from palaver.core.extraction.excerpts import before, written
from palaver.core.extraction.previews import ChatPreview, EmptyPreview, JsonPreview, TextPreview
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.storage.spans.full_text import normalize_words
from palaver.storage.spans.writes import SpanRow, compress_body
from palaver.traces.mapping import to_span
from palaver.traces.model import RawSpan, Span
from palaver.traces.otlp import DEFAULT_LIMITS, RejectedSpan, RequestLimits, decode_request, decompress

MAX_INDEXED_CHARS = 256
"""Characters of a text in a column that may have an index."""
MAX_LABEL_CHARS = 2_000
"""Characters of one that has none."""
MAX_SEARCH_BYTES = 32 * 1024
"""Bytes of the messages that a search looks at."""
_MIN_CUT_PREVIEW_CHARS = 100
"""Characters of what lists show that may be the beginning of something."""
MAX_ATTRIBUTE_CHARS = 1_000
"""Characters of an attribute that a filter looks at."""
MAX_ATTRIBUTES_CHARS = 64 * 1024
"""And of all of them together."""
_MAX_INT64 = (1 << 63) - 1
_INT64_RANGE = range(-_MAX_INT64 - 1, _MAX_INT64 + 1)
_ESCAPED_NUL = b"\\u0000"


def build_row(span: Span) -> SpanRow:
    """A span as it is kept."""
    shown_in, shown_out = input_preview(span), output_preview(span)
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
        preview_in=json.encode(shown_in),
        preview_out=json.encode(shown_out),
        words=normalize_words(_search_text(span, shown_in, shown_out)),
        labels=encode_filter_attributes(span.attributes),
        body=compress_body(_encode_span(span)),
    )


def _encode_span(span: Span) -> bytes:
    try:
        return json.encode(span)
    except UnicodeEncodeError:  # Half of a character, which no JSON holds.
        return json.encode(json.to_builtins(span))


# Previews


def input_preview(span: Span) -> Preview:
    """What the column of inputs shows: the last that the user said, or else the inputs."""
    return (
        preview_messages(span.messages_in, "input", CELL) if span.messages_in else preview(span.inputs, "input", CELL)
    )


def output_preview(span: Span) -> Preview:
    """What the column of outputs shows: the last that was answered, or else the outputs, or why there are none."""
    said = preview_messages(span.messages_out, "output", CELL) if span.messages_out else EmptyPreview()
    if not said.text and span.outputs is not None:
        given = preview(span.outputs, "output", CELL)
        said = said if isinstance(given, EmptyPreview) else given
    if said.text or span.status != "error":
        return said
    why = span.exception.message if span.exception and span.exception.message else span.status_message
    return preview({"output": why}, "output", CELL) if why else said


# Words


def _search_text(span: Span, *shown: Preview) -> str:
    """The text that a search looks at: names, the beginning of what was said, and what lists show besides."""
    tool = span.tool.name if span.tool else None
    why = span.exception.message if span.exception else None
    names = (span.name, span.workflow, span.model, span.service, tool, why, span.status_message)
    text = " ".join([*(name[:MAX_LABEL_CHARS] for name in names if name), *_leading_texts(span)])
    for one in shown:
        if (said := _preview_text(one)) and not _contains_words(text, said):  # Most show what was said, as it was said.
            text = f"{text} {said}"
    return text


def _contains_words(text: str, said: str) -> bool:
    """Does it stand there, by whole words? Of what is long, the last may be cut."""
    return f" {said} " in f" {text} " or (len(said) >= _MIN_CUT_PREVIEW_CHARS and f" {said}" in text)


def _preview_text(one: Preview) -> str:
    match one:
        case TextPreview(body=body) | JsonPreview(body=body):
            return body
        case ChatPreview(text=text) | EmptyPreview(text=text):
            return text
        case _:
            assert_never(one)


def _leading_texts(span: Span) -> Iterator[str]:
    left = MAX_SEARCH_BYTES
    for message in (*span.messages_in, *span.messages_out):
        for text in _message_texts(message, left):
            head = json.replace_surrogates(text[:left]).encode()[:left]
            yield head.decode(errors="ignore")
            left -= len(head)
            if left <= 0:
                return


def _message_texts(message: Message, reach: int) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text) | Reasoning(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield name
                yield arguments
            case ToolResult(output=output):
                yield output if isinstance(output, str) else written(output, reach).text
            case File(filename=filename):
                yield filename or ""
            case Data(name=name):
                yield name
            case _:
                assert_never(part)


# Attributes


def encode_filter_attributes(attributes: dict[str, Any]) -> str:
    """The attributes that filters look at, as JSON: texts from their beginning, and lists and objects as texts."""
    kept: dict[str, Any] = {}
    left = MAX_ATTRIBUTES_CHARS
    for name, value in attributes.items():
        short = value[:MAX_ATTRIBUTE_CHARS] if type(value) is str else _filter_value(value)
        left -= len(name) + (len(short) if type(short) is str else 8)
        if left < 0:
            break
        kept[name] = short
    try:
        encoded = json.encode(kept)
    except UnicodeEncodeError:  # Half of a character.
        encoded = _ESCAPED_NUL
    if _ESCAPED_NUL in encoded:  # Rarely: else each text would have to be looked at.
        kept = {
            _storable_text(name): _storable_text(value) if type(value) is str else value for name, value in kept.items()
        }
        encoded = json.encode(kept)
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
            return written(value, MAX_ATTRIBUTE_CHARS).text[:MAX_ATTRIBUTE_CHARS]


# Texts and numbers


def _truncate_column(text: str | None, most: int = MAX_INDEXED_CHARS) -> str | None:
    if not text:
        return None
    return _storable_text(text if len(text) <= most else text[: before(text, most)])


def _storable_text(text: str) -> str:
    """As both databases take it."""
    if text.isascii() and "\0" not in text:  # Most are so, and every span has dozens of them.
        return text
    return json.replace_surrogates(text).replace("\0", "\ufffd")


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


RedactSpan: TypeAlias = Callable[[Span], Span]
"""What takes out of a record what is not to be kept."""

log = logging.getLogger("palaver.traces")


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came."""

    project: str
    """The sender's, from its credential: nothing in the body can say it."""
    body: bytes
    media_type: str
    encoding: str | None = None
    received_at: datetime


class IngestResult(msgspec.Struct, frozen=True):
    """What is to be kept of it, and what not."""

    rows: list[SpanRow]
    rejected: list[RejectedSpan]
    pending: int = 0
    """Notices of spans that have only begun: neither kept nor refused."""


def ingest_request(sent: TraceRequest, redact: RedactSpan, limits: RequestLimits = DEFAULT_LIMITS) -> IngestResult:
    """The rows of a request. Raises what decoding raises: InvalidBody, TooLarge, UnsupportedMediaType."""
    batch = decode_request(decompress(sent.body, sent.encoding, limits), sent.media_type, sent.received_at, limits)
    rows: list[SpanRow] = []
    rejected = list(batch.rejected)
    for index, raw in enumerate(batch.spans):
        row = _build_row_or_log(lambda raw=raw: redact(to_span(raw, project=sent.project)), raw)
        if row is None:
            rejected.append(RejectedSpan(index, f"the span {raw.span_id} could not be read"))
        else:
            rows.append(row)
    return IngestResult(rows, rejected, batch.pending)


def build_rows(spans: Iterable[Span], redact: RedactSpan) -> Sequence[SpanRow]:
    """The rows of records that were made here."""
    made = [_build_row_or_log(lambda span=span: redact(span), span) for span in spans]
    return [row for row in made if row is not None]


def _build_row_or_log(made: Callable[[], Span], of: RawSpan | Span) -> SpanRow | None:
    try:
        return build_row(made())
    except Exception:  # A mistake of ours, which a stranger's span brought out: the others are still good.
        log.exception("The span %s of trace %s could not be read", of.span_id, of.trace_id)
        return None
