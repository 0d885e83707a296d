"""The index of a folder of Markdown: one SQLite file with the pieces and their words.

Indexing again reads every file and replaces only the pieces of those that changed; one transaction, so that a search
meanwhile sees the old index or the new.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec

from palaver import PalaverError
from palaver_jobchat.docs.chunks import split

SHAPE = 1
"""Of the tables below. An index of another shape is made anew."""

_OURS = 0x706A6378  # "pjcx": by this a file is known as an index, and never mistaken for somebody's data.
_TABLES = """
    CREATE TABLE files (path TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL, title TEXT NOT NULL, section TEXT NOT NULL, text TEXT NOT NULL
    );
    CREATE INDEX chunks_of_file ON chunks (path);
    CREATE VIRTUAL TABLE words USING fts5 (
        title, section, text, content='chunks', content_rowid='id', tokenize="porter unicode61 tokenchars '_$'"
    );
"""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What indexing did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0
    chunks: int = 0
    """All that are in the index now."""


def index(folder: Path, file: Path) -> Report:
    """Bring the index in `file` up to date with the folder's Markdown."""
    if not folder.is_dir():
        raise PalaverError(f"There is no folder {folder} to index.")
    try:
        return _update(folder, file)
    except sqlite3.DatabaseError as error:
        raise PalaverError(f"{file} cannot be used as an index ({error}). Delete it, or name another file.") from error


def _update(folder: Path, file: Path) -> Report:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        _prepare(database)
        known: dict[str, str] = dict(database.execute("SELECT path, digest FROM files"))
        seen: dict[str, str] = {}
        for path, content in _documents(folder):
            seen[path] = sha256(content).hexdigest()
            if known.get(path) != seen[path]:
                _remove(database, path)
                _add(database, path, content, seen[path])
        for path in known.keys() - seen.keys():
            _remove(database, path)
        (chunks,) = database.execute("SELECT count(*) FROM chunks").fetchone()
        database.execute("COMMIT")
        kept = sum(known.get(path) == digest for path, digest in seen.items())
        added = len(seen.keys() - known.keys())
        return Report(
            added=added,
            changed=len(seen) - added - kept,
            removed=len(known.keys() - seen.keys()),
            kept=kept,
            chunks=chunks,
        )


def _prepare(database: sqlite3.Connection) -> None:
    (shape,) = database.execute("PRAGMA user_version").fetchone()
    (owner,) = database.execute("PRAGMA application_id").fetchone()
    if (owner, shape) == (_OURS, SHAPE):
        return
    if owner != _OURS and database.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise sqlite3.DatabaseError("it is a database of something else")
    for table in ("words", "chunks", "files"):
        database.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in _TABLES.split(";"):
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {_OURS}")
    database.execute(f"PRAGMA user_version = {SHAPE}")


def _documents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.glob("**/*.md")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") or part == "node_modules" for part in inside.parts):
            yield inside.as_posix(), path.read_bytes()


def _add(database: sqlite3.Connection, path: str, content: bytes, digest: str) -> None:
    database.execute("INSERT INTO files VALUES (?, ?)", (path, digest))
    for chunk in split(content.decode(errors="replace"), name=Path(path).stem):
        texts = (chunk.title, chunk.section, chunk.text)
        added = database.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?)", (path, *texts))
        database.execute(
            "INSERT INTO words (rowid, title, section, text) VALUES (?, ?, ?, ?)", (added.lastrowid, *texts)
        )


def _remove(database: sqlite3.Connection, path: str) -> None:
    # Words stand in no table of their own: to forget them, FTS5 must be told what they were.
    forget = "INSERT INTO words (words, rowid, title, section, text) SELECT 'delete', id, title, section, text"
    database.execute(f"{forget} FROM chunks WHERE path = ?", (path,))
    database.execute("DELETE FROM chunks WHERE path = ?", (path,))
    database.execute("DELETE FROM files WHERE path = ?", (path,))
