"""The index of a folder of Markdown: one SQLite file with the chunks, their words and optionally their vectors.

Indexing again replaces the chunks of changed files only. A concurrent search sees the old or the new index.
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
    """Yield a copy of the file, if it exists, that replaces it on success.

    A second writer waits up to `lock_timeout` seconds for the first.
    """
    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive_lock(file, timeout=lock_timeout):
        # The lock makes a unique name unnecessary: an existing file was left by a dead writer.
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
def _exclusive_lock(file: Path, *, timeout: float) -> Generator[None]:
    # SQLite's lock works on every system and ends with its process. The empty file is not removed: a process that waits
    # for the old file and one that creates a new file would both get the lock.
    with closing(sqlite3.connect(file.with_name(f".{file.name}.lock"), timeout=timeout, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise PalaverError(f"Another process is writing {file}. Try again when it has finished.") from error
        yield


SCHEMA_VERSION = 2
"""An index with another version is rebuilt."""
LOCK_TIMEOUT_S = 60.0
"""How long to wait for another process that indexes into the same file."""

Progress = Callable[[Literal["files", "vectors"], int, int], None]
"""Called with the stage, the number done and the total."""

TOKENIZER = "tokenize=\"porter unicode61 tokenchars '_$'\""
"""FTS5 tokenizer: stemmed words; an identifier is one word."""

_EMBED_BATCH_SIZE = 256
_APPLICATION_ID = 0x706A6378  # "pjcx". Databases with another id are never overwritten.
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
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    """Total in the index."""
    vectors: int = 0
    """Computed by this run."""
    problems: tuple[Problem, ...] = ()
    """Files that were skipped or read with errors."""


def build_index(
    folder: Path,
    file: Path,
    *,
    embeddings: Embedding | None = None,
    progress: Progress = lambda _stage, _done, _total: None,
    lock_timeout: float = LOCK_TIMEOUT_S,
) -> IndexReport:
    """Bring the index in `file` up to date with the folder's Markdown.

    It has vectors of all chunks or, without `embeddings`, of none.
    """
    if not folder.is_dir():
        raise PalaverError(f"Folder not found: {folder}.")
    try:
        with (
            replace_file(file, lock_timeout=lock_timeout) as part,
            closing(sqlite3.connect(part, isolation_level=None)) as database,
        ):
            database.execute("PRAGMA journal_mode = OFF")  # A failed copy is discarded.
            database.execute("BEGIN")
            report = _update(database, folder, embeddings, progress)
            database.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise PalaverError(f"Cannot use {file} as an index: {error}. Delete it or choose another file.") from error
    except OSError as error:
        raise PalaverError(f"Cannot write the index {file}: {error}.") from error
    return report


def _update(
    database: sqlite3.Connection, folder: Path, embeddings: Embedding | None, progress: Progress
) -> IndexReport:
    _ensure_schema(database)
    stored: dict[str, str] = dict(database.execute("SELECT path, digest FROM files"))
    current: dict[str, str] = {}
    problems: list[Problem] = []
    for document in read_documents(folder, progress=lambda done, total: progress("files", done, total)):
        if isinstance(document, Problem):
            problems.append(document)
            continue
        current[document.path] = document.digest
        if stored.get(document.path) != document.digest:
            _remove(database, document.path)
            _add(database, document)
    for path in stored.keys() - current.keys():
        _remove(database, path)
    unchanged = sum(stored.get(path) == digest for path, digest in current.items())
    added, removed = len(current.keys() - stored.keys()), len(stored.keys() - current.keys())
    if len(current) > unchanged or removed:
        database.execute("INSERT INTO words (words) VALUES ('optimize')")  # Makes searches 20 % faster.
    vectors = _embed(database, embeddings, progress)
    (chunks,) = database.execute("SELECT count(*) FROM chunks").fetchone()
    database.execute("UPDATE about SET stamp = ?, chunks = ?", (uuid4().hex, chunks))
    return IndexReport(
        added=added,
        changed=len(current) - added - unchanged,
        removed=removed,
        unchanged=unchanged,
        chunks=chunks,
        vectors=vectors,
        problems=tuple(problems),
    )


def _ensure_schema(database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application_id,) = database.execute("PRAGMA application_id").fetchone()
    if (application_id, version) == (_APPLICATION_ID, SCHEMA_VERSION):
        return
    if application_id != _APPLICATION_ID and database.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise sqlite3.DatabaseError("it is not a Job Chat index")
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
        cursor = database.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?)", (document.path, *texts))
        database.execute(
            "INSERT INTO words (rowid, title, section, text) VALUES (?, ?, ?, ?)", (cursor.lastrowid, *texts)
        )


def _remove(database: sqlite3.Connection, path: str) -> None:
    # An external-content FTS5 table needs the old text to delete its words.
    delete_words = "INSERT INTO words (words, rowid, title, section, text) SELECT 'delete', id, title, section, text"
    database.execute(f"{delete_words} FROM chunks WHERE path = ?", (path,))
    database.execute("DELETE FROM vectors WHERE chunk IN (SELECT id FROM chunks WHERE path = ?)", (path,))
    database.execute("DELETE FROM chunks WHERE path = ?", (path,))
    database.execute("DELETE FROM files WHERE path = ?", (path,))


def _embed(database: sqlite3.Connection, embeddings: Embedding | None, progress: Progress) -> int:
    """Compute the missing vectors; all of them if the model has changed. Returns how many."""
    if embeddings is None:
        database.execute("DELETE FROM vectors")
        database.execute("UPDATE about SET model = NULL, dimension = NULL, probe = NULL")
        return 0
    probe = embeddings.vectors([PROBE])[0]
    (stored_probe,) = database.execute("SELECT probe FROM about").fetchone()
    if not is_same_model(probe, stored_probe):
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
        rows = ((chunk_id, vector.tobytes()) for (chunk_id, *_), vector in zip(batch, vectors, strict=True))
        database.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
    progress("vectors", len(missing), len(missing))
    return len(missing)


DEFAULT_FILE = "docs.db"
"""In the working folder, unless -o or the setting names another file."""


def index_folder(
    folder: Path,
    output: Path | None,
    settings: Settings,
    *,
    progress: Progress = lambda _stage, _done, _total: None,
) -> list[str]:
    """Index a folder, with vectors if an embedding model is set; return the lines to print. Raises PalaverError."""
    file = output or Path(settings.index or DEFAULT_FILE).expanduser()
    report = build_index(folder, file, embeddings=load_embedding(settings.embeddings), progress=progress)
    return list(_summary_lines(folder, file, report, settings))


def _summary_lines(folder: Path, file: Path, report: IndexReport, settings: Settings) -> Iterator[str]:
    files = report.added + report.changed + report.unchanged
    vectors = f", {_plural(report.vectors, 'vector')} computed" if settings.embeddings else ""
    yield (
        f"{folder}: {_plural(files, 'file')}, {_plural(report.chunks, 'chunk')} ({report.added:,} added, "
        f"{report.changed:,} changed, {report.removed:,} removed, {report.unchanged:,} unchanged{vectors})."
    )
    for problem in report.problems:
        yield f"  {problem.path} {problem.description}."
    if not files:
        yield "No Markdown files found in this folder. Searches will return nothing."
    is_set = bool(settings.index) and Path(settings.index).expanduser().resolve() == file.resolve()
    yield f"Index: {file}" + ("." if is_set else f". To search it, set {PREFIX}INDEX={file}")


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


SAMPLE_PAGES = Path(__file__).parent.parent / "data" / "docs"


def sample_index(cache: Path, *, embeddings: Embedding | None = None) -> Path:
    """Return the index of the pages that come with Job Chat, built in the cache folder if needed."""
    file = cache / f"docs-{_sample_digest()}.sqlite"
    exists = file.exists()
    if exists and not _is_valid_index(file):
        file.unlink(missing_ok=True)
        exists = False
    if not exists or embeddings is not None:
        # An existing index may lack vectors, or have those of another model.
        build_index(SAMPLE_PAGES, file, embeddings=embeddings, lock_timeout=5.0)
    return file


def _sample_digest() -> str:
    """Return a digest of the pages, so that two versions of Job Chat can share a cache."""
    pages = [f"{page.path} {page.digest}" for page in read_documents(SAMPLE_PAGES) if isinstance(page, Document)]
    return sha256("\n".join([f"{SCHEMA_VERSION}", *pages]).encode()).hexdigest()[:12]


def _is_valid_index(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
            return state == "ok" and database.execute("SELECT 1 FROM about").fetchone() is not None
    except sqlite3.DatabaseError:
        return False
