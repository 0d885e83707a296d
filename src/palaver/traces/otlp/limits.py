"""Limits on the size of spans, and the helpers that enforce them and count losses.

Names and values come from clients: long ones are truncated or dropped, control characters are replaced by U+FFFD, and
each loss is counted. Both formats of OTLP are decoded through these helpers.
"""

import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, TypeVar

from palaver.errors import TooLarge

MAX_NAME_CHARS = 512
MAX_NOTE_CHARS = 1_024
"""Maximum length of a note or a redaction path, which contain names."""
MAX_TEXT_BYTES = 1024 * 1024
"""Maximum size of a text in UTF-8."""
MAX_SPAN_BYTES = 8 * 1024 * 1024
"""Maximum size of a span as JSON, after truncation."""
MAX_ATTRIBUTES = 2_000
MAX_EVENTS = 1_000
MAX_LINKS = 128
MAX_NESTED_ATTRIBUTES = 128
"""Maximum number of attributes of one event or link: the default limit of the OpenTelemetry SDKs."""
MAX_NOTES = 100
MAX_REQUEST_VALUES = 2_000_000
"""Attributes, events, links, and items of lists and maps in one request: about two seconds of work."""
MAX_VALUE_DEPTH = 32
"""Maximum nesting of lists and maps in one value."""

_Value = TypeVar("_Value")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_CONTROL_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f]+")
_CONTROL_BYTES = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\n\r")
_REPLACEMENT = "\ufffd"
_SHORT_CHARS = 64
_name_cache: dict[str, str | None] = {}
_MAX_CACHED_NAMES = 4_096


class ValueBudget:
    """The number of values that one request may still have. Each costs time, even if it is dropped."""

    __slots__ = ("_remaining",)

    def __init__(self, limit: int = MAX_REQUEST_VALUES) -> None:
        self._remaining = limit

    def spend(self, count: int) -> None:
        """Deduct `count` values. Raises TooLarge once the budget is exceeded."""
        self._remaining -= count
        if self._remaining < 0:
            raise TooLarge("The request has too many values. Configure the exporter to send smaller batches.")


class Losses:
    """What one span loses to the limits."""

    __slots__ = ("attributes", "budget", "bytes", "events", "links", "notes")

    def __init__(self, budget: ValueBudget | None = None) -> None:
        self.budget = budget or ValueBudget()
        self.notes: dict[str, None] = {}
        self.attributes = 0
        self.events = 0
        self.links = 0
        self.bytes = 0

    def note(self, text: str) -> None:
        """Add a note once, up to MAX_NOTES."""
        if len(self.notes) < MAX_NOTES:
            self.notes[text] = None

    def dropped(self) -> dict[str, int]:
        counts = (
            ("attributes", self.attributes),
            ("events", self.events),
            ("links", self.links),
            ("bytes", self.bytes),
        )
        return {name: count for name, count in counts if count}


def replace_control_chars(text: str) -> str:
    """Replace control characters other than tab and line ends by U+FFFD."""
    if len(text) < _SHORT_CHARS:
        if text.isprintable():
            return text
    elif text.isascii():
        # `translate` runs at memory speed: most texts are long and have none.
        data = text.encode()
        if len(data.translate(None, _CONTROL_BYTES)) == len(data):
            return text
    return _CONTROL.sub(_replacement_for, text)


def _replacement_for(match: re.Match[str]) -> str:
    return _REPLACEMENT * len(match[0])


def truncate_text(text: str, name: str, losses: Losses, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Replace control characters, and truncate to `max_bytes` bytes of UTF-8 at a character boundary."""
    if len(text) * 4 <= max_bytes:
        return replace_control_chars(text)
    start = replace_control_chars(text[:max_bytes])
    data = start.encode()
    if len(data) > max_bytes:
        start = data[:max_bytes].decode(errors="ignore")
    if len(start) < len(text):
        losses.bytes += len(text[len(start) :].encode())
        losses.note(f"cut:{name}")
    return start


def truncate_name(text: str, label: str, losses: Losses) -> str:
    """Truncate the name of a span, event or scope."""
    start = _CONTROL_IN_NAMES.sub(_replacement_for, text[:MAX_NAME_CHARS])
    if len(text) > MAX_NAME_CHARS:
        losses.bytes += len(text[MAX_NAME_CHARS:].encode())
        losses.note(f"cut:{label}")
    return start


def attribute_name(text: str) -> str | None:
    """Return the cleaned name of an attribute, or None if it is too long. Cached, as the same few names recur."""
    try:
        return _name_cache[text]
    except KeyError:
        pass
    if len(text) > MAX_NAME_CHARS:
        return None
    if len(_name_cache) >= _MAX_CACHED_NAMES:
        _name_cache.clear()
    name = _name_cache[text] = _CONTROL_IN_NAMES.sub(_replacement_for, text)
    return name


def collect_attributes(
    pairs: Iterable[tuple[str, _Value]],
    convert: Callable[[_Value, str, Losses], Any],
    losses: Losses,
    max_count: int = MAX_ATTRIBUTES,
) -> dict[str, Any]:
    """Collect up to `max_count` attributes; of equal names the last wins. Dropped values are not decoded."""
    attributes: dict[str, Any] = {}
    for text, value in pairs:
        name = attribute_name(text)
        if name is None or (len(attributes) >= max_count and name not in attributes):
            losses.attributes += 1
        else:
            attributes[name] = convert(value, name, losses)
    return attributes


def collect_map(
    pairs: Iterable[tuple[str, _Value]], convert: Callable[[_Value], Any], losses: Losses
) -> dict[str, Any]:
    """Collect a map nested in a value. The size of the span bounds it."""
    items: dict[str, Any] = {}
    for text, value in pairs:
        name = attribute_name(text)
        if name is None:
            losses.attributes += 1
        else:
            items[name] = convert(value)
    return items


def json_number(number: float) -> float | str:
    """Return the number, or its name if JSON can't express it."""
    if isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124  # Only NaN.
