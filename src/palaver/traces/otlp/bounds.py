"""How much of a span is kept, and what is told of the rest (contract: traces, 5).

Names and values are strangers': long ones are cut or left out, control characters are shown as U+FFFD, and each loss is
counted. Both forms of OTLP are read through this one door.
"""

import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, TypeVar

from palaver.errors import TooLarge

LONGEST_NAME = 512
"""Characters."""
LONGEST_LABEL = 1_024
"""Of a note or the path of a redaction, which have names in them."""
LONGEST_TEXT = 1024 * 1024
"""Bytes of UTF-8."""
LARGEST_SPAN = 8 * 1024 * 1024
"""Bytes of JSON, after cutting."""
MOST_ATTRIBUTES = 2_000
MOST_EVENTS = 1_000
MOST_LINKS = 128
MOST_INNER = 128
"""Attributes of one event or link: what the OpenTelemetry SDKs keep themselves."""
MOST_NOTES = 100
MOST_VALUES = 2_000_000
"""Attributes, events, links, and items of lists and maps in one request: some two seconds."""
DEEPEST = 32
"""Lists and maps of one value inside each other."""

_Any = TypeVar("_Any")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_CONTROL_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f]+")
_CONTROL_BYTES = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\n\r")
_REPLACED = "\ufffd"
_SHORT = 64
_names: dict[str, str | None] = {}
_MOST_KNOWN_NAMES = 4_096


class Budget:
    """How many values one request may have in all: each takes its time, were it only to be left out."""

    __slots__ = ("_left",)

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._left = most

    def spend(self, count: int) -> None:
        """So many more are looked at."""
        self._left -= count
        if self._left < 0:
            raise TooLarge("The request has too many values: let the exporter send smaller batches.")


class Losses:
    """What one span loses on its way in."""

    __slots__ = ("attributes", "budget", "bytes", "events", "links", "notes")

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.notes: dict[str, None] = {}
        self.attributes = 0
        self.events = 0
        self.links = 0
        self.bytes = 0

    def note(self, text: str) -> None:
        """Say it once, and not without end."""
        if len(self.notes) < MOST_NOTES:
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


def shown(text: str) -> str:
    """The text with U+FFFD for its control characters, but for those that lay out a text: tab and line ends."""
    if len(text) < _SHORT:
        if text.isprintable():
            return text
    elif text.isascii():
        # One pass at the speed of memory: most texts are long, and have none.
        data = text.encode()
        if len(data.translate(None, _CONTROL_BYTES)) == len(data):
            return text
    return _CONTROL.sub(_replaced, text)


def _replaced(found: re.Match[str]) -> str:
    return _REPLACED * len(found[0])


def kept(text: str, name: str, losses: Losses, most: int = LONGEST_TEXT) -> str:
    """The text, shown, and cut between two characters where it is longer than so many bytes."""
    if len(text) * 4 <= most:
        return shown(text)
    start = shown(text[:most])
    data = start.encode()
    if len(data) > most:
        start = data[:most].decode(errors="ignore")
    if len(start) < len(text):
        losses.bytes += len(text[len(start) :].encode())
        losses.note(f"cut:{name}")
    return start


def named(text: str, what: str, losses: Losses) -> str:
    """The name of a span, an event or a scope: it stands in a row, so it is cut like an attribute's."""
    start = _CONTROL_IN_NAMES.sub(_replaced, text[:LONGEST_NAME])
    if len(text) > LONGEST_NAME:
        losses.bytes += len(text[LONGEST_NAME:].encode())
        losses.note(f"cut:{what}")
    return start


def name_of(text: str) -> str | None:
    """The name of an attribute, or None for one that is too long. The same few come again and again."""
    try:
        return _names[text]
    except KeyError:
        pass
    if len(text) > LONGEST_NAME:
        return None
    if len(_names) >= _MOST_KNOWN_NAMES:
        _names.clear()
    name = _names[text] = _CONTROL_IN_NAMES.sub(_replaced, text)
    return name


def collected(
    pairs: Iterable[tuple[str, _Any]],
    read: Callable[[_Any, str, Losses], Any],
    losses: Losses,
    most: int = MOST_ATTRIBUTES,
) -> dict[str, Any]:
    """The attributes: of one name the last, of all so many. What is left out is not even read."""
    found: dict[str, Any] = {}
    for text, value in pairs:
        name = name_of(text)
        if name is None or (len(found) >= most and name not in found):
            losses.attributes += 1
        else:
            found[name] = read(value, name, losses)
    return found


def mapped(pairs: Iterable[tuple[str, _Any]], read: Callable[[_Any], Any], losses: Losses) -> dict[str, Any]:
    """A map inside of a value. Its size is bounded by that of its span."""
    found: dict[str, Any] = {}
    for text, value in pairs:
        name = name_of(text)
        if name is None:
            losses.attributes += 1
        else:
            found[name] = read(value)
    return found


def finite(number: float) -> float | str:
    """The number, or its name where JSON has none for it."""
    if isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124  # Only NaN.
