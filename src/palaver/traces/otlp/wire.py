"""The wire form of protobuf, walked without a schema: where fields begin and end.

The library that reads messages makes objects of all that they hold, forty bytes for two that were sent. So requests are
taken apart here, and what no span may hold is cut out of large spans before they are read.
"""

from collections.abc import Iterator
from typing import NamedTuple

from palaver.errors import TooLarge
from palaver.traces.otlp.bounds import DEEPEST, LONGEST_NAME, LONGEST_TEXT, MOST_ATTRIBUTES, Losses

MOST_FIELDS = 500_000
"""That one request may be taken apart into: some half a second."""
SMALL = LONGEST_TEXT
"""A message of so few bytes has nothing to cut, and cannot grow into much."""
_SLACK = 8
"""Left of a cut text beyond its limit, so that whoever reads it sees that it was longer, and says so."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

# Which fields of a message are messages of another kind, and which are texts.
_MESSAGES: dict[str, dict[int, str]] = {
    "span": {9: "pair", 11: "event", 13: "link", 15: "status"},
    "event": {3: "pair"},
    "link": {4: "pair"},
    "status": {},
    "resource": {1: "pair"},
    "scope": {3: "pair"},
    "pair": {2: "value"},
    "value": {5: "list", 6: "map"},
    "list": {1: "value"},
    "map": {1: "pair"},
}
_TEXTS: dict[str, frozenset[int]] = {
    "span": frozenset({3, 5}),
    "event": frozenset({2}),
    "link": frozenset({3}),
    "status": frozenset({2}),
    "scope": frozenset({1, 2}),
    "pair": frozenset({1}),
    "value": frozenset({1, 7}),
}
_ATTRIBUTES = {"span": 9, "resource": 1}
_DEEPEST = 3 * DEEPEST
"""Messages inside each other: a list in a list is three of them."""


class Broken(ValueError):
    """Bytes that are no message."""


class Field(NamedTuple):
    """One field. `wire` is its wire type: only those of type 2 have a length, and can be messages."""

    number: int
    wire: int
    at: int
    """Where its tag begins."""
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return self.stop - self.start


class Walk:
    """Takes one request apart, and gives up on one that has no end of fields."""

    def __init__(self, data: bytes, budget: int = MOST_FIELDS) -> None:
        self.data = data
        self._budget = budget

    def fields(self, at: int, stop: int) -> Iterator[Field]:
        """The fields of the message that stands there."""
        data = self.data
        while at < stop:
            if not self._budget:
                raise TooLarge("The request has too many fields: let the exporter send smaller batches.")
            self._budget -= 1
            begin = at
            tag = data[at]
            tag, at = (tag, at + 1) if tag < 0x80 else self._varint(at)
            wire = tag & 7
            if wire == _LENGTH:
                size, at = self._varint(at)
                end = at + size
            elif wire == _VARINT:
                end = self._varint(at)[1]
            elif wire in {_FIXED64, _FIXED32}:
                end = at + (8 if wire == _FIXED64 else 4)
            else:
                raise Broken(f"wire type {wire} is not read")
            if end > stop or tag < 8:
                raise Broken("a field is longer than its message" if end > stop else "a field has no number")
            yield Field(tag >> 3, wire, begin, at, end)
            at = end

    def messages(self, number: int, at: int, stop: int) -> Iterator[Field]:
        """Those fields of it that are messages of this number."""
        return (field for field in self.fields(at, stop) if field.number == number and field.wire == _LENGTH)

    def thinned(self, kind: str, at: int, stop: int, losses: Losses, depth: int = 0) -> bytes:
        """The message without what its reader would leave out anyway: attributes past the most, ends of long texts."""
        if depth > _DEEPEST:
            raise Broken("a long value is nested too deeply")
        pieces: list[bytes] = []
        names: set[bytes] = set()
        kept = at
        for field in self.fields(at, stop):
            new = self._shortened(kind, field, losses, depth) if field.size > SMALL + _SLACK else None
            if new is None and field.number == _ATTRIBUTES.get(kind) and not self._has_room(field, names):
                losses.attributes += 1
                new = b""
            if new is not None:
                pieces += self.data[kept : field.at], new
                kept = field.stop
        pieces.append(self.data[kept:stop])
        return b"".join(pieces)

    def _shortened(self, kind: str, field: Field, losses: Losses, depth: int) -> bytes | None:
        """A long field, made shorter; None for one of whose inside we know nothing."""
        if field.number in _TEXTS.get(kind, ()):
            end = field.start + LONGEST_TEXT + _SLACK
            while end > field.start + LONGEST_TEXT and self.data[end] & 0xC0 == 0x80:  # Inside of a character.
                end -= 1
            losses.bytes += field.stop - end
            content = self.data[field.start : end]
        elif inner := _MESSAGES[kind].get(field.number):
            content = self.thinned(inner, field.start, field.stop, losses, depth + 1)
        else:
            return None
        return varint(field.number << 3 | _LENGTH) + varint(len(content)) + content

    def _has_room(self, field: Field, names: set[bytes]) -> bool:
        """May one more attribute be kept: is its name known, or are there few?"""
        part = next(self.messages(1, field.start, field.stop), None)
        name = self.data[part.start : part.stop] if part else b""
        if len(name) > LONGEST_NAME and len(name.decode(errors="replace")) > LONGEST_NAME:
            return False
        if name not in names and len(names) >= MOST_ATTRIBUTES:
            return False
        names.add(name)
        return True

    def _varint(self, at: int) -> tuple[int, int]:
        data, value, shift = self.data, 0, 0
        try:
            while (byte := data[at]) >= 0x80:
                value |= (byte & 0x7F) << shift
                shift += 7
                at += 1
                if shift > 63:
                    raise Broken("a number is longer than ten bytes")
        except IndexError:
            raise Broken("it ends in the middle of a field") from None
        return value | byte << shift, at + 1


def varint(value: int) -> bytes:
    """A number that is not negative, as protobuf writes it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
