"""Read and write CSV files."""

import codecs
import csv
import io
import re
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from palaver.core import json
from palaver.core.dialects.detection import dialect_of
from palaver.errors import InvalidValue, PalaverError, TooLarge, UnsupportedMediaType
from palaver.testsets.files import base
from palaver.testsets.files.base import SAVE_AS_CSV, FileReport, FileRow, line_error, select_meta
from palaver.testsets.limits import TestsetLimits
from palaver.testsets.scripts import is_script

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_CONSTANTS: dict[str, bool | None] = {"null": None, "true": True, "false": False}
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*+")
_NON_TEXT_STARTS = frozenset('"tfn-0123456789{[')
"""First characters of cells that may be more than text. White space may precede the last two."""

_FORMULA_STARTS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""First characters that make a spreadsheet evaluate a formula; the last four are the full-width forms."""
_PLAIN_TEXT = re.compile(
    r'[^\s"tfn0-9{\[=+\-@\uff1d\uff0b\uff0d\uff20\x00-\x1f\x7f-\x9f\ufeff][^\x00-\x08\x0b-\x1f\x7f-\x9f]*+'
)
"""Texts that need no further check."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NEEDS_QUOTES = re.compile(r'[,"\r\n]')
_NAME_NEEDS_QUOTES = re.compile(r'[,"\r\n;\t|]')


def parse_cell(text: str) -> Any:
    """Return the value of a non-empty cell."""
    first = text[0]
    if first not in _NON_TEXT_STARTS:
        if not first.isspace() or text.lstrip()[:1] not in ("{", "["):
            return text
        return json.parse_or_text(text)
    if first == '"':
        inner = base.parse_json_literal(text)
        return text if inner is None else inner
    if first in "{[":
        return json.parse_or_text(text)
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return _parse_number(text) if _NUMBER.fullmatch(text) else text


def parse_text_cell(text: str) -> Any:
    """Return the value of a non-empty cell in a column of text: a string, messages or a script."""
    if text[0] == '"':
        inner = base.parse_json_literal(text)
        return text if inner is None else inner
    if text.lstrip()[:1] not in ("{", "["):
        return text
    value = json.parse_or_text(text)
    return value if dialect_of(value) is not None or is_script(value) else text


def _parse_number(text: str) -> Any:
    """Parse a number only if it would be written the same way: leading and trailing zeros are data, and stay text."""
    try:
        value = _decode(text)
    except msgspec.MsgspecError:
        return text
    return value if _encode(value).decode() == text else text


def format_cell(value: Any) -> str:
    if isinstance(value, str):
        return value if _PLAIN_TEXT.fullmatch(value) or _is_safe(value) else base.json_literal(value)
    return json.encode(value).decode()


def format_name(name: str) -> str:
    """Format a header cell; a JSON literal if the bare name would mean something else."""
    if not name or name[0] in '"\ufeff' or name in base.RESERVED_COLUMNS or _needs_guard(name):
        return base.json_literal(name)
    return name


