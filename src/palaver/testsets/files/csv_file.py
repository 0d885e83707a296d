"""Read and write CSV files."""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

from palaver.core import json
from palaver.errors import InvalidValue, TooLarge, UnsupportedMediaType
from palaver.testsets.files import reserved_names
from palaver.testsets.files.base import FileReport, FileRow, RowLike, line_error, select_meta
from palaver.testsets.files.csv_cells import format_cell, format_name, parse_cell, quote_cell, quote_name
from palaver.testsets.files.formats import SAVE_AS_CSV
from palaver.testsets.limits import TestsetLimits

DELIMITERS = ",;\t|"
_LINE_END = re.compile(r"[\r\n]")
_QUOTED = r'"([^"]*+(?:""[^"]*+)*+)"'
_END = r"\r\n?+|\n|\Z"
_HEADER_CELL = re.compile(rf"(?:{_QUOTED})?+([^{DELIMITERS}\r\n]*+)([{DELIMITERS}]|{_END})")
_QUOTED_CELL = re.compile(_QUOTED)
_MIN_PARSE_CHARS = 65_536
"""Characters that are gathered before a look is worth it."""


class CsvRecord(NamedTuple):
    """The cells of one, and the line in which it begins."""

    cells: list[str]
    line: int


class CsvRecordParser:
    """Takes text as it comes, cut anywhere, and gives the records that are whole. The first one is the header."""

    def __init__(self, delimiter: str | None, most: int) -> None:
        self.delimiter = delimiter
        """As given, or as the header tells."""
        self.line = 1
        """That of the first character which is still waited with."""
        self._cell = _cell_pattern(delimiter) if delimiter else None
        self._most = most
        self._text = ""
        self._waiting: list[str] = []
        self._size, self._wanted = 0, 0

    def feed(self, text: str, *, is_last: bool = False) -> list[CsvRecord]:
        """The records that are known to be whole now."""
        self._waiting.append(text)
        self._size += len(text)
        if self._size < self._wanted and not is_last:
            return []
        self._text = "".join((self._text, *self._waiting))
        self._waiting = []
        found = self._records(is_last=is_last)
        self._size = len(self._text)
        if self._size > self._most:
            raise TooLarge(f"Line {self.line}: the row is too large. Was a quote left open?")
        self._wanted = max(_MIN_PARSE_CHARS, 2 * self._size)  # A long cell is not searched for its end again and again.
        return found

    def lines(self) -> int:
        """How many lines have come, to where they were cut last."""
        return self.line + _count_lines(self._text) + sum(map(_count_lines, self._waiting))

    def _records(self, *, is_last: bool) -> list[CsvRecord]:
        found: list[CsvRecord] = []
        text, at = self._text, 0
        if self._cell is None and not self._detect(is_last=is_last):
            return found
        delimiter = self.delimiter or ","
        while at < len(text):
            end = _LINE_END.search(text, at)
            if end is None and not is_last:
                break
            stop = end.start() if end else len(text)
            if text.find('"', at, stop) >= 0:
                record, after = self._quoted(text, at, is_last=is_last)
                if record is None:
                    break
                found.append(record)
                self.line += _count_lines(text[at:after])
                at = after
                continue
            if end is not None and text[stop] == "\r" and stop + 1 == len(text) and not is_last:
                break  # The next character may be the other half of it.
            if stop > at:
                found.append(CsvRecord(text[at:stop].split(delimiter), self.line))
            self.line += 1
            at = stop + (2 if text.startswith("\r\n", stop) else 1)
        self._text = text[at:]
        return found

    def _quoted(self, text: str, at: int, *, is_last: bool) -> tuple[CsvRecord | None, int]:
        """A record that may hold quoted cells; None where its end has not come."""
        assert self._cell is not None
        cells: list[str] = []
        while True:
            cell = self._cell.match(text, at)
            if cell is None:
                if not is_last and not _is_closed(text, at):
                    return None, at
                message = "text stands behind a closing quote." if _is_closed(text, at) else "a quote is left open."
                raise line_error(self.line, message)
            inner, plain, end = cell.groups()
            at = cell.end()
            if at == len(text) and not is_last and end != self.delimiter and end != "\n" and end != "\r\n":  # noqa: PLR1714
                return None, at  # More of the cell may come, a second quote, or the other half of CRLF.
            cells.append(plain if inner is None else inner.replace('""', '"'))
            if end != self.delimiter:
                return CsvRecord(cells, self.line), at

    def _detect(self, *, is_last: bool) -> bool:
        """Which delimiter occurs most in the header, outside of quotes? False while it is not whole."""
        text, counts = self._text, dict.fromkeys(DELIMITERS, 0)
        at = len(text) - len(text.lstrip("\r\n"))
        while (cell := _HEADER_CELL.match(text, at)) is not None:
            end = cell[3]
            is_open = text.startswith('"', at) and cell[1] is None
            if not is_last and (is_open or (cell.end() == len(text) and end not in counts)):
                return False
            if is_open or end not in counts:
                break
            counts[end] += 1
            at = cell.end()
        most = [delimiter for delimiter, count in counts.items() if count == max(counts.values())]
        self.delimiter = most[0] if len(most) == 1 else ","
        self._cell = _cell_pattern(self.delimiter)
        return True


def _cell_pattern(delimiter: str) -> re.Pattern[str]:
    mark = re.escape(delimiter)
    return re.compile(rf'(?:{_QUOTED}|((?!")[^{mark}\r\n]*+))({mark}|{_END})')


def _is_closed(text: str, at: int) -> bool:
    """Does a quoted cell begin and end here, whatever stands behind it?"""
    return _QUOTED_CELL.match(text, at) is not None


def _count_lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


