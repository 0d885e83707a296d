"""CSV: a header of names, then cells of text that mean values by exact rules (contract: test sets, A3).

records.py takes the text apart, cells.py knows what a cell means. Here a header becomes columns, and records rows.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from palaver.core import jsons
from palaver.errors import InvalidValue, TooLarge, UnsupportedMediaType
from palaver.testsets.files import names
from palaver.testsets.files.cells import quoted, quoted_name, read_cell, written_cell, written_name
from palaver.testsets.files.formats import SAVE_AS_CSV
from palaver.testsets.files.records import Record, Records
from palaver.testsets.files.rows_out import Outgoing, beside
from palaver.testsets.files.values import Read, Report, wrong
from palaver.testsets.limits import Limits

Types = Literal["auto", "text"]
_ARCHIVE = b"PK\x03\x04"


class Reader:
    """Reads a file of it. With types `text` every cell is a string, and an empty one an empty string."""

    def __init__(self, limits: Limits, *, types: Types = "auto", delimiter: str | None = None) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InvalidValue("The delimiter is one character, and no quote or line end.", pointer="?delimiter")
        self.report = Report()
        self._limits = limits
        self._is_text = types == "text"
        self._records = Records(delimiter, limits.raw)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._begun = False
        self._header: _Header | None = None

    def feed(self, chunk: bytes) -> Sequence[Read]:
        """The rows that are known to be whole now."""
        if not self.report.bytes and chunk.startswith(_ARCHIVE):
            raise UnsupportedMediaType(SAVE_AS_CSV)
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        return self._fed(chunk, is_last=False)

    def end(self) -> Iterable[Read]:
        """The rest."""
        found = self._fed(b"", is_last=True)
        if self._header is None:
            raise wrong(1, "there is no header: the first line names the columns.")
        return found

    def _fed(self, chunk: bytes, *, is_last: bool) -> list[Read]:
        try:
            text = self._decoder.decode(chunk, is_last)
        except UnicodeDecodeError as error:
            whole = Records(",", self._limits.raw)
            whole.feed(error.object[: error.start].decode())
            raise wrong(self._records.lines() + whole.lines() - 1, "this is not UTF-8.") from None
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        records = self._records.feed(text, is_last=is_last)
        if self._header is None and records:
            self._header = self._opened(records.pop(0))
        return [self._row(record, self._header) for record in records] if self._header else []

    def _opened(self, record: Record) -> "_Header":
        if len(record.cells) > self._limits.columns + len(names.RESERVED):
            raise TooLarge(f"Line {record.line}: there are more than {self._limits.columns} columns.")
        header = _Header(record)
        self.report.columns = header.columns
        self.report.delimiter = self._records.delimiter
        return header

    def _row(self, record: Record, header: "_Header") -> Read:
        cells, line = record
        self.report.rows += 1
        self._limits.check_rows(self.report.rows)
        if len(cells) > header.width:
            raise wrong(line, f"there are {len(cells)} cells for {header.width} columns.")
        if self._is_text:
            data: dict[str, Any] = dict(zip(header.names, cells, strict=False))
        else:
            data = {name: read_cell(cell) for name, cell in zip(header.names, cells, strict=False) if cell}
        meta = header.take_meta(data, line) if header.special else None
        if header.size + 6 * sum(map(len, cells)) > self._limits.row:  # Most are far too small for a closer look.
            self._limits.check_row(len(jsons.encode(data)), f"Line {line}")
        return Read(data, meta, line)


class _Header:
    """The names of the columns; what has a reserved name is taken out of the data."""

    def __init__(self, record: Record) -> None:
        read = [_read_name(cell, record.line) for cell in record.cells]
        self.names: list[str] = [name for name, _ in read]
        self.special = {name: meaning for name, meaning in read if meaning}
        self.columns = [name for name, meaning in read if not meaning]
        self.width = len(read)
        self.size = sum(len(name) * 6 + 4 for name in self.names)
        if len({*self.names}) < self.width:
            repeated = next(cell for place, cell in enumerate(record.cells) if self.names[place] in self.names[:place])
            raise wrong(record.line, f"the column {repeated[:80]!r} is named twice.")

    def take_meta(self, data: dict[str, Any], line: int) -> dict[str, Any] | None:
        meta: dict[str, Any] = {}
        for name, meaning in self.special.items():
            if name not in data:
                continue
            value = data.pop(name)
            if meaning != names.EMPTY:
                meta[meaning] = value
            elif value != "":
                raise wrong(line, f"there is a cell under {names.EMPTY}, which stands for no columns.")
        return meta or None


def _read_name(cell: str, line: int) -> tuple[str, str | None]:
    """A column's name; or one that no column of data can have, and the reserved name that it stands for."""
    if cell in names.RESERVED:
        return f"\ud800{cell}", cell  # UTF-8 has no such character: nobody's name is equal.
    if not cell.startswith('"'):
        return cell, None
    name = names.from_literal(cell)
    if name is None:
        raise wrong(line, f"the name {cell[:80]} begins with a quote, and is no JSON string.")
    return name, None


class Writer:
    """Writes a file of it: UTF-8, commas, CRLF."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._columns = columns
        self._meta = meta

    def begin(self) -> bytes:
        """The header."""
        cells = [*self._meta, *map(written_name, self._columns)]
        return _line([quoted_name(cell) for cell in cells or [names.EMPTY]]).encode()

    def rows(self, rows: Iterable[Outgoing]) -> bytes:
        """These rows."""
        return "".join([_line(self._cells(row)) for row in rows]).encode()

    def end(self) -> Iterator[bytes]:
        """Nothing stands after the last row."""
        return iter(())

    def _cells(self, row: Outgoing) -> list[str]:
        data, kept = row.data, beside(row, self._meta)
        if unknown := data.keys() - {*self._columns}:
            raise ValueError(f"no column {min(unknown)!r} was announced")
        sides = chain(((kept, name) for name in self._meta), ((data, name) for name in self._columns))
        return [quoted(written_cell(side[name])) if name in side else "" for side, name in sides]


def _line(cells: Sequence[str]) -> str:
    """One alone that is empty is written in quotes: an empty line would be no row."""
    return f"{','.join(cells)}\r\n" if len(cells) > 1 or cells[:1] not in ([], [""]) else '""\r\n'
