"""Files that callers gave us: what they are called, and what is in them, in pieces, once for each project and hash."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, exists, func, insert, not_, select, text

from palaver.errors import DiskFull, NotFound
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import file_pieces, file_uses, files

PIECE = 1024 * 1024
"""Bytes of a piece; the last one of a file may have fewer."""
KEPT = timedelta(hours=24)
"""How long a file is kept that nothing names."""
_LOCK = 615_784_260
"""The first half of the name of the lock under which a project's files are added and removed on PostgreSQL."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, without what is in it."""

    project: str
    id: str
    media_type: str
    filename: str
    bytes: int
    sha256: str
    used: bool = False
    """Does anything name it? Then it goes with the last that does."""
    created_at: datetime

    @property
    def expires_at(self) -> datetime | None:
        """When it goes by itself."""
        return None if self.used else self.created_at + KEPT


_COLUMNS = [files.c[name] for name in StoredFile.__struct_fields__]


class Pieces:
    """What is in a file, cut while it comes: `feed` what there is, then `end`. It is held once, and never joined."""

    def __init__(self) -> None:
        self.bytes = 0
        self._hash = hashlib.sha256()
        self._cut: list[bytes] = []
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """The next of it, however long."""
        self.bytes += len(data)
        self._hash.update(data)
        self._rest += data
        while len(self._rest) >= PIECE:
            self._cut.append(bytes(self._rest[:PIECE]))
            del self._rest[:PIECE]

    def end(self) -> tuple[Sequence[bytes], str]:
        """All pieces, and the SHA-256 of the whole."""
        if self._rest:
            self._cut.append(bytes(self._rest))
            self._rest.clear()
        return self._cut, self._hash.hexdigest()


def add(db: Connection, file: StoredFile, pieces: Sequence[bytes], *, most: int) -> None:
    """Keep a file; DiskFull if its project would hold more than `most` bytes. The same content is kept once."""
    _alone(db, file.project)
    if not db.scalar(select(exists().where(*_of_content(file.project, file.sha256)))):
        if total(db, file.project) + file.bytes > most:
            raise DiskFull(f"The files of this project would come to more than {most} bytes: delete some.")
        for place, data in enumerate(pieces):  # One at a time: a driver may copy what it sends.
            db.execute(insert(file_pieces).values(project=file.project, sha256=file.sha256, place=place, data=data))
    db.execute(insert(files), [msgspec.structs.asdict(file)])


def get(db: Connection, project: str, file: str) -> StoredFile | None:
    """One file; None for an unknown one, or another project's."""
    row = db.execute(select(*_COLUMNS).where(*_is(project, file))).one_or_none()
    return None if row is None else _file(row)


def missing(file: str, *, pointer: str | None = None) -> NotFound:
    """What to say of a file that is not there, or is another project's."""
    return NotFound(f"There is no file {file[:80]!r}.", pointer=pointer)


def find(db: Connection, project: str, ids: Collection[str]) -> dict[str, StoredFile]:
    """Those of these files that there are, by id."""
    rows = db.execute(select(*_COLUMNS).where(files.c.project == project, files.c.id.in_(ids)))
    return {row.id: _file(row) for row in rows}


def latest(db: Connection, project: str, window: Window = START) -> Page[StoredFile]:
    """A page of a project's files, newest first."""
    query = select(*_COLUMNS).where(files.c.project == project)
    return page(db, query, _file, project=project, by=(files.c.id,), window=window)


def total(db: Connection, project: str) -> int:
    """How many bytes a project's files take."""
    contents = select(files.c.sha256, files.c.bytes).where(files.c.project == project).distinct().subquery()
    return int(db.scalar(select(func.coalesce(func.sum(contents.c.bytes), 0))) or 0)


def content(db: Connection, project: str, file: str) -> bytes | None:
    """All that is in a file; None if it is not there."""
    found = get(db, project, file)
    if found is None:
        return None
    query = select(file_pieces.c.data).where(*_pieces_of(project, found.sha256)).order_by(file_pieces.c.place)
    return b"".join(db.scalars(query))


def piece(db: Connection, project: str, sha256: str, place: int) -> bytes | None:
    """One piece of what is in a file, for whoever hands it on; None past its end, or when it was deleted."""
    return db.scalar(select(file_pieces.c.data).where(*_pieces_of(project, sha256), file_pieces.c.place == place))


def remove(db: Connection, project: str, file: str) -> bool:
    """Erase a file; what is in it stays as long as another file of the project has the same. Was it there?"""
    _alone(db, project)
    found = get(db, project, file)
    if found is not None:
        _erase(db, [found])
    return found is not None


def forget_unused(db: Connection, before: datetime, *, limit: int = 100) -> int:
    """Erase files that were given before that time and that nothing names; how many, at most `limit` at once."""
    old = not_(files.c.used), files.c.created_at < before
    # One project at a time: whoever waits for several locks can be waited for.
    project = db.scalar(select(files.c.project).where(*old).order_by(files.c.created_at).limit(1))
    if project is None:
        return 0
    _alone(db, project)
    # Held, and looked at as they are then: one that somebody names at this moment stays.
    some = select(*_COLUMNS).where(files.c.project == project, *old).order_by(files.c.id).limit(limit)
    gone = [_file(row) for row in db.execute(some.with_for_update())]
    _erase(db, gone)
    return len(gone)


def forget_unnamed(db: Connection, project: str, ids: Collection[str]) -> None:
    """Erase those of these files that nothing names any more."""
    _alone(db, project)
    theirs = select(*_COLUMNS).where(files.c.project == project, files.c.id.in_(ids)).order_by(files.c.id)
    found = [_file(row) for row in db.execute(theirs.with_for_update())]
    # Asked after they are held: whoever named one meanwhile has been waited for.
    named = set(db.scalars(select(file_uses.c.file).where(file_uses.c.project == project, file_uses.c.file.in_(ids))))
    _erase(db, [file for file in found if file.id not in named])


def _erase(db: Connection, gone: Sequence[StoredFile]) -> None:
    for file in gone:
        db.execute(delete(files).where(*_is(file.project, file.id)))
        db.execute(delete(file_uses).where(file_uses.c.project == file.project, file_uses.c.file == file.id))
    for project, sha256 in sorted({(file.project, file.sha256) for file in gone}):
        if not db.scalar(select(exists().where(*_of_content(project, sha256)))):
            db.execute(delete(file_pieces).where(*_pieces_of(project, sha256)))


def _alone(db: Connection, project: str) -> None:
    """Let nobody else add or remove files of the project before this transaction ends.

    Else one might find a content there, and not keep it again, while another removes it. SQLite has one writer anyway.
    """
    if db.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:4], signed=True)
        db.execute(text("SELECT pg_advisory_xact_lock(:first, :second)"), {"first": _LOCK, "second": number})


def _is(project: str, file: str) -> Iterable[Any]:
    return files.c.project == project, files.c.id == file


def _of_content(project: str, sha256: str) -> Iterable[Any]:
    return files.c.project == project, files.c.sha256 == sha256


def _pieces_of(project: str, sha256: str) -> Iterable[Any]:
    return file_pieces.c.project == project, file_pieces.c.sha256 == sha256


def _file(row: Row[Any]) -> StoredFile:
    return StoredFile(**{name: getattr(row, name) for name in StoredFile.__struct_fields__})