CellTypes = Literal["auto", "text"]
_ZIP_MAGIC = b"PK\x03\x04"


class CsvReader:
    """Reads a file of it. With types `text` every cell is a string, and an empty one an empty string."""

    def __init__(self, limits: TestsetLimits, *, types: CellTypes = "auto", delimiter: str | None = None) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InvalidValue("The delimiter is one character, and no quote or line end.", pointer="?delimiter")
        self.report = FileReport()
        self._limits = limits
        self._is_text = types == "text"
        self._records = CsvRecordParser(delimiter, limits.raw)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._begun = False
        self._header: _Header | None = None

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        """The rows that are known to be whole now."""
        if not self.report.bytes and chunk.startswith(_ZIP_MAGIC):
            raise UnsupportedMediaType(SAVE_AS_CSV)
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        return self._fed(chunk, is_last=False)

    def end(self) -> Iterable[FileRow]:
        """The rest."""
        found = self._fed(b"", is_last=True)
        if self._header is None:
            raise line_error(1, "there is no header: the first line names the columns.")
        return found

    def _fed(self, chunk: bytes, *, is_last: bool) -> list[FileRow]:
        try:
            text = self._decoder.decode(chunk, is_last)
        except UnicodeDecodeError as error:
            whole = CsvRecordParser(",", self._limits.raw)
            whole.feed(error.object[: error.start].decode())
            raise line_error(self._records.lines() + whole.lines() - 1, "this is not UTF-8.") from None
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        records = self._records.feed(text, is_last=is_last)
        if self._header is None and records:
            self._header = self._opened(records.pop(0))
        return [self._row(record, self._header) for record in records] if self._header else []

    def _opened(self, record: CsvRecord) -> "_Header":
        if len(record.cells) > self._limits.columns + len(reserved_names.RESERVED):
            raise TooLarge(f"Line {record.line}: there are more than {self._limits.columns} columns.")
        header = _Header(record)
        self.report.columns = header.columns
        self.report.delimiter = self._records.delimiter
        return header

    def _row(self, record: CsvRecord, header: "_Header") -> FileRow:
        cells, line = record
        self.report.rows += 1
        self._limits.check_rows(self.report.rows)
        if len(cells) > header.width:
            raise line_error(line, f"there are {len(cells)} cells for {header.width} columns.")
        if self._is_text:
            data: dict[str, Any] = dict(zip(header.names, cells, strict=False))
        else:
            data = {name: parse_cell(cell) for name, cell in zip(header.names, cells, strict=False) if cell}
        meta = header.take_meta(data, line) if header.special else None
        if header.size + 6 * sum(map(len, cells)) > self._limits.row:  # Most are far too small for a closer look.
            self._limits.check_row(len(json.encode(data)), f"Line {line}")
        return FileRow(data, meta, line)


class _Header:
    """The names of the columns; what has a reserved name is taken out of the data."""

    def __init__(self, record: CsvRecord) -> None:
        read = [_read_name(cell, record.line) for cell in record.cells]
        self.names: list[str] = [name for name, _ in read]
        self.special = {name: meaning for name, meaning in read if meaning}
        self.columns = [name for name, meaning in read if not meaning]
        self.width = len(read)
        self.size = sum(len(name) * 6 + 4 for name in self.names)
        if len({*self.names}) < self.width:
            repeated = next(cell for place, cell in enumerate(record.cells) if self.names[place] in self.names[:place])
            raise line_error(record.line, f"the column {repeated[:80]!r} is named twice.")

    def take_meta(self, data: dict[str, Any], line: int) -> dict[str, Any] | None:
        meta: dict[str, Any] = {}
        for name, meaning in self.special.items():
            if name not in data:
                continue
            value = data.pop(name)
            if meaning != reserved_names.EMPTY:
                meta[meaning] = value
            elif value != "":
                raise line_error(line, f"there is a cell under {reserved_names.EMPTY}, which stands for no columns.")
        return meta or None


def _read_name(cell: str, line: int) -> tuple[str, str | None]:
    """A column's name; or one that no column of data can have, and the reserved name that it stands for."""
    if cell in reserved_names.RESERVED:
        return f"\ud800{cell}", cell  # UTF-8 has no such character: nobody's name is equal.
    if not cell.startswith('"'):
        return cell, None
    name = reserved_names.parse_json_literal(cell)
    if name is None:
        raise line_error(line, f"the name {cell[:80]} begins with a quote, and is no JSON string.")
    return name, None


class CsvWriter:
    """Writes a file of it: UTF-8, commas, CRLF."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._columns = columns
        self._meta = meta

    def begin(self) -> bytes:
        """The header."""
        cells = [*self._meta, *map(format_name, self._columns)]
        return _format_line([quote_name(cell) for cell in cells or [reserved_names.EMPTY]]).encode()

    def rows(self, rows: Iterable[RowLike]) -> bytes:
        """These rows."""
        return "".join([_format_line(self._cells(row)) for row in rows]).encode()

    def end(self) -> Iterator[bytes]:
        """Nothing stands after the last row."""
        return iter(())

    def _cells(self, row: RowLike) -> list[str]:
        data, kept = row.data, select_meta(row, self._meta)
        if unknown := data.keys() - {*self._columns}:
            raise ValueError(f"no column {min(unknown)!r} was announced")
        sides = chain(((kept, name) for name in self._meta), ((data, name) for name in self._columns))
        return [quote_cell(format_cell(side[name])) if name in side else "" for side, name in sides]


def _format_line(cells: Sequence[str]) -> str:
    """One alone that is empty is written in quotes: an empty line would be no row."""
    return f"{','.join(cells)}\r\n" if len(cells) > 1 or cells[:1] not in ([], [""]) else '""\r\n'