def quote_cell(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _NEEDS_QUOTES.search(text) else text


def quote_name(text: str) -> str:
    """Quote a header cell, also for characters that could be taken for a delimiter."""
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _NAME_NEEDS_QUOTES.search(text) else text


def _is_safe(text: str) -> bool:
    return text != "" and not _needs_guard(text) and parse_cell(text) == text and isinstance(parse_cell(text), str)


def _needs_guard(text: str) -> bool:
    return text[:1] in ("\t", "\r", "\n") or text.lstrip()[:1] in _FORMULA_STARTS or _CONTROL.search(text) is not None


DELIMITERS = ",;\t|"
_QUOTED = r'"([^"]*+(?:""[^"]*+)*+)"'
_HEADER_CELL = re.compile(rf"(?:{_QUOTED})?+([^{DELIMITERS}\r\n]*+)([{DELIMITERS}]|\r\n?+|\n|\Z)")
_MIN_PARSE_CHARS = 65_536
"""Characters that are buffered before they are parsed."""


class _IncompleteRecord(Exception):
    """Raised inside the csv module: the record continues in text that has not arrived."""


class CsvRecord(NamedTuple):
    """The cells of one record, and the line in which it begins."""

    cells: list[str]
    line: int


class CsvRecordParser:
    """Parses text that arrives in arbitrary pieces into records, with the csv module. The first record is the header.

    A quote opens a quoted cell only at its beginning; inside, two of them are one. CRLF, LF and CR end a record.
    Empty lines are skipped; a line that is only `""` is a record of one empty cell.
    """

    def __init__(self, delimiter: str | None, max_chars: int) -> None:
        self.delimiter = delimiter
        """As passed in, or as detected in the header."""
        self.line = 1
        """The line of the first character that is not parsed yet."""
        self._max_chars = max_chars
        self._text = ""
        self._pending: list[str] = []
        self._size, self._parse_at = 0, 0
        if csv.field_size_limit() < max_chars:  # This limit is process-wide; `feed` checks `max_chars`.
            csv.field_size_limit(max_chars)

    def feed(self, text: str, *, is_last: bool = False) -> list[CsvRecord]:
        self._pending.append(text)
        self._size += len(text)
        if self._size < self._parse_at and not is_last:
            return []
        self._text = "".join((self._text, *self._pending))
        self._pending = []
        records = self._parse(is_last=is_last)
        self._size = len(self._text)
        if self._size > self._max_chars:
            raise self._too_large()
        self._parse_at = max(_MIN_PARSE_CHARS, 2 * self._size)  # A long cell is not parsed over and over.
        return records

    def last_line(self) -> int:
        """Return the number of the line in which the text so far ends."""
        return self.line + _count_lines(self._text) + sum(map(_count_lines, self._pending))

    def _parse(self, *, is_last: bool) -> list[CsvRecord]:
        records: list[CsvRecord] = []
        if self.delimiter is None and not self._detect_delimiter(is_last=is_last):
            return records
        first_line, parsed_chars, read_chars = self.line, 0, 0
        text = self._text if is_last else self._text[: _last_line_end(self._text)]

        def complete_lines() -> Iterator[str]:
            nonlocal read_chars
            for line in io.StringIO(text, newline=""):
                read_chars += len(line)
                yield line
            if not is_last:
                raise _IncompleteRecord

        reader = csv.reader(complete_lines(), delimiter=self.delimiter or ",", strict=True)
        try:
            for cells in reader:
                if cells:
                    records.append(CsvRecord(cells, self.line))
                self.line, parsed_chars = first_line + reader.line_num, read_chars
        except _IncompleteRecord:
            pass
        except csv.Error as error:
            raise self._describe_error(error) from None
        self._text = self._text[parsed_chars:]
        return records

    def _describe_error(self, error: csv.Error) -> PalaverError:
        if "field limit" in str(error):
            return self._too_large()
        is_open = "unexpected end" in str(error)
        return line_error(self.line, "unclosed quote." if is_open else "unexpected text after a closing quote.")

    def _too_large(self) -> TooLarge:
        return TooLarge(f"Line {self.line}: the row is too large. Check for an unclosed quote.")

    def _detect_delimiter(self, *, is_last: bool) -> bool:
        """Take the delimiter that is most frequent in the header, outside quotes; False if the header is incomplete."""
        text, counts = self._text, dict.fromkeys(DELIMITERS, 0)
        position = len(text) - len(text.lstrip("\r\n"))
        while (cell := _HEADER_CELL.match(text, position)) is not None:
            end = cell[3]
            is_open = text.startswith('"', position) and cell[1] is None
            if not is_last and (is_open or (cell.end() == len(text) and end not in counts)):
                return False
            if is_open or end not in counts:
                break
            counts[end] += 1
            position = cell.end()
        most_frequent = [delimiter for delimiter, count in counts.items() if count == max(counts.values())]
        self.delimiter = most_frequent[0] if len(most_frequent) == 1 else ","
        return True


def _last_line_end(text: str) -> int:
    """Return the end of the last complete line. A CR at the very end may be half of a CRLF."""
    return max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1)) + 1


def _count_lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


CellTypes = Literal["auto", "text"]
_ZIP_MAGIC = b"PK\x03\x04"


