"""Uploaded files, their content in chunks, and the messages and runs that reference them."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    delete,
    exists,
    func,
    insert,
    literal,
    not_,
    select,
    text,
    update,
)

from palaver.core.messages import (
    File,
    Message,
    Part,
    file_ids,
    has_files,
    is_stored_file,
    missing_file_notice,
    replace_files,
)
from palaver.errors import DiskFull, NotFound
from palaver.storage.pagination import FIRST_PAGE, Order, Page, Window, fetch_page
from palaver.storage.schema import dialect_insert, row_converter, split_batches
from palaver.storage.tables import file_pieces, file_uses, files
from palaver.storage.tables import nodes as nodes_table

CHUNK_BYTES = 1024 * 1024
UNUSED_FILE_TTL = timedelta(hours=24)
"""Lifetime of a file without references."""
_FILES_LOCK_ID = 615_784_260
"""First half of the PostgreSQL advisory lock under which a project's files are added and removed."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file without its content."""

    project: str
    id: str
    media_type: str
    filename: str
    bytes: int
    sha256: str
    used: bool = False
    """Whether it is or was referenced: it is deleted with its last reference."""
    created_at: datetime

    @property
    def expires_at(self) -> datetime | None:
        """When an unreferenced file is deleted."""
        return None if self.used else self.created_at + UNUSED_FILE_TTL


_COLUMNS = [files.c[name] for name in StoredFile.__struct_fields__]
_row_to_file = row_converter(StoredFile)


DEFAULT_PURPOSE = "user_data"
"""Purpose of a file that was not uploaded with one."""
_UPLOADS = "uploads"
"""Holder of the reference that keeps a file until it is deleted; its node is the purpose of the file."""


class StoredUpload(NamedTuple):
    file: StoredFile
    purpose: str | None


class FileChunks:
    """Splits content into chunks as it arrives: call `feed` repeatedly, then `end`."""

    def __init__(self) -> None:
        self.bytes = 0
        self._hash = hashlib.sha256()
        self._chunks: list[bytes] = []
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self.bytes += len(data)
        self._hash.update(data)
        self._buffer += data
        while len(self._buffer) >= CHUNK_BYTES:
            self._chunks.append(bytes(self._buffer[:CHUNK_BYTES]))
            del self._buffer[:CHUNK_BYTES]

    def end(self) -> tuple[Sequence[bytes], str]:
        """Return all chunks, and the SHA-256 of the content."""
        if self._buffer:
            self._chunks.append(bytes(self._buffer))
            self._buffer.clear()
        return self._chunks, self._hash.hexdigest()


def insert_file(db: Connection, file: StoredFile, chunks: Sequence[bytes], *, max_total_bytes: int) -> None:
    """Store a file; equal content is stored once. Raises DiskFull if the project would exceed `max_total_bytes`."""
    _lock_files(db, file.project)
    if not db.scalar(select(exists().where(*_content_conditions(file.project, file.sha256)))):
        if total_bytes(db, file.project) + file.bytes > max_total_bytes:
            raise DiskFull(
                f"This file would exceed the project's limit of {max_total_bytes:,} bytes. Delete some files first."
            )
        for place, data in enumerate(chunks):  # One at a time: drivers may copy parameters.
            db.execute(insert(file_pieces).values(project=file.project, sha256=file.sha256, place=place, data=data))
    db.execute(insert(files), [msgspec.structs.asdict(file)])


def get_file(db: Connection, project: str, file: str) -> StoredFile | None:
    row = db.execute(select(*_COLUMNS).where(*_file_conditions(project, file))).one_or_none()
    return None if row is None else _row_to_file(row)


def file_not_found(file: str, *, pointer: str | None = None) -> NotFound:
    return NotFound(f"File {file[:80]!r} not found.", pointer=pointer)


def find_files(db: Connection, project: str, ids: Collection[str]) -> dict[str, StoredFile]:
    """Return the existing ones of these files, by id."""
    rows = db.execute(select(*_COLUMNS).where(files.c.project == project, files.c.id.in_(ids)))
    return {row.id: _row_to_file(row) for row in rows}


def list_files(db: Connection, project: str, window: Window = FIRST_PAGE) -> Page[StoredFile]:
    """List a project's files, newest first."""
    query = select(*_COLUMNS).where(files.c.project == project)
    return fetch_page(db, query, _row_to_file, project=project, by=(files.c.id,), window=window)


