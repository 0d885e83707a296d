"""What is kept of a span, made from its record: columns, previews for lists, words for searches, and the body.

Everything here came from strangers. What goes into a column is as short as columns and indexes take it; the body has
all of it. Pure: whatever reads a clock or a database is above.
"""

import math
from collections.abc import Iterator
from typing import Any, assert_never

from palaver.core import json
from palaver.core.extraction import CELL, Preview, preview, preview_messages
from palaver.core.extraction.excerpts import before, written
from palaver.core.extraction.previews import ChatPreview, EmptyPreview, JsonPreview, TextPreview
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.storage.spans.full_text import normalize_words
from palaver.storage.spans.writes import SpanRow, compress_body
from palaver.traces.record import Span

LABEL = 256
"""Characters of a text in a column that may have an index."""
LONG_LABEL = 2_000
"""Characters of one that has none."""
SEARCHED = 32 * 1024
"""Bytes of the messages that a search looks at."""
_MAY_BE_CUT = 100
"""Characters of what lists show that may be the beginning of something."""
ATTRIBUTE = 1_000
"""Characters of an attribute that a filter looks at."""
ATTRIBUTES = 64 * 1024
"""And of all of them together."""
_MOST = (1 << 63) - 1
_SMALL = range(-_MOST - 1, _MOST + 1)
_NULL = b"\\u0000"


def row_of(span: Span) -> SpanRow:
    """A span as it is kept."""
    shown_in, shown_out = preview_in(span), preview_out(span)
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
        name=_cut(span.name, LONG_LABEL) or "unnamed",
        status_message=_cut(span.status_message, LONG_LABEL),
        model=_cut(span.model),
        provider=_cut(span.provider),
        finish=_cut(span.finish),
        session=_cut(span.session),
        user=_cut(span.user),
        workflow=_cut(span.workflow),
        run_id=_cut(span.run_id),
        service=_cut(span.service),
        scope=_cut(span.scope),
        tool=_cut(span.tool.name if span.tool else None),
        exception=_cut(span.exception.type if span.exception else None),
        input_tokens=None if usage is None else min(usage.input_tokens, _MOST),
        output_tokens=None if usage is None else min(usage.output_tokens, _MOST),
        cost=_finite(span.cost),
        cost_source=span.cost_source,
        preview_in=json.encode(shown_in),
        preview_out=json.encode(shown_out),
        words=normalize_words(_searched(span, shown_in, shown_out)),
        labels=labels(span.attributes),
        body=compress_body(_json(span)),
    )


def _json(span: Span) -> bytes:
    try:
        return json.encode(span)
    except UnicodeEncodeError:  # Half of a character, which no JSON holds.
        return json.encode(json.to_builtins(span))


# Previews


def preview_in(span: Span) -> Preview:
    """What the column of inputs shows: the last that the user said, or else the inputs."""
    return (
        preview_messages(span.messages_in, "input", CELL) if span.messages_in else preview(span.inputs, "input", CELL)
    )


def preview_out(span: Span) -> Preview:
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


def _searched(span: Span, *shown: Preview) -> str:
    """The text that a search looks at: names, the beginning of what was said, and what lists show besides."""
    tool = span.tool.name if span.tool else None
    why = span.exception.message if span.exception else None
    names = (span.name, span.workflow, span.model, span.service, tool, why, span.status_message)
    text = " ".join([*(name[:LONG_LABEL] for name in names if name), *_beginning(span)])
    for one in shown:
        if (said := _shown(one)) and not _has(text, said):  # Most show what was said, as it was said.
            text = f"{text} {said}"
    return text


def _has(text: str, said: str) -> bool:
    """Does it stand there, by whole words? Of what is long, the last may be cut."""
    return f" {said} " in f" {text} " or (len(said) >= _MAY_BE_CUT and f" {said}" in text)


def _shown(one: Preview) -> str:
    match one:
        case TextPreview(body=body) | JsonPreview(body=body):
            return body
        case ChatPreview(text=text) | EmptyPreview(text=text):
            return text
        case _:
            assert_never(one)


def _beginning(span: Span) -> Iterator[str]:
    left = SEARCHED
    for message in (*span.messages_in, *span.messages_out):
        for text in _said(message, left):
            head = json.replace_surrogates(text[:left]).encode()[:left]
            yield head.decode(errors="ignore")
            left -= len(head)
            if left <= 0:
                return


def _said(message: Message, reach: int) -> Iterator[str]:
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


def labels(attributes: dict[str, Any]) -> str:
    """The attributes that filters look at, as JSON: texts from their beginning, and lists and objects as texts."""
    kept: dict[str, Any] = {}
    left = ATTRIBUTES
    for name, value in attributes.items():
        short = value[:ATTRIBUTE] if type(value) is str else _label(value)
        left -= len(name) + (len(short) if type(short) is str else 8)
        if left < 0:
            break
        kept[name] = short
    try:
        encoded = json.encode(kept)
    except UnicodeEncodeError:  # Half of a character.
        encoded = _NULL
    if _NULL in encoded:  # Rarely: else each text would have to be looked at.
        kept = {_sound(name): _sound(value) if type(value) is str else value for name, value in kept.items()}
        encoded = json.encode(kept)
    return encoded.decode()


def _label(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int():
            return value if value in _SMALL else str(value)[:ATTRIBUTE]
        case float():
            return _finite(value)
        case str():
            return value[:ATTRIBUTE]
        case _:
            return written(value, ATTRIBUTE).text[:ATTRIBUTE]


# Texts and numbers


def _cut(text: str | None, most: int = LABEL) -> str | None:
    if not text:
        return None
    return _sound(text if len(text) <= most else text[: before(text, most)])


def _sound(text: str) -> str:
    """As both databases take it."""
    if text.isascii() and "\0" not in text:  # Most are so, and every span has dozens of them.
        return text
    return json.replace_surrogates(text).replace("\0", "\ufffd")


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
