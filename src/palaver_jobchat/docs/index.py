"""The index of a folder of Markdown: one SQLite file with the pieces, their words and, if wanted, their vectors.

Indexing again reads every file and replaces only the pieces of those that changed. A search meanwhile sees the old
index or the new.
"""

import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal
from uuid import uuid4

import msgspec

from palaver import PalaverError
from palaver_jobchat.docs.embeddings import PROBE, Embedding, is_same_model, load_embedding
from palaver_jobchat.docs.markdown import Document, Problem, read_documents, split_markdown
from palaver_jobchat.settings import PREFIX, Settings


@contextmanager
def replace_file(file: Path, *, lock_timeout: float) -> Generator[Path]:
    """A copy of the file to change (nothing, if there is none), which takes its place if all goes well.

    A second writer waits so many seconds for the first.
    """
    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive_lock(file, wait=lock_timeout):
        # A name of its own is not needed: whoever finds one here found what a dead writer left.
        part = file.with_name(f".{file.name}.part")
        part.unlink(missing_ok=True)
        try:
            if file.exists():
                shutil.copy(file, part)
            yield part
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _exclusive_lock(file: Path, *, wait: float) -> Generator[None]:
    # SQLite's lock is the same on every system and ends with its process. The file stays behind, empty: were it
    # removed, one who waits for the old and one who makes a new would both believe to be alone.
    with closing(sqlite3.connect(file.with_name(f".{file.name}.lock"), timeout=wait, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise PalaverError(f"{file} is being written by another process. Try again when it has ended.") from error
        yield


SCHEMA_VERSION = 2
"""Of the tables below. An index of another shape is made anew."""
LOCK_TIMEOUT_S = 60.0
"""Seconds for another indexing of the same file to end."""

Progress = Callable[[Literal["files", "vectors"], int, int], None]
"""Is told what is being made, how many are done, and of how many."""

TOKENIZER = "tokenize=\"porter unicode61 tokenchars '_$'\""
"""How words are read: in all their forms, and an identifier as one."""

_EMBED_BATCH_SIZE = 256
_APPLICATION_ID = 0x706A6378  # "pjcx": by this a file is known as an index, and never mistaken for somebody's data.
_TABLES = f"""
    CREATE TABLE about (
        stamp TEXT NOT NULL, chunks INTEGER NOT NULL, model TEXT, dimension INTEGER, probe BLOB
    );
    CREATE TABLE files (path TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL, title TEXT NOT NULL, section TEXT NOT NULL, text TEXT NOT NULL
    );
    CREATE INDEX chunks_of_file ON chunks (path);
    CREATE VIRTUAL TABLE words USING fts5 (title, section, text, content='chunks', content_rowid='id', {TOKENIZER});
    CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, vector BLOB NOT NULL);
"""


class IndexReport(msgspec.Struct, frozen=True, kw_only=True):
    """What indexing did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0
    chunks: int = 0
    """All that are in the index now."""
    vectors: int = 0
    """Those made just now; the others stood there already."""
    problems: tuple[Problem, ...] = ()
    """Files that were left out, or not read as they should be."""


def build_index(
    folder: Path,
    file: Path,
    *,
    embeddings: Embedding | None = None,
    progress: Progress = lambda _what, _done, _of: None,
    lock_timeout: float = LOCK_TIMEOUT_S,
) -> IndexReport:
    """Bring the index in `file` up to date with the folder's Markdown.

    It has the vectors of all pieces or, without `embeddings`, of none.
    """
    if not folder.is_dir():
        raise PalaverError(f"There is no folder {folder} to index.")
    try:
        with (
            replace_file(file, wait=lock_timeout) as part,
            closing(sqlite3.connect(part, isolation_level=None)) as database,
        ):
            database.execute("PRAGMA journal_mode = OFF")  # Of a copy: if this fails, it is thrown away.
            database.execute("BEGIN")
            report = _update(database, folder, embeddings, progress)
            database.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise PalaverError(f"{file} cannot be used as an index ({error}). Delete it, or name another file.") from error
    except OSError as error:
        raise PalaverError(f"The index {file} cannot be written: {error}.") from error
    return report


def _update(
    database: sqlite3.Connection, folder: Path, embeddings: Embedding | None, progress: Progress
) -> IndexReport:
    _ensure_schema(database)
    known: dict[str, str] = dict(database.execute("SELECT path, digest FROM files"))
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for found in read_documents(folder, progress=lambda done, of: progress("files", done, of)):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        seen[found.path] = found.digest
        if known.get(found.path) != found.digest:
            _remove(database, found.path)
            _add(database, found)
    for path in known.keys() - seen.keys():
        _remove(database, path)
    kept = sum(known.get(path) == digest for path, digest in seen.items())
    added, removed = len(seen.keys() - known.keys()), len(known.keys() - seen.keys())
    if len(seen) > kept or removed:
        database.execute("INSERT INTO words (words) VALUES ('optimize')")  # Searches are a fifth faster then.
    vectors = _embed(database, embeddings, progress)
    (chunks,) = database.execute("SELECT count(*) FROM chunks").fetchone()
    database.execute("UPDATE about SET stamp = ?, chunks = ?", (uuid4().hex, chunks))
    return IndexReport(
        added=added,
        changed=len(seen) - added - kept,
        removed=removed,
        kept=kept,
        chunks=chunks,
        vectors=vectors,
        problems=tuple(problems),
    )


def _ensure_schema(database: sqlite3.Connection) -> None:
    (shape,) = database.execute("PRAGMA user_version").fetchone()
    (owner,) = database.execute("PRAGMA application_id").fetchone()
    if (owner, shape) == (_APPLICATION_ID, SCHEMA_VERSION):
        return
    if owner != _APPLICATION_ID and database.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise sqlite3.DatabaseError("it is a database of something else")
    for table in ("words", "chunks", "files", "vectors", "about"):
        database.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in _TABLES.split(";"):
        database.execute(statement)
    database.execute("INSERT INTO about (stamp, chunks) VALUES ('', 0)")
    database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _add(database: sqlite3.Connection, document: Document) -> None:
    database.execute("INSERT INTO files VALUES (?, ?)", (document.path, document.digest))
    for chunk in split_markdown(document.text, name=Path(document.path).stem):
        texts = (chunk.title, chunk.section, chunk.text)
        added = database.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?)", (document.path, *texts))
        database.execute(
            "INSERT INTO words (rowid, title, section, text) VALUES (?, ?, ?, ?)", (added.lastrowid, *texts)
        )


def _remove(database: sqlite3.Connection, path: str) -> None:
    # Words stand in no table of their own: to forget them, FTS5 must be told what they were.
    forget = "INSERT INTO words (words, rowid, title, section, text) SELECT 'delete', id, title, section, text"
    database.execute(f"{forget} FROM chunks WHERE path = ?", (path,))
    database.execute("DELETE FROM vectors WHERE chunk IN (SELECT id FROM chunks WHERE path = ?)", (path,))
    database.execute("DELETE FROM chunks WHERE path = ?", (path,))
    database.execute("DELETE FROM files WHERE path = ?", (path,))


def _embed(database: sqlite3.Connection, embeddings: Embedding | None, progress: Progress) -> int:
    """Give every piece a vector of this model; those that another model made mean nothing beside them."""
    if embeddings is None:
        database.execute("DELETE FROM vectors")
        database.execute("UPDATE about SET model = NULL, dimension = NULL, probe = NULL")
        return 0
    probe = embeddings.vectors([PROBE])[0]
    (before,) = database.execute("SELECT probe FROM about").fetchone()
    if not is_same_model(probe, before):
        database.execute("DELETE FROM vectors")
        about = (embeddings.name, len(probe), probe.tobytes())
        database.execute("UPDATE about SET model = ?, dimension = ?, probe = ?", about)
    missing = database.execute(
        "SELECT id, title, section, text FROM chunks WHERE id NOT IN (SELECT chunk FROM vectors) ORDER BY id"
    ).fetchall()
    for start in range(0, len(missing), _EMBED_BATCH_SIZE):
        progress("vectors", start, len(missing))
        batch = missing[start : start + _EMBED_BATCH_SIZE]
        vectors = embeddings.vectors(["\n".join(texts) for _, *texts in batch])
        rows = ((number, vector.tobytes()) for (number, *_), vector in zip(batch, vectors, strict=True))
        database.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
    progress("vectors", len(missing), len(missing))
    return len(missing)


DEFAULT_FILE = "docs.db"
"""In the working folder, where neither -o nor the setting names another file."""


def index_folder(
    folder: Path,
    output: Path | None,
    settings: Settings,
    *,
    progress: Progress = lambda _what, _done, _of: None,
) -> list[str]:
    """Index a folder, with vectors if EMBEDDINGS is set; the lines to print. Raises PalaverError where it cannot."""
    file = output or Path(settings.index or DEFAULT_FILE).expanduser()
    report = build_index(folder, file, embeddings=load_embedding(settings.embeddings), progress=progress)
    return list(_summary_lines(folder, file, report, settings))


def _summary_lines(folder: Path, file: Path, report: IndexReport, settings: Settings) -> Iterator[str]:
    files = report.added + report.changed + report.kept
    vectors = f", {report.vectors:,} vectors made" if settings.embeddings else ""
    yield (
        f"{folder}: {_count(files, 'file')}, {_count(report.chunks, 'piece')} ({report.added:,} added, "
        f"{report.changed:,} changed, {report.removed:,} removed, {report.kept:,} as before{vectors})."
    )
    for problem in report.problems:
        yield f"  {problem.path} {problem.description}."
    if not files:
        yield "There is no Markdown in this folder: nothing will be found."
    is_set = bool(settings.index) and Path(settings.index).expanduser().resolve() == file.resolve()
    yield f"Index: {file}" + ("." if is_set else f". To search it, set {PREFIX}INDEX={file}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


SAMPLE_PAGES = Path(__file__).parent.parent / "data" / "docs"


def sample_index(cache: Path, *, embeddings: Embedding | None = None) -> Path:
    """The index of our own pages, made in the cache folder where it is not there yet."""
    file = cache / f"docs-{_sample_digest()}.sqlite"
    is_there = file.exists()
    if is_there and not _is_valid_index(file):
        file.unlink(missing_ok=True)
        is_there = False
    if not is_there or embeddings is not None:
        # If it is there, only the vectors may be missing, or be another model's.
        build_index(SAMPLE_PAGES, file, embeddings=embeddings, lock_timeout=5.0)
    return file


def _sample_digest() -> str:
    """Of the pages, so that two versions of this program can share a cache."""
    pages = [f"{page.path} {page.digest}" for page in read_documents(SAMPLE_PAGES) if isinstance(page, Document)]
    return sha256("\n".join([f"{SCHEMA_VERSION}", *pages]).encode()).hexdigest()[:12]


def _is_valid_index(file: Path) -> bool:
    """Whether a file in the cache, which nobody looks after, is an index that can be read."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
            return state == "ok" and database.execute("SELECT 1 FROM about").fetchone() is not None
    except sqlite3.DatabaseError:
        return False
