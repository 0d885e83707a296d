"""JSON files: an array of rows, `{"rows": […]}`, or Agenta's `{"data": {"testcases": [{"data": {…}}]}}`.

The responses of Agenta's API, which hold the latter under `testset` or `testset_revision`, are read as well.
The array may be larger than memory: `ArrayParser` finds its elements by their brackets, outside strings, and checks
the text around the array. docs/decisions/0043 says why no library is used.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from palaver.core import json
from palaver.errors import InvalidValue, TooLarge
from palaver.testsets.files.base import (
    FileReport,
    FileRow,
    decode_json,
    line_error,
    make_file_row,
    object_encoder,
)
from palaver.testsets.limits import TestsetLimits

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING_PATTERN = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(_STRING_PATTERN, re.DOTALL)
_FLAT = rb'[^"{}\[\]]*+(?:' + _STRING_PATTERN + rb'[^"{}\[\]]*+)*+'
_TO_BRACKET = re.compile(rb"(?:" + _FLAT + rb"(?:\{" + _FLAT + rb"\}|\[" + _FLAT + rb"\]))*+" + _FLAT, re.DOTALL)
"""Matches up to the next bracket, past flat objects and lists in one go."""
_SCALAR = re.compile(rb'[^ \t\r\n,:\[\]{}"]++')
_MAX_DEPTH = json.MAX_DEPTH + 2
"""The depth of a cell, plus its row and the objects around the array."""
_BOM = b"\xef\xbb\xbf"
_MIN_PARSE_BYTES = 65_536
"""Bytes that are buffered before they are parsed."""

Path = tuple[str, ...]
Paths = Mapping[Path, str]
"""The paths at which the array of rows may be, with the name of each layout."""
_State = Literal["value", "first value or end", "comma or end", "key", "first key or end", "colon", "over"]


class ArrayElement(NamedTuple):
    layout: str
    text: bytes
    line: int


class ArrayParser:
    """Parses chunks of bytes into the complete elements of the array."""

    def __init__(self, paths: Paths, max_bytes: int) -> None:
        self._paths = paths
        self._parent_paths = {path[:length] for path in paths for length in range(len(path))}
        """Paths of objects that may lead to the array; other objects are skipped."""
        self._max_bytes = max_bytes
        self._buffer = b""
        self._chunks: list[bytes] = []
        self._size, self._parse_at = 0, _MIN_PARSE_BYTES
        self._line = 1
        self._offset = 0
        self._state: _State = "value"
        self._path: list[str] = []
        """Keys of the open objects, and of the next value."""
        self._layout: str | None = None
        """The layout of the open array; None outside it."""
        self._has_array = False
        self._depth, self._scanned = 0, 0
        """Progress of the search for the end of a value."""
        self._has_started = self._is_last = False

    def feed(self, chunk: bytes) -> list[ArrayElement]:
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self._parse() if self._size >= self._parse_at else []

    def end(self) -> list[ArrayElement]:
        """Return the remaining elements. Raises if the file is not such an array, or is truncated."""
        self._is_last = True
        elements = self._parse()
        if self._state != "over":
            raise line_error(self._line_at(len(self._buffer)), "the JSON is truncated.")
        if not self._has_array:
            raise line_error(1, 'expected an array of rows: [{…}, …], {"rows": […]}, or an Agenta test set.')
        return elements

    def _parse(self) -> list[ArrayElement]:
        self._buffer = b"".join((self._buffer, *self._chunks))
        self._chunks = []
        if not self._has_started:
            self._buffer = self._buffer.removeprefix(_BOM)
            self._has_started = True
        elements = list(self._parse_elements())
        self._line = self._line_at(self._offset)
        self._buffer = self._buffer[self._offset :]
        self._scanned -= self._offset
        self._offset = 0
        if len(self._buffer) > self._max_bytes:
            raise TooLarge(f"Line {self._line}: the value is too large for a row.")
        self._size = len(self._buffer)
        self._parse_at = max(_MIN_PARSE_BYTES, 2 * self._size)
        return elements

    def _line_at(self, offset: int) -> int:
        return self._line + self._buffer.count(b"\n", 0, offset)

    def _misplaced_error(self) -> InvalidValue:
        char = chr(self._buffer[self._offset])
        return line_error(self._line_at(self._offset), f"invalid JSON: unexpected {char!r}.")

    def _parse_elements(self) -> Iterator[ArrayElement]:
        """Yield the elements that are complete in the buffer."""
        line, counted_to = self._line, 0
        while True:
            space = _SPACE.match(self._buffer, self._offset)
            self._offset = space.end() if space else self._offset
            if self._offset >= len(self._buffer):
                return
            token = self._buffer[self._offset : self._offset + 1]
            if self._state == "value" or (self._state == "first value or end" and token != b"]"):
                if self._enter(token):
                    continue
                end = self._find_value_end()
                if end is None:
                    return
                text = self._buffer[self._offset : end]
                line += self._buffer.count(b"\n", counted_to, self._offset)
                counted_to = self._offset
                if self._layout is not None:
                    yield ArrayElement(self._layout, text, line)
                else:
                    decode_json(text, line)  # Validate only.
                self._offset = end
                self._scanned = self._depth = 0
                self._state = "comma or end" if self._path or self._layout is not None else "over"
            elif not self._consume_token(token):
                return

    def _enter(self, token: bytes) -> bool:
        """Enter the array of rows, or an object that may hold it; False for other values."""
        if self._layout is not None:
            return False
        path = tuple(self._path)
        if token == b"[" and path in self._paths:
            if self._has_array:
                raise line_error(self._line_at(self._offset), "the file contains more than one array of rows.")
            self._layout, self._has_array = self._paths[path], True
            self._state = "first value or end"
        elif token == b"{" and path in self._parent_paths:
            self._state = "first key or end"
        else:
            return False
        self._offset += 1
        return True

    def _consume_token(self, token: bytes) -> bool:
        """Consume a token between values; False if more bytes are needed."""
        if self._state in ("key", "first key or end") and token == b'"':
            string = _STRING.match(self._buffer, self._offset)
            if string is None:
                return False
            self._path.append(decode_json(string[0], self._line_at(self._offset)))
            self._offset, self._state = string.end(), "colon"
            return True
        if self._state == "colon" and token == b":":
            self._state = "value"
        elif self._state == "comma or end" and token == b",":
            if self._layout is None:
                self._path.pop()
            self._state = "value" if self._layout is not None else "key"
        elif self._layout is not None and token == b"]" and self._state in ("comma or end", "first value or end"):
            self._layout = None
            self._state = "comma or end" if self._path else "over"
        elif self._layout is None and token == b"}" and self._state in ("comma or end", "first key or end"):
            if self._state == "comma or end":
                self._path.pop()
            self._state = "comma or end" if self._path else "over"
        else:
            raise self._misplaced_error()
        self._offset += 1
        return True

    def _find_value_end(self) -> int | None:
        """Return the end of the value that begins here; None if it is incomplete."""
        first_byte = self._buffer[self._offset]
        if first_byte == 0x22:
            string = _STRING.match(self._buffer, self._offset)
            return string.end() if string else None
        if first_byte not in b"{[":
            scalar = _SCALAR.match(self._buffer, self._offset)
            if scalar is None:
                raise self._misplaced_error()
            return scalar.end() if scalar.end() < len(self._buffer) or self._is_last else None
        if not self._depth:
            self._depth, self._scanned = 1, self._offset + 1
        position = self._scanned
        while True:
            skipped = _TO_BRACKET.match(self._buffer, position)
            position = skipped.end() if skipped else position
            if position >= len(self._buffer) or self._buffer[position] == 0x22:
                self._scanned = position
                return None
            self._depth += 1 if self._buffer[position] in b"{[" else -1
            if self._depth > _MAX_DEPTH:
                raise line_error(self._line_at(self._offset), f"a value is nested deeper than {json.MAX_DEPTH} levels.")
            position += 1
            if not self._depth:
                return position


_PATHS: Paths = {
    (): "rows",
    ("rows",): "rows",
    ("data", "testcases"): "testcases",
    ("testset", "data", "testcases"): "testcases",
    ("testset_revision", "data", "testcases"): "testcases",
}
"""Where the rows are. Agenta's API returns a test set or a revision under its name, next to a `count`."""
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
        return [self._read_element(element) for element in self._elements.feed(chunk)]

    def end(self) -> Iterable[FileRow]:
        return [self._read_element(element) for element in self._elements.end()]

    def _read_element(self, element: ArrayElement) -> FileRow:
        value = decode_json(element.text, element.line)
        case_meta: dict[str, Any] = {}
        if element.layout == "testcases" and isinstance(value, dict):
            case = cast("dict[str, Any]", value)
            if isinstance(case.get("data"), dict):
                case_meta = {name: case[key] for key, name in _AGENTA_META.items() if case.get(key) is not None}
                value = case["data"]
        row = make_file_row(value, element.text, element.line, self.report, self._limits)
        return FileRow(row.data, case_meta | (row.meta or {}), row.line) if case_meta else row


