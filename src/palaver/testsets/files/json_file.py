"""Read and write JSON files that hold an array of rows."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from palaver.core import json
from palaver.errors import InvalidValue, TooLarge
from palaver.testsets.files.base import (
    FileReport,
    FileRow,
    RowLike,
    decode_json,
    line_error,
    make_file_row,
    object_encoder,
)
from palaver.testsets.limits import TestsetLimits

_SPACE = re.compile(rb"[ \t\r\n]*+")
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(_TEXT, re.DOTALL)
_FLAT = rb'[^"{}\[\]]*+(?:' + _TEXT + rb'[^"{}\[\]]*+)*+'
_TO_BRACKET = re.compile(rb"(?:" + _FLAT + rb"(?:\{" + _FLAT + rb"\}|\[" + _FLAT + rb"\]))*+" + _FLAT, re.DOTALL)
"""To the next bracket, past objects and lists that hold no others: most are passed in one go."""
_SCALAR = re.compile(rb'[^ \t\r\n,:\[\]{}"]++')
_MAX_DEPTH = json.MAX_DEPTH + 2
"""A cell, its row, and what the row may stand in."""
_BOM = b"\xef\xbb\xbf"
_MIN_PARSE_BYTES = 65_536
"""Bytes that are gathered before a look is worth it."""

Path = tuple[str, ...]
Paths = Mapping[Path, str]
"""Where an array of rows may stand, and what that form is called."""
_State = Literal["value", "first value or end", "comma or end", "key", "first key or end", "colon", "over"]


class ArrayElement(NamedTuple):
    """One of the array's."""

    form: str
    text: bytes
    line: int


class ArrayParser:
    """Takes bytes as they come, and gives the elements that are whole."""

    def __init__(self, paths: Paths, most: int) -> None:
        self._paths = paths
        self._open = {path[:length] for path in paths for length in range(len(path))}
        """Objects that may lead to the array: they are gone into, all others are passed over."""
        self._most = most
        self._buffer = b""
        self._waiting: list[bytes] = []
        self._size, self._wanted = 0, _MIN_PARSE_BYTES
        self._line = 1
        self._at = 0
        self._state: _State = "value"
        self._path: list[str] = []
        """The keys of the objects that are open, and of the value that comes next."""
        self._form: str | None = None
        """That of the array that is open."""
        self._found = False
        self._depth, self._scanned = 0, 0
        """How far the search for a value's end has come."""
        self._begun = self._ended = False

    def feed(self, chunk: bytes) -> list[ArrayElement]:
        """The elements that end with this chunk, or ended before and were not looked for yet."""
        self._waiting.append(chunk)
        self._size += len(chunk)
        return self._all() if self._size >= self._wanted else []

    def end(self) -> list[ArrayElement]:
        """The rest; an error where the file is no such array, or stops in its middle."""
        self._ended = True
        found = self._all()
        if self._state != "over":
            raise line_error(self._line_at(len(self._buffer)), "the JSON stops before its end.")
        if not self._found:
            raise line_error(
                1, 'this is no array of rows: neither [{…}, …], nor {"rows": […]}, nor a test set of Agenta\'s.'
            )
        return found

    def _all(self) -> list[ArrayElement]:
        self._buffer = b"".join((self._buffer, *self._waiting))
        self._waiting = []
        if not self._begun:
            self._buffer = self._buffer.removeprefix(_BOM)
            self._begun = True
        found = list(self._steps())
        self._line = self._line_at(self._at)
        self._buffer = self._buffer[self._at :]
        self._scanned -= self._at
        self._at = 0
        if len(self._buffer) > self._most:
            raise TooLarge(f"Line {self._line}: a value is larger than a row may be.")
        self._size = len(self._buffer)
        self._wanted = max(_MIN_PARSE_BYTES, 2 * self._size)
        return found

    def _line_at(self, place: int) -> int:
        return self._line + self._buffer.count(b"\n", 0, place)

    def _misplaced(self) -> InvalidValue:
        mark = chr(self._buffer[self._at])
        return line_error(self._line_at(self._at), f"this is not JSON that we read: {mark!r} is in a wrong place.")

    def _steps(self) -> Iterator[ArrayElement]:
        """Go on as far as the bytes reach."""
        line, counted = self._line, 0
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at >= len(self._buffer):
                return
            mark = self._buffer[self._at : self._at + 1]
            if self._state == "value" or (self._state == "first value or end" and mark != b"]"):
                if self._goes_in(mark):
                    continue
                end = self._value_end()
                if end is None:
                    return
                text = self._buffer[self._at : end]
                line += self._buffer.count(b"\n", counted, self._at)
                counted = self._at
                if self._form is not None:
                    yield ArrayElement(self._form, text, line)
                else:
                    decode_json(text, line)  # Only to see that it is JSON.
                self._at = end
                self._scanned = self._depth = 0
                self._state = "comma or end" if self._path or self._form is not None else "over"
            elif not self._pass(mark):
                return

    def _goes_in(self, mark: bytes) -> bool:
        """Does an array of rows begin here, or an object that may hold it?"""
        if self._form is not None:
            return False
        path = tuple(self._path)
        if mark == b"[" and path in self._paths:
            if self._found:
                raise line_error(self._line_at(self._at), "there are two arrays of rows.")
            self._form, self._found = self._paths[path], True
            self._state = "first value or end"
        elif mark == b"{" and path in self._open:
            self._state = "first key or end"
        else:
            return False
        self._at += 1
        return True

    def _pass(self, mark: bytes) -> bool:
        """Pass over what stands between values: false where more bytes are needed."""
        if self._state in ("key", "first key or end") and mark == b'"':
            string = _STRING.match(self._buffer, self._at)
            if string is None:
                return False
            self._path.append(decode_json(string[0], self._line_at(self._at)))
            self._at, self._state = string.end(), "colon"
            return True
        if self._state == "colon" and mark == b":":
            self._state = "value"
        elif self._state == "comma or end" and mark == b",":
            if self._form is None:
                self._path.pop()
            self._state = "value" if self._form is not None else "key"
        elif self._form is not None and mark == b"]" and self._state in ("comma or end", "first value or end"):
            self._form = None
            self._state = "comma or end" if self._path else "over"
        elif self._form is None and mark == b"}" and self._state in ("comma or end", "first key or end"):
            if self._state == "comma or end":
                self._path.pop()
            self._state = "comma or end" if self._path else "over"
        else:
            raise self._misplaced()
        self._at += 1
        return True

    def _value_end(self) -> int | None:
        """Where the value that begins here ends; None where that is still to come."""
        mark = self._buffer[self._at]
        if mark == 0x22:
            string = _STRING.match(self._buffer, self._at)
            return string.end() if string else None
        if mark not in b"{[":
            scalar = _SCALAR.match(self._buffer, self._at)
            if scalar is None:
                raise self._misplaced()
            return scalar.end() if scalar.end() < len(self._buffer) or self._ended else None
        if not self._depth:
            self._depth, self._scanned = 1, self._at + 1
        at = self._scanned
        while True:
            skipped = _TO_BRACKET.match(self._buffer, at)
            at = skipped.end() if skipped else at
            if at >= len(self._buffer) or self._buffer[at] == 0x22:
                self._scanned = at
                return None
            self._depth += 1 if self._buffer[at] in b"{[" else -1
            if self._depth > _MAX_DEPTH:
                raise line_error(self._line_at(self._at), f"a value is nested deeper than {json.MAX_DEPTH} levels.")
            at += 1
            if not self._depth:
                return at


