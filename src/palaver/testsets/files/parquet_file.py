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
from palaver.testsets.limits import TestsetLimits

_JSON_COLUMNS_KEY = b"palaver.json"
_READ_BATCH_ROWS = 128
"""Rows decoded at a time; few, because one page may expand to many bytes."""
_GROUP_ROWS, _GROUP_BYTES = 10_000, 16 * 1024 * 1024
_MAX_MEMORY_BYTES = 4 * 1024 * 1024
_INT64_RANGE = range(-(2**63), 2**63)


class _Column(NamedTuple):
    name: str
    reserved_name: str | None
    """The reserved name of the column; None for a data column."""
    convert: Callable[[Any, int], Any]
    """Converts a non-null value; takes the value and the row number."""


class ParquetReader:
    """Reads Parquet once the whole file has arrived."""

    def __init__(self, limits: TestsetLimits) -> None:
        _import_arrow()
        self.report = base.FileReport()
        self._limits = limits
        self._file = tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115 - `end` closes it
        weakref.finalize(self, self._file.close)

    def feed(self, chunk: bytes) -> Sequence[base.FileRow]:
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        self._file.write(chunk)
        return ()

    def end(self) -> Iterator[base.FileRow]:
        arrow, parquet = _import_arrow()
        with self._file as spool:
            spool.seek(0)
            try:
                file = parquet.ParquetFile(spool)
                self._check_limits(file.metadata)
                columns = _read_columns(file.schema_arrow, arrow)
                self.report.columns = [column.name for column in columns if column.reserved_name is None]
                for batch in file.iter_batches(batch_size=_READ_BATCH_ROWS):
                    yield from self._make_rows(batch, columns)
            except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:  # Dates beyond Python's range.
                raise base.file_error(self.report.rows + 1, f"Invalid or unsupported Parquet file: {error}.") from None

    def _check_limits(self, footer: Any) -> None:
        self._limits.check_rows(footer.num_rows)
        if footer.num_columns > self._limits.columns + len(base.RESERVED_COLUMNS):
            raise TooLarge(f"The file exceeds the limit of {self._limits.columns:,} columns.")
        self._limits.check_file(sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups)))

    def _make_rows(self, batch: Any, columns: Sequence[_Column]) -> Iterator[base.FileRow]:
        cells = [values.to_pylist() for values in batch.columns]
        for index in range(batch.num_rows):
            self.report.rows += 1
            line = base.RowNumber(self.report.rows)
            data: dict[str, Any] = {}
            meta: dict[str, Any] = {}
            for column, column_cells in zip(columns, cells, strict=True):
                if column_cells[index] is None:
                    continue
                if column.reserved_name is None:
                    data[column.name] = column.convert(column_cells[index], line)
                elif column.reserved_name != base.EMPTY_COLUMN:
                    meta[column.reserved_name] = column.convert(column_cells[index], line)
            base.check_row(data, json.encode(data), line, self._limits)
            yield base.FileRow(data, meta or None, line)


class ParquetWriter:
    """Writes Parquet once all rows are known."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        _import_arrow()
        self._to_objects = base.object_encoder(columns, meta)
        self._kinds: dict[str, set[str]] = {name: set() for name in (*meta, *map(base.escape_name, columns))}
        self._file = tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115 - `end` closes it
        weakref.finalize(self, self._file.close)

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Iterable[base.FileRow]) -> bytes:
        for fields in self._to_objects(rows):
            for name, value in fields.items():
                self._kinds[name].add(_native_kind(value))
            self._file.write(json.encode(fields) + b"\n")
        return b""

    def end(self) -> Iterator[bytes]:
        arrow, parquet = _import_arrow()
        kinds = self._kinds or {base.EMPTY_COLUMN: {"bool"}}
        native_kinds = {
            name: min(column_kinds, default="str") if len(column_kinds) < 2 else None
            for name, column_kinds in kinds.items()
        }
        native_kinds = {name: None if kind == "json" else kind for name, kind in native_kinds.items()}
        json_columns = json.encode([name for name, kind in native_kinds.items() if kind is None])
        types = {"str": arrow.string(), "int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_()}
        fields = [arrow.field(name, types[kind or "str"]) for name, kind in native_kinds.items()]
        schema = arrow.schema(fields, metadata={_JSON_COLUMNS_KEY: json_columns})
        sink = _Sink()
        with self._file as spool, parquet.ParquetWriter(sink, schema) as writer:
            spool.seek(0)
            for group in _row_groups(spool):
                arrays = [
                    arrow.array([_encode_cell(row, field.name, native_kinds) for row in group], type=field.type)
                    for field in schema
                ]
                writer.write_batch(arrow.record_batch(arrays, schema=schema))
                yield sink.take()
        yield sink.take()


class _Sink(io.RawIOBase):
    """A write-only file whose content is read and dropped piece by piece."""

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


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]  # pyarrow has none.
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise NotImplementedYet(
            "Parquet requires an optional dependency. Install it with: pip install 'palaver[parquet]'"
        ) from None
    return pa, parquet


def _read_columns(schema: Any, arrow: Any) -> list[_Column]:
    try:
        metadata: dict[bytes, bytes] = schema.metadata or {}
        json_columns = msgspec.json.decode(metadata.get(_JSON_COLUMNS_KEY, b"[]"), type=set[str])
    except msgspec.MsgspecError:
        raise base.file_error(1, "The metadata key palaver.json must contain a list of column names.") from None
    columns: list[_Column] = []
    for field in schema:
        reserved_name = field.name if field.name in base.RESERVED_COLUMNS else None
        convert = (
            _decode_json_cell
            if field.name in json_columns
            else _unchanged
            if _is_json_type(field.type, arrow)
            else _to_json_value
        )
        columns.append(_Column(field.name if reserved_name else base.unescape_name(field.name), reserved_name, convert))
    if len({(column.name, column.reserved_name) for column in columns}) < len(columns):
        raise base.file_error(1, "Two columns have the same name.")
    return columns


def _is_json_type(type_: Any, arrow: Any) -> bool:
    types = arrow.types
    return any(test(type_) for test in (types.is_string, types.is_large_string, types.is_integer, types.is_boolean))


def _decode_json_cell(value: Any, line: int) -> Any:
    if not isinstance(value, str):
        raise base.line_error(line, "a column listed under palaver.json contains a value that is not a string.")
    return base.decode_json(value.encode(), line)


def _unchanged(value: Any, _: int) -> Any:
    return value


def _to_json_value(value: Any, line: int) -> Any:
    """Convert what JSON lacks: dates to text, bytes to base64, NaN to null."""
    if isinstance(value, float) and value - value == 0:
        return value
    try:
        return json.to_builtins(value)
    except json.NotJson as error:
        raise base.line_error(line, f"unsupported value: {error}.") from None


def _native_kind(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if value in _INT64_RANGE else "json"
    return type(value).__name__ if isinstance(value, str | float | bool) else "json"


def _encode_cell(row: dict[str, Any], name: str, native_kinds: dict[str, str | None]) -> Any:
    if name not in row:
        return None
    return row[name] if native_kinds[name] else json.encode(row[name]).decode()


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
