"""Parquet, with the extra `palaver[parquet]`: native columns if all values are of one type, else JSON text.

The file's metadata lists the JSON columns under `palaver.json`. A missing cell is Parquet's null, so JSON null makes a
column JSON text. Parquet is read from its end, and its types are known only after the last row: both directions use a
temporary file, to keep memory small.
"""

import io
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from palaver.core import json
from palaver.errors import NotImplementedYet, TooLarge
from palaver.testsets.files import base
from palaver.testsets.files.base import FileReport, FileRow, RowLike, check_row, decode_json, line_error, object_encoder
from palaver.testsets.limits import TestsetLimits

_JSON = b"palaver.json"
_READ_BATCH_ROWS = 128
"""Rows decoded at a time; few, because one page may expand to much."""
_GROUP_ROWS, _GROUP_BYTES = 10_000, 16 * 1024 * 1024
_MAX_MEMORY_BYTES = 4 * 1024 * 1024
_INT64 = range(-(2**63), 2**63)


class _Column(NamedTuple):
    name: str
    meaning: str | None
    """The reserved name of the column; None for data."""
    value: Callable[[Any, int], Any]
    """Converts a non-null value; takes the value and the row number."""


class ParquetReader:
    """Reads Parquet once the whole file has arrived."""

    def __init__(self, limits: TestsetLimits) -> None:
        _arrow()
        self.report = FileReport()
        self._limits = limits
        self._file = tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115 - `end` closes it
        weakref.finalize(self, self._file.close)

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        self._file.write(chunk)
        return ()

    def end(self) -> Iterator[FileRow]:
        arrow, parquet = _arrow()
        with self._file as spool:
            spool.seek(0)
            try:
                file = parquet.ParquetFile(spool)
                self._check(file.metadata)
                columns = _columns(file.schema_arrow, arrow)
                self.report.columns = [column.name for column in columns if column.meaning is None]
                for batch in file.iter_batches(batch_size=_READ_BATCH_ROWS):
                    yield from self._rows(batch, columns)
            except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:  # Dates beyond Python's range.
                raise line_error(self.report.rows + 1, f"this is not Parquet that we read: {error}.") from None

    def _check(self, facts: Any) -> None:
        self._limits.check_rows(facts.num_rows)
        if facts.num_columns > self._limits.columns + len(base.RESERVED_COLUMNS):
            raise TooLarge(f"There are more than {self._limits.columns} columns.")
        self._limits.check_file(sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups)))

    def _rows(self, batch: Any, columns: Sequence[_Column]) -> Iterator[FileRow]:
        cells = [values.to_pylist() for values in batch.columns]
        for index in range(batch.num_rows):
            self.report.rows += 1
            line = self.report.rows
            data: dict[str, Any] = {}
            meta: dict[str, Any] = {}
            for column, column_cells in zip(columns, cells, strict=True):
                if column_cells[index] is None:
                    continue
                if column.meaning is None:
                    data[column.name] = column.value(column_cells[index], line)
                elif column.meaning != base.EMPTY_COLUMN:
                    meta[column.meaning] = column.value(column_cells[index], line)
            check_row(data, json.encode(data), line, self._limits)
            yield FileRow(data, meta or None, line)


class ParquetWriter:
    """Writes Parquet once all rows are known."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        _arrow()
        self._objects = object_encoder(columns, meta)
        self._kinds: dict[str, set[str]] = {name: set() for name in (*meta, *map(base.escape_name, columns))}
        self._file = tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115 - `end` closes it
        weakref.finalize(self, self._file.close)

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Iterable[RowLike]) -> bytes:
        for fields in self._objects(rows):
            for name, value in fields.items():
                self._kinds[name].add(_native_kind(value))
            self._file.write(json.encode(fields) + b"\n")
        return b""

    def end(self) -> Iterator[bytes]:
        arrow, parquet = _arrow()
        kinds = self._kinds or {base.EMPTY_COLUMN: {"bool"}}
        native = {
            name: min(kinds_of_column, default="str") if len(kinds_of_column) < 2 else None
            for name, kinds_of_column in kinds.items()
        }
        native = {name: None if kind == "json" else kind for name, kind in native.items()}
        json_columns = json.encode([name for name, kind in native.items() if kind is None])
        types = {"str": arrow.string(), "int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_()}
        fields = [arrow.field(name, types[kind or "str"]) for name, kind in native.items()]
        schema = arrow.schema(fields, metadata={_JSON: json_columns})
        sink = _Sink()
        with self._file as spool, parquet.ParquetWriter(sink, schema) as writer:
            spool.seek(0)
            for group in _row_groups(spool):
                arrays = [
                    arrow.array([_cell(row, field.name, native) for row in group], type=field.type) for field in schema
                ]
                writer.write_batch(arrow.record_batch(arrays, schema=schema))
                yield sink.take()
        yield sink.take()


class _Sink(io.RawIOBase):
    """A write-only file whose content is taken in pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any, /) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]  # It has none.
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise NotImplementedYet("Parquet needs an extra here: pip install 'palaver[parquet]'.") from None
    return pa, parquet


def _columns(schema: Any, arrow: Any) -> list[_Column]:
    try:
        metadata: dict[bytes, bytes] = schema.metadata or {}
        json_columns = msgspec.json.decode(metadata.get(_JSON, b"[]"), type=set[str])
    except msgspec.MsgspecError:
        raise line_error(1, "the metadata under palaver.json is no list of names.") from None
    columns: list[_Column] = []
    for field in schema:
        reserved = field.name if field.name in base.RESERVED_COLUMNS else None
        value = (
            _from_json
            if field.name in json_columns
            else _keep_value
            if _is_plain(field.type, arrow)
            else _to_json_value
        )
        columns.append(_Column(field.name if reserved else base.unescape_name(field.name), reserved, value))
    if len({(column.name, column.meaning) for column in columns}) < len(columns):
        raise line_error(1, "two columns have the same name.")
    return columns


def _is_plain(kind: Any, arrow: Any) -> bool:
    types = arrow.types
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_integer, types.is_boolean))


def _from_json(value: Any, line: int) -> Any:
    if not isinstance(value, str):
        raise line_error(line, "a column that palaver.json names holds no text.")
    return decode_json(value.encode(), line)


def _keep_value(value: Any, _: int) -> Any:
    return value


def _to_json_value(value: Any, line: int) -> Any:
    """Convert what JSON lacks: dates to text, bytes to base64, NaN to null."""
    if isinstance(value, float) and value - value == 0:
        return value
    try:
        return json.to_builtins(value)
    except json.NotJson as error:
        raise line_error(line, f"there is {error}.") from None


def _native_kind(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if value in _INT64 else "json"
    return type(value).__name__ if isinstance(value, str | float | bool) else "json"


def _cell(row: dict[str, Any], name: str, native: dict[str, str | None]) -> Any:
    if name not in row:
        return None
    return row[name] if native[name] else json.encode(row[name]).decode()


def _row_groups(spool: Any) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for line in spool:
        group.append(msgspec.json.decode(line))
        size += len(line)
        if len(group) == _GROUP_ROWS or size > _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
