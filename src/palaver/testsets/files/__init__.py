"""Files of test sets: JSON Lines, JSON, CSV and Parquet, read and written as they come (contract: test sets, A3).

The law: what is read is what was written, for every format and every JSON value. All formats have the same two classes:

    Reader(limits)            feed(chunk) -> rows, end() -> rows, and a report; chunks may be cut anywhere
    Writer(columns, meta)     begin() -> bytes, rows(rows) -> bytes, end() -> pieces of bytes

`read` and `write` drive them over whole files. Nothing here knows a database; Parquet uses temporary files.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import assert_never

from palaver.testsets.files import reserved_names
from palaver.testsets.files.base import FileReport, FileRow, RowLike, RowReader, RowWriter
from palaver.testsets.files.csv_file import CellTypes
from palaver.testsets.files.formats import MEDIA_TYPES, Format, format_of
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.testsets.rows import Row

__all__ = [
    "MEDIA_TYPES",
    "Format",
    "RowLike",
    "FileRow",
    "RowReader",
    "FileRows",
    "FileReport",
    "CellTypes",
    "RowWriter",
    "format_of",
    "read_file",
    "open_reader",
    "with_ids",
    "write_file",
    "open_writer",
]

_WRITE_BATCH_ROWS = 500
"""Rows that are written as one piece."""


class FileRows:
    """The rows of a file, one after another, and a report of it."""

    def __init__(self, chunks: Iterable[bytes], reader: RowReader) -> None:
        self._rows = _iterate_rows(chunks, reader)
        self.report = reader.report

    def __iter__(self) -> Iterator[FileRow]:
        return self

    def __next__(self) -> FileRow:
        return next(self._rows)


def open_reader(
    format: Format,
    *,
    types: CellTypes = "auto",
    delimiter: str | None = None,
    limits: TestsetLimits = DEFAULT_LIMITS,
) -> RowReader:
    """Reads one file of that format. `types` and `delimiter` are CSV's."""
    match format:
        case "jsonl":
            from palaver.testsets.files import jsonl_file

            return jsonl_file.JsonlReader(limits)
        case "json":
            from palaver.testsets.files import json_file

            return json_file.JsonReader(limits)
        case "csv":
            from palaver.testsets.files import csv_file

            return csv_file.CsvReader(limits, types=types, delimiter=delimiter)
        case "parquet":
            from palaver.testsets.files import parquet_file

            return parquet_file.ParquetReader(limits)
        case _:
            assert_never(format)


def open_writer(format: Format, columns: Sequence[str], *, meta: Sequence[str] = ()) -> RowWriter:
    """Writes one file of that format. `columns` names all keys of all rows; `meta`, what is written beside the data."""
    match format:
        case "jsonl":
            from palaver.testsets.files import jsonl_file

            return jsonl_file.JsonlWriter(columns, meta)
        case "json":
            from palaver.testsets.files import json_file

            return json_file.JsonWriter(columns, meta)
        case "csv":
            from palaver.testsets.files import csv_file

            return csv_file.CsvWriter(columns, meta)
        case "parquet":
            from palaver.testsets.files import parquet_file

            return parquet_file.ParquetWriter(columns, meta)
        case _:
            assert_never(format)


def read_file(
    chunks: Iterable[bytes],
    format: Format,
    *,
    types: CellTypes = "auto",
    delimiter: str | None = None,
    limits: TestsetLimits = DEFAULT_LIMITS,
) -> FileRows:
    """The rows of a file whose bytes come in pieces: any pieces, so that an open file, by its lines, will do."""
    return FileRows(chunks, open_reader(format, types=types, delimiter=delimiter, limits=limits))


def write_file(
    rows: Iterable[RowLike],
    columns: Sequence[str],
    format: Format,
    *,
    meta: Sequence[str] = (),
) -> Iterator[bytes]:
    """The bytes of a file with these rows, in pieces."""
    writing = open_writer(format, columns, meta=meta)
    if opening := writing.begin():
        yield opening
    left = iter(rows)
    while some := list(islice(left, _WRITE_BATCH_ROWS)):
        if piece := writing.rows(some):
            yield piece
    yield from (piece for piece in writing.end() if piece)


def with_ids(rows: Iterable[Row]) -> Iterator[FileRow]:
    """Rows of a set as they are written with their ids: pass `meta=[names.ID]` along."""
    return (FileRow(row.data, {reserved_names.ID: row.id}) for row in rows)


def _iterate_rows(chunks: Iterable[bytes], reader: RowReader) -> Iterator[FileRow]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.end()
