"""JSON files: an array of rows, `{"rows": […]}`, or Agenta's `{"data": {"testcases": [{"data": {…}}]}}`.

The array may be larger than memory: `ArrayParser` finds its elements by their brackets, outside strings, and checks
the text around the array. Why not a library: docs/decisions/0043.
"""

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
"""Matches up to the next bracket, past flat objects and lists in one go."""
_SCALAR = re.compile(rb'[^ \t\r\n,:\[\]{}"]++')
_MAX_DEPTH = json.MAX_DEPTH + 2
"""A cell, its row, and the objects around the array."""
_BOM = b"\xef\xbb\xbf"
_MIN_PARSE_BYTES = 65_536
"""Bytes that are buffered before they are parsed."""

Path = tuple[str, ...]
Paths = Mapping[Path, str]
"""Where the array of rows may be, and the name of that form."""
_State = Literal["value", "first value or end", "comma or end", "key", "first key or end", "colon", "over"]


class ArrayElement(NamedTuple):
    form: str
    text: bytes
    line: int


class ArrayParser:
    """Parses chunks of bytes into the complete elements of the array."""

    def __init__(self, paths: Paths, max_bytes: int) -> None:
        self._paths = paths
        self._open = {path[:length] for path in paths for length in range(len(path))}
        """Paths of objects that may lead to the array; other objects are skipped."""
        self._max_bytes = max_bytes
        self._buffer = b""
        self._chunks: list[bytes] = []
        self._size, self._parse_at = 0, _MIN_PARSE_BYTES
        self._line = 1
        self._at = 0
        self._state: _State = "value"
        self._path: list[str] = []
        """Keys of the open objects, and of the next value."""
        self._form: str | None = None
        """The form of the open array."""
        self._has_array = False
        self._depth, self._scanned = 0, 0
        """Progress of the search for the end of a value."""
        self._started = self._is_last = False

    def feed(self, chunk: bytes) -> list[ArrayElement]:
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self._parse() if self._size >= self._parse_at else []

    def end(self) -> list[ArrayElement]:
        """Return the remaining elements. Raises if the file is not such an array, or is truncated."""
        self._is_last = True
        elements = self._parse()
        if self._state != "over":
            raise line_error(self._line_at(len(self._buffer)), "the JSON stops before its end.")
        if not self._has_array:
            raise line_error(
                1, 'this is no array of rows: neither [{…}, …], nor {"rows": […]}, nor a test set of Agenta\'s.'
            )
        return elements

    def _parse(self) -> list[ArrayElement]:
        self._buffer = b"".join((self._buffer, *self._chunks))
        self._chunks = []
        if not self._started:
            self._buffer = self._buffer.removeprefix(_BOM)
            self._started = True
        elements = list(self._parse_elements())
        self._line = self._line_at(self._at)
        self._buffer = self._buffer[self._at :]
        self._scanned -= self._at
        self._at = 0
        if len(self._buffer) > self._max_bytes:
            raise TooLarge(f"Line {self._line}: a value is larger than a row may be.")
        self._size = len(self._buffer)
        self._parse_at = max(_MIN_PARSE_BYTES, 2 * self._size)
        return elements

    def _line_at(self, offset: int) -> int:
        return self._line + self._buffer.count(b"\n", 0, offset)

    def _misplaced(self) -> InvalidValue:
        mark = chr(self._buffer[self._at])
        return line_error(self._line_at(self._at), f"this is not JSON that we read: {mark!r} is in a wrong place.")

    def _parse_elements(self) -> Iterator[ArrayElement]:
        """Parse as far as the bytes reach."""
        line, counted = self._line, 0
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at >= len(self._buffer):
                return
            mark = self._buffer[self._at : self._at + 1]
            if self._state == "value" or (self._state == "first value or end" and mark != b"]"):
                if self._enter(mark):
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
                    decode_json(text, line)  # Validate only.
                self._at = end
                self._scanned = self._depth = 0
                self._state = "comma or end" if self._path or self._form is not None else "over"
            elif not self._consume_token(mark):
                return

    def _enter(self, mark: bytes) -> bool:
        """Enter the array of rows, or an object that may hold it; False for other values."""
        if self._form is not None:
            return False
        path = tuple(self._path)
        if mark == b"[" and path in self._paths:
            if self._has_array:
                raise line_error(self._line_at(self._at), "there are two arrays of rows.")
            self._form, self._has_array = self._paths[path], True
            self._state = "first value or end"
        elif mark == b"{" and path in self._open:
            self._state = "first key or end"
        else:
            return False
        self._at += 1
        return True

    def _consume_token(self, mark: bytes) -> bool:
        """Consume a token between values; False if more bytes are needed."""
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
        """The end of the value that begins here; None if it is incomplete."""
        mark = self._buffer[self._at]
        if mark == 0x22:
            string = _STRING.match(self._buffer, self._at)
            return string.end() if string else None
        if mark not in b"{[":
            scalar = _SCALAR.match(self._buffer, self._at)
            if scalar is None:
                raise self._misplaced()
            return scalar.end() if scalar.end() < len(self._buffer) or self._is_last else None
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
"""Metadata of an Agenta test case, by the name that its exports use."""