class _RecordReader:
    """Decodes a file that arrives in chunks, and parses its header and records."""

    def __init__(self, limits: TestsetLimits, delimiter: str | None) -> None:
        self.header: _Header | None = None
        self._limits = limits
        self._records = CsvRecordParser(delimiter, limits.max_raw_bytes)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._started = False
        self._rows = 0

    @property
    def delimiter(self) -> str | None:
        return self._records.delimiter

    def feed(self, chunk: bytes, *, is_last: bool = False) -> list[CsvRecord]:
        try:
            text = self._decoder.decode(chunk, is_last)
        except UnicodeDecodeError as error:
            prefix = CsvRecordParser(",", self._limits.max_raw_bytes)
            prefix.feed(error.object[: error.start].decode())
            raise line_error(self._records.last_line() + prefix.last_line() - 1, "not valid UTF-8.") from None
        if text and not self._started:
            self._started = True
            text = text.removeprefix("\ufeff")
        records = self._records.feed(text, is_last=is_last)
        if self.header is None and records:
            self.header = self._read_header(records.pop(0))
        if self.header is None:
            if is_last:
                raise line_error(1, "missing header. The first line must contain the column names.")
            return []
        for record in records:
            if len(record.cells) > self.header.width:
                raise line_error(record.line, f"expected {self.header.width} cells, got {len(record.cells)}.")
        self._rows += len(records)
        self._limits.check_rows(self._rows)
        return records

    def _read_header(self, record: CsvRecord) -> "_Header":
        if len(record.cells) > self._limits.columns + len(base.RESERVED_COLUMNS):
            raise TooLarge(f"Line {record.line}: the file exceeds the limit of {self._limits.columns:,} columns.")
        return _Header(record)


class _ColumnTypes:
    """Finds the columns that are text: those with a cell that is nothing else.

    A string literal that needs no quotes, such as `"Paris"`, marks a column in which every cell has its own type.
    """

    def __init__(self) -> None:
        self._texts: set[int] = set()
        self._marked: set[int] = set()

    def add(self, cells: Sequence[str]) -> None:
        for index, cell in enumerate(cells):
            if not cell:
                continue
            if cell[0] == '"' and (text := base.parse_json_literal(cell)) is not None:
                if format_cell(text) == text:
                    self._marked.add(index)
            elif index not in self._texts and isinstance(parse_cell(cell), str):
                self._texts.add(index)

    def text_columns(self) -> frozenset[int]:
        return frozenset(self._texts - self._marked)


_MAX_MEMORY_BYTES = 4 * 1024 * 1024
_READ_BYTES = 256 * 1024


class CsvReader:
    """Reads CSV. Rows are returned at the end, because the last cell of a column may decide its type.

    With types `text`, they are returned at once: every cell is a string, and an empty cell an empty string.
    """

    def __init__(self, limits: TestsetLimits, *, types: CellTypes = "auto", delimiter: str | None = None) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InvalidValue(
                "delimiter must be a single character other than a quote or line break.", pointer="?delimiter"
            )
        self.report = FileReport()
        self._limits = limits
        self._delimiter = delimiter
        self._is_text = types == "text"
        self._records = _RecordReader(limits, delimiter)
        self._types = _ColumnTypes()
        self._magic = b""
        self._file = tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115 - `end` closes it
        weakref.finalize(self, self._file.close)

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        if len(self._magic) < len(_ZIP_MAGIC):
            self._magic = (self._magic + chunk)[: len(_ZIP_MAGIC)]
            if self._magic == _ZIP_MAGIC:
                raise UnsupportedMediaType(SAVE_AS_CSV)
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        if not self._is_text:
            self._file.write(chunk)
        return self._parse_chunk(chunk, is_last=False)

    def end(self) -> Iterator[FileRow]:
        yield from self._parse_chunk(b"", is_last=True)
        if self._is_text:
            return
        text_columns, records = self._types.text_columns(), _RecordReader(self._limits, self._delimiter)
        with self._file as spool:
            spool.seek(0)
            while chunk := spool.read(_READ_BYTES):
                yield from self._make_rows(records.feed(chunk), text_columns)
            yield from self._make_rows(records.feed(b"", is_last=True), text_columns)

    def _parse_chunk(self, chunk: bytes, *, is_last: bool) -> list[FileRow]:
        records = self._records.feed(chunk, is_last=is_last)
        if self._records.header is not None:
            self.report.columns = self._records.header.columns
            self.report.delimiter = self._records.delimiter
        if self._is_text:
            return [*self._make_rows(records, frozenset())]
        for record in records:
            self._types.add(record.cells)
        return []

    def _make_rows(self, records: Iterable[CsvRecord], text_columns: Collection[int]) -> Iterator[FileRow]:
        for cells, line in records:
            self.report.rows += 1
            yield self._make_row(cells, line, text_columns)

    def _make_row(self, cells: Sequence[str], line: int, text_columns: Collection[int]) -> FileRow:
        header = self._records.header
        assert header is not None
        if self._is_text:
            data: dict[str, Any] = dict(zip(header.names, cells, strict=False))
        else:
            data = {
                name: parse_text_cell(cell)
                if index in text_columns and name not in header.reserved
                else parse_cell(cell)
                for index, (name, cell) in enumerate(zip(header.names, cells, strict=False))
                if cell
            }
        meta = header.take_meta(data, line) if header.reserved else None
        # Most rows are far too small for an exact check.
        if header.size + 6 * sum(map(len, cells)) > self._limits.row_bytes:
            self._limits.check_row(len(json.encode(data)), f"Line {line}")
        return FileRow(data, meta, line)