def keep_file(db: Connection, file: StoredFile, purpose: str) -> None:
    """Keep a file that was stored as used until it is deleted."""
    db.execute(insert(file_uses).values(project=file.project, holder=_UPLOADS, node=purpose, file=file.id))


def _select_uploads(project: str) -> Select[Any]:
    is_upload = (file_uses.c.project == project) & (file_uses.c.holder == _UPLOADS) & (file_uses.c.file == files.c.id)
    columns = (*_COLUMNS, file_uses.c.node.label("purpose"))
    return select(*columns).select_from(files.outerjoin(file_uses, is_upload)).where(files.c.project == project)


def get_upload(db: Connection, project: str, file: str) -> StoredUpload | None:
    row = db.execute(_select_uploads(project).where(files.c.id == file)).one_or_none()
    return None if row is None else StoredUpload(_row_to_file(row), row.purpose)


def list_uploads(
    db: Connection, project: str, purpose: str | None, after: str | None, limit: int, order: Order
) -> list[StoredUpload]:
    """List all files of a project, or those with a purpose, by age."""
    is_newest, query = order == "newest", _select_uploads(project)
    if purpose is not None:
        query = query.where(func.coalesce(file_uses.c.node, DEFAULT_PURPOSE) == purpose)
    if after is not None:
        query = query.where(files.c.id < after if is_newest else files.c.id > after)
    rows = db.execute(query.order_by(files.c.id.desc() if is_newest else files.c.id.asc()).limit(limit))
    return [StoredUpload(_row_to_file(row), row.purpose) for row in rows]


def total_bytes(db: Connection, project: str) -> int:
    contents = select(files.c.sha256, files.c.bytes).where(files.c.project == project).distinct().subquery()
    return int(db.scalar(select(func.coalesce(func.sum(contents.c.bytes), 0))) or 0)


def read_content(db: Connection, project: str, file: str) -> bytes | None:
    stored = get_file(db, project, file)
    if stored is None:
        return None
    query = select(file_pieces.c.data).where(*_chunk_conditions(project, stored.sha256)).order_by(file_pieces.c.place)
    return b"".join(db.scalars(query))


def read_chunk(db: Connection, project: str, sha256: str, place: int) -> bytes | None:
    """Return one chunk of a file's content; None past its end, or if it was deleted."""
    query = select(file_pieces.c.data).where(*_chunk_conditions(project, sha256))
    return db.scalar(query.where(file_pieces.c.place == place))


def delete_file(db: Connection, project: str, file: str) -> bool:
    """Delete a file, and its content unless another file has the same; returns whether it existed."""
    _lock_files(db, project)
    stored = get_file(db, project, file)
    if stored is not None:
        _delete_files(db, [stored])
    return stored is not None


def delete_unused_files(db: Connection, before: datetime, *, limit: int = 100) -> int:
    """Delete up to `limit` unreferenced files created before a time; returns their number."""
    conditions = not_(files.c.used), files.c.created_at < before
    # One project at a time: holding several locks could deadlock.
    project = db.scalar(select(files.c.project).where(*conditions).order_by(files.c.created_at).limit(1))
    if project is None:
        return 0
    _lock_files(db, project)
    # Locked, and read again then: a file that is being referenced stays.
    query = select(*_COLUMNS).where(files.c.project == project, *conditions).order_by(files.c.id).limit(limit)
    expired = [_row_to_file(row) for row in db.execute(query.with_for_update())]
    _delete_files(db, expired)
    return len(expired)


def delete_unreferenced_files(db: Connection, project: str, ids: Collection[str]) -> None:
    """Delete these files, except referenced ones."""
    _lock_files(db, project)
    query = select(*_COLUMNS).where(files.c.project == project, files.c.id.in_(ids)).order_by(files.c.id)
    candidates = [_row_to_file(row) for row in db.execute(query.with_for_update())]
    # Read after locking the files, so that concurrent references are seen.
    referenced = set(
        db.scalars(select(file_uses.c.file).where(file_uses.c.project == project, file_uses.c.file.in_(ids)))
    )
    _delete_files(db, [file for file in candidates if file.id not in referenced])


def _delete_files(db: Connection, stored_files: Sequence[StoredFile]) -> None:
    for file in stored_files:
        db.execute(delete(files).where(*_file_conditions(file.project, file.id)))
        db.execute(delete(file_uses).where(file_uses.c.project == file.project, file_uses.c.file == file.id))
    for project, sha256 in sorted({(file.project, file.sha256) for file in stored_files}):
        if not db.scalar(select(exists().where(*_content_conditions(project, sha256)))):
            db.execute(delete(file_pieces).where(*_chunk_conditions(project, sha256)))


