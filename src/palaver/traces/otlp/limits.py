"""How much of a span is kept, and what is told of the rest (contract: traces, 5).

Names and values are strangers': long ones are cut or left out, control characters are shown as U+FFFD, and each loss is
counted. Both forms of OTLP are read through this one door.
"""

import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, TypeVar

from palaver.errors import TooLarge

MAX_NAME_CHARS = 512
"""Characters."""
MAX_NOTE_CHARS = 1_024
"""Of a note or the path of a redaction, which have names in them."""
MAX_TEXT_BYTES = 1024 * 1024
"""Bytes of UTF-8."""
MAX_SPAN_BYTES = 8 * 1024 * 1024
"""Bytes of JSON, after cutting."""
MAX_ATTRIBUTES = 2_000
MAX_EVENTS = 1_000
MAX_LINKS = 128
MAX_NESTED_ATTRIBUTES = 128
"""Attributes of one event or link: what the OpenTelemetry SDKs keep themselves."""
MAX_NOTES = 100
MAX_REQUEST_VALUES = 2_000_000
"""Attributes, events, links, and items of lists and maps in one request: some two seconds."""
MAX_VALUE_DEPTH = 32
"""Lists and maps of one value inside each other."""

_Value = TypeVar("_Value")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_CONTROL_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f]+")
_CONTROL_BYTES = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\n\r")
_REPLACEMENT = "\ufffd"
_SHORT_CHARS = 64
_name_cache: dict[str, str | None] = {}
_MAX_CACHED_NAMES = 4_096


class ValueBudget:
    """How many values one request may have in all: each takes its time, were it only to be left out."""

    __slots__ = ("_left",)

    def __init__(self, most: int = MAX_REQUEST_VALUES) -> None:
        self._left = most

    def spend(self, count: int) -> None:
        """So many more are looked at."""
        self._left -= count
        if self._left < 0:
            raise TooLarge("The request has too many values: let the exporter send smaller batches.")


class Losses:
    """What one span loses on its way in."""

    __slots__ = ("attributes", "budget", "bytes", "events", "links", "notes")

    def __init__(self, budget: ValueBudget | None = None) -> None:
        self.budget = budget or ValueBudget()
        self.notes: dict[str, None] = {}
        self.attributes = 0
        self.events = 0
        self.links = 0
        self.bytes = 0

    def note(self, text: str) -> None:
        """Say it once, and not without end."""
        if len(self.notes) < MAX_NOTES:
            self.notes[text] = None

    def dropped(self) -> dict[str, int]:
        """The counts that are not zero."""
        counts = (
            ("attributes", self.attributes),
            ("events", self.events),
            ("links", self.links),
            ("bytes", self.bytes),
        )
        return {word: count for word, count in counts if count}


def replace_control_chars(text: str) -> str:
    """The text with U+FFFD for its control characters, but for those that lay out a text: tab and line ends."""
    if len(text) < _SHORT_CHARS:
        if text.isprintable():
            return text
    elif text.isascii():
        # One pass at the speed of memory: most texts are long, and have none.
        data = text.encode()
        if len(data.translate(None, _CONTROL_BYTES)) == len(data):
            return text
    return _CONTROL.sub(_replacement_for, text)


def _replacement_for(found: re.Match[str]) -> str:
    return _REPLACEMENT * len(found[0])


def truncate_text(text: str, name: str, losses: Losses, most: int = MAX_TEXT_BYTES) -> str:
    """The text, shown, and cut between two characters where it is longer than so many bytes."""
    if len(text) * 4 <= most:
        return replace_control_chars(text)
    start = replace_control_chars(text[:most])
    data = start.encode()
    if len(data) > most:
        start = data[:most].decode(errors="ignore")
    if len(start) < len(text):
        losses.bytes += len(text[len(start) :].encode())
        losses.note(f"cut:{name}")
    return start


def truncate_name(text: str, what: str, losses: Losses) -> str:
    """The name of a span, an event or a scope: it stands in a row, so it is cut like an attribute's."""
    start = _CONTROL_IN_NAMES.sub(_replacement_for, text[:MAX_NAME_CHARS])
    if len(text) > MAX_NAME_CHARS:
        losses.bytes += len(text[MAX_NAME_CHARS:].encode())
        losses.note(f"cut:{what}")
    return start


def attribute_name(text: str) -> str | None:
    """The name of an attribute, or None for one that is too long. The same few come again and again."""
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
    read: Callable[[_Value, str, Losses], Any],
    losses: Losses,
    most: int = MAX_ATTRIBUTES,
) -> dict[str, Any]:
    """The attributes: of one name the last, of all so many. What is left out is not even read."""
    found: dict[str, Any] = {}
    for text, value in pairs:
        name = attribute_name(text)
        if name is None or (len(found) >= most and name not in found):
            losses.attributes += 1
        else:
            found[name] = read(value, name, losses)
    return found


def collect_map(pairs: Iterable[tuple[str, _Value]], read: Callable[[_Value], Any], losses: Losses) -> dict[str, Any]:
    """A map inside of a value. Its size is bounded by that of its span."""
    found: dict[str, Any] = {}
    for text, value in pairs:
        name = attribute_name(text)
        if name is None:
            losses.attributes += 1
        else:
            found[name] = read(value)
    return found


def json_number(number: float) -> float | str:
    """The number, or its name where JSON has none for it."""
    if isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124  # Only NaN.
