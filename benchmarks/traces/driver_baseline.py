"""Bare: the rows that were stored, written once more, in batches of the same size, by nothing but the driver.

Into the same tables with the same indexes, empty ones, by one connection, with the same promise of a commit.
"""

import asyncio
import sqlite3
import time
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.traces.chats import SPANS_PER_REQUEST
from palaver.storage.database import open_database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans.tables import span_bodies, spans

_COLUMNS = [column.name for column in spans.c]
_BODY_COLUMNS = [column.name for column in span_bodies.c]
_WORDS, _ID = _COLUMNS.index("words"), _COLUMNS.index("id")
_ZLIB_PREFIX = b"x\1"


class StoredRows(NamedTuple):
    """What a database holds: rows and bodies, in the order in which they came."""

    rows: list[tuple[Any, ...]]
    bodies: list[tuple[Any, ...]]


def measure_writes(stored: StoredRows, place: Path | str) -> float:
    """How long it takes to write them into a new database there."""
    asyncio.run(create_tables(place, stored))
    return write_rows(stored, place)


def write_rows(stored: StoredRows, place: Path | str) -> float:
    """How long it takes to write them there."""
    return _write_sqlite(stored, place) if isinstance(place, Path) else _write_postgres(stored, place)


async def create_tables(place: Path | str, stored: StoredRows) -> None:
    """The tables; on PostgreSQL also the parts of those days that the rows are of."""
    database = open_database(str(place))
    day = _COLUMNS.index("day")
    starts = [datetime.fromtimestamp(number * 86_400, UTC) for number in sorted({row[day] for row in stored.rows})]
    await database.write(span_days.assign_days, "default", starts, datetime.now(UTC).date())
    await database.close()


# SQLite


def read_sqlite(place: Path) -> StoredRows:
    """What is stored in that file."""
    with sqlite3.connect(place) as db:
        rows = db.execute(f"SELECT {_column_list(_COLUMNS)} FROM spans ORDER BY id").fetchall()
        bodies = db.execute(f"SELECT {_column_list(_BODY_COLUMNS)} FROM span_bodies ORDER BY rowid").fetchall()
    db.close()
    return StoredRows(rows, bodies)


def _write_sqlite(stored: StoredRows, place: Path) -> float:
    words = [(row[_ID], _decompress(row[_WORDS])) for row in stored.rows]
    db = sqlite3.connect(place, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")  # As ours has it; it is the file that remembers to be a WAL.
    since = time.perf_counter()
    for first in range(0, len(stored.rows), SPANS_PER_REQUEST):
        some = slice(first, first + SPANS_PER_REQUEST)
        db.execute("BEGIN IMMEDIATE")
        db.executemany(_insert("spans", _COLUMNS, "?"), stored.rows[some])
        db.executemany(_insert("span_bodies", _BODY_COLUMNS, "?"), stored.bodies[some])
        db.executemany("INSERT INTO span_words (rowid, words) VALUES (?, ?)", words[some])
        db.execute("COMMIT")
    taken = time.perf_counter() - since
    db.close()
    return taken


def _decompress(words: bytes) -> str:
    return (zlib.decompress(words) if words.startswith(_ZLIB_PREFIX) else words).decode()


# PostgreSQL


def read_postgres(place: str) -> StoredRows:
    """What is stored in that database; words in the form in which it takes them back."""
    with psycopg.connect(place) as db:
        columns = _column_list(_COLUMNS).replace('"words"', "words::text")
        rows = db.execute(f"SELECT {columns} FROM spans ORDER BY id".encode()).fetchall()
        bodies = db.execute(f"SELECT {_column_list(_BODY_COLUMNS)} FROM span_bodies".encode()).fetchall()
    return StoredRows(rows, bodies)


def _write_postgres(stored: StoredRows, place: str) -> float:
    into_rows = _insert("spans", _COLUMNS, "%s").replace("%s)", "%s::tsvector)").encode()  # The words are last.
    into_bodies = _insert("span_bodies", _BODY_COLUMNS, "%s").encode()
    with psycopg.connect(place) as db, db.cursor() as cursor:
        since = time.perf_counter()
        for first in range(0, len(stored.rows), SPANS_PER_REQUEST):
            some = slice(first, first + SPANS_PER_REQUEST)
            cursor.executemany(into_rows, stored.rows[some])
            cursor.executemany(into_bodies, stored.bodies[some])
            db.commit()
        return time.perf_counter() - since


def _column_list(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _insert(table: str, columns: Sequence[str], mark: str) -> str:
    return f"INSERT INTO {table} ({_column_list(columns)}) VALUES ({', '.join([mark] * len(columns))})"