def _lock_files(db: Connection, project: str) -> None:
    """Lock the files of a project until this transaction ends (SQLite has only one writer).

    Otherwise one transaction might reuse content that another one deletes.
    """
    if db.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:4], signed=True)
        db.execute(text("SELECT pg_advisory_xact_lock(:first, :second)"), {"first": _FILES_LOCK_ID, "second": number})


def _file_conditions(project: str, file: str) -> Iterable[Any]:
    return files.c.project == project, files.c.id == file


def _content_conditions(project: str, sha256: str) -> Iterable[Any]:
    return files.c.project == project, files.c.sha256 == sha256


def _chunk_conditions(project: str, sha256: str) -> Iterable[Any]:
    return file_pieces.c.project == project, file_pieces.c.sha256 == sha256


_MAX_IDS = 500
"""Maximum number of ids in one statement."""
_MAX_ID_LENGTH = 64


def add_references(db: Connection, project: str, holder: str, messages: Iterable[tuple[str, Message]]) -> None:
    """Reference the files in these messages, given with their node ids."""
    references = sorted(
        {(node, name) for node, message in messages if has_files([message]) for name in file_ids([message])}
    )
    for batch in split_batches(references, _MAX_IDS):
        in_batch = files.c.project == project, files.c.id.in_(sorted({name for _, name in batch}))
        # Locked until this transaction ends, so that no other deletes them as unreferenced.
        query = select(files.c.id).where(*in_batch).order_by(files.c.id)
        existing = set(db.scalars(query.with_for_update(read=True, key_share=True)))
        rows = [{"project": project, "holder": holder, "node": node, "file": f} for node, f in batch if f in existing]
        if rows:
            db.execute(dialect_insert(db, file_uses).on_conflict_do_nothing(), rows)
            db.execute(update(files).where(*in_batch, not_(files.c.used)).values(used=True))


def add_run_references(db: Connection, project: str, run: str, messages: Iterable[Message]) -> None:
    if has_files(messages):
        add_references(db, project, run, (("", message) for message in messages))


def copy_references(db: Connection, project: str, thread: str, copy: str) -> None:
    """Reference the files of a thread from a copy of it, as far as the copy has their nodes."""
    copied = select(nodes_table.c.id).where(nodes_table.c.project == project, nodes_table.c.thread == copy)
    copied_references = select(file_uses.c.project, literal(copy), file_uses.c.node, file_uses.c.file).where(
        file_uses.c.project == project, file_uses.c.holder == thread, file_uses.c.node.in_(copied)
    )
    db.execute(insert(file_uses).from_select(["project", "holder", "node", "file"], copied_references))


def remove_references(db: Connection, project: str, holders: Sequence[str]) -> None:
    """Remove the references of deleted threads or runs, and delete files without references."""
    _remove_references(db, project, [file_uses.c.holder.in_(batch) for batch in split_batches(holders, _MAX_IDS)])


def remove_node_references(
    db: Connection, project: str, thread: str, nodes: Sequence[str], *, only: Collection[str] | None = None
) -> None:
    """Remove the references of these nodes; with `only`, just the references to these files."""
    conditions = [
        (file_uses.c.holder == thread) & file_uses.c.node.in_(batch) for batch in split_batches(nodes, _MAX_IDS)
    ]
    _remove_references(
        db,
        project,
        conditions if only is None else [condition & file_uses.c.file.in_(only) for condition in conditions],
    )


def replace_missing_files(db: Connection, project: str, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with deleted files replaced by a text."""
    if not has_files(messages):
        return messages
    existing = find_files(db, project, [name for name in file_ids(messages) if len(name) <= _MAX_ID_LENGTH])

    def replace_missing(part: File) -> Part:
        return missing_file_notice(part) if is_stored_file(part) and part.file_id not in existing else part

    return replace_files(messages, replace_missing)


def _remove_references(db: Connection, project: str, conditions: Iterable[ColumnElement[bool]]) -> None:
    dereferenced: set[str] = set()
    for condition in conditions:
        dereferenced.update(
            db.scalars(delete(file_uses).where(file_uses.c.project == project, condition).returning(file_uses.c.file))
        )
    if dereferenced:
        delete_unreferenced_files(db, project, sorted(dereferenced))