class JsonWriter:
    """Writes an array with one row per line."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._to_objects = object_encoder(columns, meta)
        self._separator = b"\n"

    def begin(self) -> bytes:
        return b"["

    def rows(self, rows: Iterable[FileRow]) -> bytes:
        texts = [json.encode(fields) for fields in self._to_objects(rows)]
        if not texts:
            return b""
        separator, self._separator = self._separator, b",\n"
        return separator + b",\n".join(texts)

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
        return [row for line in lines if (row := self._read_line(line)) is not None]

    def end(self) -> Iterable[FileRow]:
        row = self._read_line(b"".join(self._partial))
        self._partial = []
        return () if row is None else (row,)

    def _append(self, piece: bytes) -> None:
        self._partial_bytes += len(piece)
        if self._partial_bytes > self._limits.max_raw_bytes:
            raise TooLarge(f"Line {self._line}: the row exceeds the limit of {self._limits.row_bytes:,} bytes.")
        if piece:
            self._partial.append(piece)

    def _read_line(self, text: bytes) -> FileRow | None:
        line = self._line
        self._line += 1
        if line == 1:
            text = text.removeprefix(_BOM)
        if not text or text.isspace():
            return None
        return make_file_row(decode_json(text, line), text, line, self.report, self._limits)


class JsonlWriter:
    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._to_objects = object_encoder(columns, meta)

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Iterable[FileRow]) -> bytes:
        return b"".join([json.encode(fields) + b"\n" for fields in self._to_objects(rows)])

    def end(self) -> Iterator[bytes]:
        return iter(())