class JsonReader:
    def __init__(self, limits: TestsetLimits) -> None:
        self.report = FileReport()
        self._limits = limits
        self._elements = ArrayParser(_PATHS, limits.max_raw_bytes)

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        return [self._read(element) for element in self._elements.feed(chunk)]

    def end(self) -> Iterable[FileRow]:
        return [self._read(element) for element in self._elements.end()]

    def _read(self, element: ArrayElement) -> FileRow:
        value = decode_json(element.text, element.line)
        case_meta: dict[str, Any] = {}
        if element.form == "testcases" and isinstance(value, dict):
            case = cast("dict[str, Any]", value)
            if isinstance(case.get("data"), dict):
                case_meta = {name: case[key] for key, name in _AGENTA_META.items() if case.get(key) is not None}
                value = case["data"]
        row = make_file_row(value, element.text, element.line, self.report, self._limits)
        return FileRow(row.data, case_meta | (row.meta or {}), row.line) if case_meta else row


class JsonWriter:
    """Writes an array with one row per line."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._objects = object_encoder(columns, meta)
        self._between = b"\n"

    def begin(self) -> bytes:
        return b"["

    def rows(self, rows: Iterable[RowLike]) -> bytes:
        texts = [json.encode(fields) for fields in self._objects(rows)]
        if not texts:
            return b""
        before, self._between = self._between, b",\n"
        return before + b",\n".join(texts)

    def end(self) -> Iterator[bytes]:
        yield b"\n]\n"


class JsonlReader:
    """Reads JSON Lines. Empty lines are skipped; LF or CRLF ends a line."""

    def __init__(self, limits: TestsetLimits) -> None:
        self.report = FileReport()
        self._limits = limits
        self._partial: list[bytes] = []
        """Chunks of a line that has not ended."""
        self._partial_bytes = 0
        self._line = 1

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._append(chunk)
            return ()
        lines[0] = b"".join((*self._partial, lines[0]))
        self._partial, self._partial_bytes = [], 0
        self._append(lines.pop())
        return [row for line in lines if (row := self._read(line)) is not None]

    def end(self) -> Iterable[FileRow]:
        row = self._read(b"".join(self._partial))
        self._partial = []
        return () if row is None else (row,)

    def _append(self, piece: bytes) -> None:
        self._partial_bytes += len(piece)
        if self._partial_bytes > self._limits.max_raw_bytes:
            raise TooLarge(f"Line {self._line}: the row has more than {self._limits.row_bytes} bytes.")
        if piece:
            self._partial.append(piece)

    def _read(self, text: bytes) -> FileRow | None:
        line = self._line
        self._line += 1
        if line == 1:
            text = text.removeprefix(_BOM)
        if not text or text.isspace():
            return None
        return make_file_row(decode_json(text, line), text, line, self.report, self._limits)


class JsonlWriter:
    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._objects = object_encoder(columns, meta)

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Iterable[RowLike]) -> bytes:
        return b"".join([json.encode(fields) + b"\n" for fields in self._objects(rows)])

    def end(self) -> Iterator[bytes]:
        return iter(())
