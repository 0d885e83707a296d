"""Files of test sets: JSON Lines, JSON, CSV and Parquet, read and written as they come (contract: test sets, A3).

The law: what is read is what was written, for every format and every JSON value. All formats have the same two classes:

    Reader(limits)            feed(chunk) -> rows, end() -> rows, and a report; chunks may be cut anywhere
    Writer(columns, meta)     begin() -> bytes, rows(rows) -> bytes, end() -> pieces of bytes

`read` and `write` drive them over whole files. Nothing here knows a database; Parquet uses temporary files.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import assert_never

from palaver.testsets.files import names
from palaver.testsets.files.csv_file import Types
from palaver.testsets.files.formats import MEDIA_TYPES, Format, format_of
from palaver.testsets.files.rows_out import Outgoing, Writer
from palaver.testsets.files.values import Read, Reader, Report
from palaver.testsets.limits import LIMITS, Limits
from palaver.testsets.rows import Row

__all__ = [
    "MEDIA_TYPES",
    "Format",
    "Outgoing",
    "Read",
    "Reader",
    "Reading",
    "Report",
    "Types",
    "Writer",
    "format_of",
    "read",
    "reader",
    "with_ids",
    "write",
    "writer",
]

_TOGETHER = 500
"""Rows that are written as one piece."""


class Reading:
    """The rows of a file, one after another, and a report of it."""

    def __init__(self, chunks: Iterable[bytes], reader: Reader) -> None:
        self._rows = _read(chunks, reader)
        self.report = reader.report

    def __iter__(self) -> Iterator[Read]:
        return self

    def __next__(self) -> Read:
        return next(self._rows)


def reader(
    format: Format,
    *,
    types: Types = "auto",
    delimiter: str | None = None,
    limits: Limits = LIMITS,
) -> Reader:
    """Reads one file of that format. `types` and `delimiter` are CSV's."""
    match format:
        case "jsonl":
            from palaver.testsets.files import jsonl

            return jsonl.Reader(limits)
        case "json":
            from palaver.testsets.files import json_file

            return json_file.Reader(limits)
        case "csv":
            from palaver.testsets.files import csv_file

            return csv_file.Reader(limits, types=types, delimiter=delimiter)
        case "parquet":
            from palaver.testsets.files import parquet

            return parquet.Reader(limits)
        case _:
            assert_never(format)


def writer(format: Format, columns: Sequence[str], *, meta: Sequence[str] = ()) -> Writer:
    """Writes one file of that format. `columns` names all keys of all rows; `meta`, what is written beside the data."""
    match format:
        case "jsonl":
            from palaver.testsets.files import jsonl

            return jsonl.Writer(columns, meta)
        case "json":
            from palaver.testsets.files import json_file

            return json_file.Writer(columns, meta)
        case "csv":
            from palaver.testsets.files import csv_file

            return csv_file.Writer(columns, meta)
        case "parquet":
            from palaver.testsets.files import parquet

            return parquet.Writer(columns, meta)
        case _:
            assert_never(format)


def read(
    chunks: Iterable[bytes],
    format: Format,
    *,
    types: Types = "auto",
    delimiter: str | None = None,
    limits: Limits = LIMITS,
) -> Reading:
    """The rows of a file whose bytes come in pieces: any pieces, so that an open file, by its lines, will do."""
    return Reading(chunks, reader(format, types=types, delimiter=delimiter, limits=limits))


def write(
    rows: Iterable[Outgoing],
    columns: Sequence[str],
    format: Format,
    *,
    meta: Sequence[str] = (),
) -> Iterator[bytes]:
    """The bytes of a file with these rows, in pieces."""
    writing = writer(format, columns, meta=meta)
    if opening := writing.begin():
        yield opening
    left = iter(rows)
    while some := list(islice(left, _TOGETHER)):
        if piece := writing.rows(some):
            yield piece
    yield from (piece for piece in writing.end() if piece)


def with_ids(rows: Iterable[Row]) -> Iterator[Read]:
    """Rows of a set as they are written with their ids: pass `meta=[names.ID]` along."""
    return (Read(row.data, {names.ID: row.id}) for row in rows)


def _read(chunks: Iterable[bytes], reader: Reader) -> Iterator[Read]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.end()