class _Header:
    """The column names. Cells under reserved names are removed from the data."""

    def __init__(self, record: CsvRecord) -> None:
        named_cells = [_read_name(cell, record.line) for cell in record.cells]
        self.names: list[str] = [name for name, _ in named_cells]
        self.reserved = {name: reserved_name for name, reserved_name in named_cells if reserved_name}
        self.columns = [name for name, reserved_name in named_cells if not reserved_name]
        self.width = len(named_cells)
        self.size = sum(len(name) * 6 + 4 for name in self.names)
        if len({*self.names}) < self.width:
            repeated = next(cell for index, cell in enumerate(record.cells) if self.names[index] in self.names[:index])
            raise line_error(record.line, f"duplicate column {repeated[:80]!r}.")

    def take_meta(self, data: dict[str, Any], line: int) -> dict[str, Any] | None:
        meta: dict[str, Any] = {}
        for name, reserved_name in self.reserved.items():
            if name not in data:
                continue
            value = data.pop(name)
            if reserved_name != base.EMPTY_COLUMN:
                meta[reserved_name] = value
            elif value != "":
                raise line_error(
                    line, f"the column {base.EMPTY_COLUMN}, which marks a file without columns, must be empty."
                )
        return meta or None


def _read_name(cell: str, line: int) -> tuple[str, str | None]:
    """Return the name of a column; for a reserved name, a name that no data column can have, and the reserved one."""
    if cell in base.RESERVED_COLUMNS:
        return f"\ud800{cell}", cell  # UTF-8 cannot encode this character, so no column has this name.
    if not cell.startswith('"'):
        return cell, None
    name = base.parse_json_literal(cell)
    if name is None:
        raise line_error(
            line, f"invalid column name {cell[:80]}: a name that starts with a quote must be a JSON string."
        )
    return name, None


class CsvWriter:
    """Writes UTF-8 with commas and CRLF.

    `mixed` names the columns that hold both texts and other values. A string literal marks them (see `_ColumnTypes`).
    """

    def __init__(self, columns: Sequence[str], meta: Sequence[str], mixed: Iterable[str] = ()) -> None:
        self._columns = columns
        self._meta = meta
        self._unmarked = set(mixed)

    def begin(self) -> bytes:
        cells = [*self._meta, *map(format_name, self._columns)]
        return _format_line([quote_name(cell) for cell in cells or [base.EMPTY_COLUMN]]).encode()

    def rows(self, rows: Iterable[FileRow]) -> bytes:
        return "".join([_format_line(self._cells(row)) for row in rows]).encode()

    def end(self) -> Iterator[bytes]:
        return iter(())

    def _cells(self, row: FileRow) -> list[str]:
        data, meta = row.data, select_meta(row, self._meta)
        if unknown := data.keys() - {*self._columns}:
            raise ValueError(f"unknown column {min(unknown)!r}")
        meta_cells = [format_cell(meta[name]) if name in meta else "" for name in self._meta]
        data_cells = [self._format(name, data[name]) if name in data else "" for name in self._columns]
        return [quote_cell(cell) for cell in (*meta_cells, *data_cells)]

    def _format(self, name: str, value: Any) -> str:
        text = format_cell(value)
        if name in self._unmarked and text == value:
            self._unmarked.remove(name)
            return base.json_literal(text)
        return text


def _format_line(cells: Sequence[str]) -> str:
    """Join cells to a line. A single empty cell is quoted, because empty lines are skipped."""
    return f"{','.join(cells)}\r\n" if len(cells) > 1 or cells[:1] not in ([], [""]) else '""\r\n'