_PATHS: Paths = {(): "rows", ("rows",): "rows", ("data", "testcases"): "testcases"}
_AGENTA_META = {"id": "__id__", "flags": "__flags__", "tags": "__tags__", "meta": "__meta__"}
"""What a test case of Agenta's has beside its data, as its own exports name it."""


class JsonReader:
    """Reads a file of it."""

    def __init__(self, limits: TestsetLimits) -> None:
        self.report = FileReport()
        self._limits = limits
        self._elements = ArrayParser(_PATHS, limits.raw)

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        """The rows that are known to be whole now."""
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        return [self._read(element) for element in self._elements.feed(chunk)]

    def end(self) -> Iterable[FileRow]:
        """The rest."""
        return [self._read(element) for element in self._elements.end()]

    def _read(self, element: ArrayElement) -> FileRow:
        value = decode_json(element.text, element.line)
        beside: dict[str, Any] = {}
        if element.form == "testcases" and isinstance(value, dict):
            case = cast("dict[str, Any]", value)
            if isinstance(case.get("data"), dict):
                beside = {name: case[key] for key, name in _AGENTA_META.items() if case.get(key) is not None}
                value = case["data"]
        found = make_file_row(value, element.text, element.line, self.report, self._limits)
        return FileRow(found.data, beside | (found.meta or {}), found.line) if beside else found


class JsonWriter:
    """Writes a file of it: an array, one row a line."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._objects = object_encoder(columns, meta)
        self._between = b"\n"

    def begin(self) -> bytes:
        """The array opens."""
        return b"["

    def rows(self, rows: Iterable[RowLike]) -> bytes:
        """These rows."""
        texts = [json.encode(fields) for fields in self._objects(rows)]
        if not texts:
            return b""
        before, self._between = self._between, b",\n"
        return before + b",\n".join(texts)

    def end(self) -> Iterator[bytes]:
        """The array closes."""
        yield b"\n]\n"
