"""File formats of test sets: JSON Lines, JSON, CSV and Parquet, streamed in both directions.

    base            format detection, reserved column names, interfaces and helpers that all formats share
    csv_file        CSV
    json_file       JSON Lines; JSON arrays, `{"rows": […]}` and Agenta's export
    parquet_file    Parquet

Every format round-trips every JSON value. Each format has a reader and a writer:

- `Reader(limits)`: `feed(chunk)` and `end()` return rows; chunks may be cut anywhere.
- `Writer(columns, meta)`: `begin()`, `rows(rows)` and `end()` return bytes.

Nothing here uses a database. Parquet uses temporary files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import assert_never

from palaver.testsets.files.base import MEDIA_TYPES, FileRow, Format, RowReader, RowWriter, format_of
from palaver.testsets.files.csv_file import CellTypes, CsvReader, CsvWriter
from palaver.testsets.files.json_file import JsonlReader, JsonlWriter, JsonReader, JsonWriter
from palaver.testsets.files.parquet_file import ParquetReader, ParquetWriter
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits

__all__ = [
    "MEDIA_TYPES",
    "CellTypes",
    "FileRow",
    "FileRows",
    "Format",
    "format_of",
    "open_reader",
    "open_writer",
    "read_file",
    "write_file",
]

_WRITE_BATCH_ROWS = 500
_WRITERS: dict[Format, Callable[[Sequence[str], Sequence[str]], RowWriter]] = {
    "jsonl": JsonlWriter,
    "json": JsonWriter,
    "parquet": ParquetWriter,
}


class FileRows:
    """An iterator over the rows of a file. `report` is complete at its end."""

    def __init__(self, chunks: Iterable[bytes], reader: RowReader) -> None:
        self._rows = _iterate_rows(chunks, reader)
        self.report = reader.report

    def __iter__(self) -> Iterator[FileRow]:
        return self

    def __next__(self) -> FileRow:
        return next(self._rows)


def open_reader(
    format: Format, *, types: CellTypes = "auto", delimiter: str | None = None, limits: TestsetLimits = DEFAULT_LIMITS
) -> RowReader:
    """Return a reader for the format. `types` and `delimiter` apply to CSV."""
    match format:
        case "jsonl":
            return JsonlReader(limits)
        case "json":
            return JsonReader(limits)
        case "csv":
            return CsvReader(limits, types=types, delimiter=delimiter)
        case "parquet":
            return ParquetReader(limits)
        case _:
            assert_never(format)


def open_writer(
    format: Format, columns: Sequence[str], *, meta: Sequence[str] = (), mixed: Iterable[str] = ()
) -> RowWriter:
    """Return a writer for the format.

    `columns` names all keys of all rows; `meta`, the metadata to write with them; `mixed`, the columns that hold both
    texts and other values (`find_mixed_columns`), which CSV has to know.
    """
    return CsvWriter(columns, meta, mixed) if format == "csv" else _WRITERS[format](columns, meta)


def read_file(
    chunks: Iterable[bytes],
    format: Format,
    *,
    types: CellTypes = "auto",
    delimiter: str | None = None,
    limits: TestsetLimits = DEFAULT_LIMITS,
) -> FileRows:
    """Read a file that arrives in arbitrary chunks of bytes."""
    return FileRows(chunks, open_reader(format, types=types, delimiter=delimiter, limits=limits))


def write_file(
    rows: Iterable[FileRow],
    columns: Sequence[str],
    format: Format,
    *,
    meta: Sequence[str] = (),
    mixed: Iterable[str] = (),
) -> Iterator[bytes]:
    writer = open_writer(format, columns, meta=meta, mixed=mixed)
    if opening := writer.begin():
        yield opening
    remaining = iter(rows)
    while batch := list(islice(remaining, _WRITE_BATCH_ROWS)):
        if piece := writer.rows(batch):
            yield piece
    yield from (piece for piece in writer.end() if piece)


def _iterate_rows(chunks: Iterable[bytes], reader: RowReader) -> Iterator[FileRow]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.end()
