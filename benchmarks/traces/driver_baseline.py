"""The baseline of span storage: the same rows, written in batches of the same size by the database driver alone.

Into empty tables with the same indexes, over one connection, with the same durability of a commit.
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
_WORDS_INDEX, _ID_INDEX = _COLUMNS.index("words"), _COLUMNS.index("id")
_ZLIB_PREFIX = b"x\1"


class StoredRows(NamedTuple):
    """The rows and bodies of a database, in insertion order."""

    rows: list[tuple[Any, ...]]
    bodies: list[tuple[Any, ...]]


def measure_writes(stored: StoredRows, path: Path | str) -> float:
    """Seconds to write the rows into a new database."""
    asyncio.run(create_tables(path, stored))
    return write_rows(stored, path)


def write_rows(stored: StoredRows, path: Path | str) -> float:
    """Seconds to write the rows."""
    return _write_sqlite(stored, path) if isinstance(path, Path) else _write_postgres(stored, path)


async def create_tables(path: Path | str, stored: StoredRows) -> None:
    """Create the tables and, on PostgreSQL, the partitions of the rows' days."""
    database = open_database(str(path))
    day = _COLUMNS.index("day")
    starts = [datetime.fromtimestamp(number * 86_400, UTC) for number in sorted({row[day] for row in stored.rows})]
    await database.write(span_days.assign_days, "default", starts, datetime.now(UTC).date())
    await database.close()


# SQLite


def read_sqlite(path: Path) -> StoredRows:
    with sqlite3.connect(path) as db:
        rows = db.execute(f"SELECT {_column_list(_COLUMNS)} FROM spans ORDER BY id").fetchall()
        bodies = db.execute(f"SELECT {_column_list(_BODY_COLUMNS)} FROM span_bodies ORDER BY rowid").fetchall()
    db.close()
    return StoredRows(rows, bodies)


def _write_sqlite(stored: StoredRows, path: Path) -> float:
    texts = [(row[_ID_INDEX], _decompress(row[_WORDS_INDEX])) for row in stored.rows]
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")  # As Palaver sets it. WAL mode is stored in the file.
    since = time.perf_counter()
    for first in range(0, len(stored.rows), SPANS_PER_REQUEST):
        batch = slice(first, first + SPANS_PER_REQUEST)
        db.execute("BEGIN IMMEDIATE")
        db.executemany(_insert("spans", _COLUMNS, "?"), stored.rows[batch])
        db.executemany(_insert("span_bodies", _BODY_COLUMNS, "?"), stored.bodies[batch])
        db.executemany("INSERT INTO span_words (rowid, words) VALUES (?, ?)", texts[batch])
        db.execute("COMMIT")
    seconds = time.perf_counter() - since
    db.close()
    return seconds


def _decompress(texts: bytes) -> str:
    return (zlib.decompress(texts) if texts.startswith(_ZLIB_PREFIX) else texts).decode()


# PostgreSQL


def read_postgres(path: str) -> StoredRows:
    """Read all rows, with the search vector as text, which can be inserted again."""
    with psycopg.connect(path) as db:
        columns = _column_list(_COLUMNS).replace('"words"', "words::text")
        rows = db.execute(f"SELECT {columns} FROM spans ORDER BY id".encode()).fetchall()
        bodies = db.execute(f"SELECT {_column_list(_BODY_COLUMNS)} FROM span_bodies".encode()).fetchall()
    return StoredRows(rows, bodies)


def _write_postgres(stored: StoredRows, path: str) -> float:
    into_rows = _insert("spans", _COLUMNS, "%s").replace("%s)", "%s::tsvector)").encode()  # The words are last.
    into_bodies = _insert("span_bodies", _BODY_COLUMNS, "%s").encode()
    with psycopg.connect(path) as db, db.cursor() as cursor:
        since = time.perf_counter()
        for first in range(0, len(stored.rows), SPANS_PER_REQUEST):
            batch = slice(first, first + SPANS_PER_REQUEST)
            cursor.executemany(into_rows, stored.rows[batch])
            cursor.executemany(into_bodies, stored.bodies[batch])
            db.commit()
        return time.perf_counter() - since


def _column_list(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _insert(table: str, columns: Sequence[str], placeholder: str) -> str:
    return f"INSERT INTO {table} ({_column_list(columns)}) VALUES ({', '.join([placeholder] * len(columns))})"
