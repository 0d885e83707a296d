"""Keys that were given out. Of a secret only its hash is here, and a revoked key stays as a row that opens nothing."""

from collections.abc import Callable, Collection
from datetime import datetime
from secrets import randbits
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, and_, delete, exists, insert, or_, select, update

from palaver.core.keys import Scope, hashed, make, read_scopes, told_scopes
from palaver.storage import notices
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import keys, sessions


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without its secret."""

    project: str
    id: str
    """The eight characters that name it."""
    name: str
    hash: bytes
    """Of its secret, by SHA-256."""
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    made_by: str | None = None
    """The key that made it; None: somebody at the machine did."""

    def is_good(self, now: datetime) -> bool:
        """Does it open anything at that time?"""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new(
    *,
    project: str,
    name: str,
    scopes: frozenset[Scope],
    now: datetime,
    expires_at: datetime | None = None,
    made_by: str | None = None,
    random_bits: Callable[[int], int] = randbits,
) -> tuple[Key, str]:
    """A new key, not kept yet, and the text of it that its owner is shown."""
    made = make(random_bits)
    key = Key(
        project=project,
        id=made.id,
        name=name,
        hash=hashed(made.secret),
        scopes=scopes,
        created_at=now,
        expires_at=expires_at,
        made_by=made_by,
    )
    return key, str(made)


def add(db: Connection, key: Key) -> None:
    """Keep a new one."""
    db.execute(insert(keys).values(msgspec.structs.asdict(key) | {"scopes": told_scopes(key.scopes)}))
    notices.tell(db, "key", [key.id])


def find(db: Connection, ids: Collection[str]) -> list[Key]:
    """Those of these ids, in whatever project: this is how a credential finds its project, and for nothing else."""
    return _keys(db, select(keys).where(keys.c.id.in_(ids)))


def get(db: Connection, project: str, key: str) -> Key | None:
    """The one of that id, if the project has it."""
    return next(iter(_keys(db, select(keys).where(_is(project, key)))), None)


def latest(db: Connection, project: str, window: Window = START) -> Page[Key]:
    """A page of a project's keys, the newest first."""
    query = select(keys).where(keys.c.project == project)
    return page(db, query, _key, project=project, by=(keys.c.created_at, keys.c.id), window=window)


def listed(db: Connection, project: str | None = None) -> list[Key]:
    """All keys, or all of a project; for whoever sits at the machine."""
    query = select(keys).order_by(keys.c.project, keys.c.created_at, keys.c.id)
    return _keys(db, query if project is None else query.where(keys.c.project == project))


def change(db: Connection, project: str, key: str, changes: dict[str, Any]) -> Key | None:
    """Give it another `name` or `expires_at`. What a key may do never changes: whoever trusted it trusted that."""
    assert changes.keys() <= {"name", "expires_at"}
    if changes:
        db.execute(update(keys).where(_is(project, key)).values(changes))
        notices.tell(db, "key", [key])
    return get(db, project, key)


def revoke(db: Connection, project: str, key: str, *, at: datetime) -> Key | None:
    """Let it open nothing from then on, and end its sessions. Revoking it twice changes nothing."""
    db.execute(update(keys).where(_is(project, key), keys.c.revoked_at.is_(None)).values(revoked_at=at))
    db.execute(delete(sessions).where(sessions.c.project == project, sessions.c.key == key))
    notices.tell(db, "key", [key])
    return get(db, project, key)


def note_use(db: Connection, project: str, key: str, *, at: datetime) -> None:
    """Remember when it was last used. Processes may tell it in any order."""
    newer = or_(keys.c.last_used_at.is_(None), keys.c.last_used_at < at)
    db.execute(update(keys).where(_is(project, key), newer).values(last_used_at=at))


def any_at_all(db: Connection) -> bool:
    """Was any key ever given out, good or not?"""
    return bool(db.scalar(select(exists(select(keys.c.id)))))


def any_good(db: Connection, now: datetime) -> bool:
    """Is there one that opens something?"""
    good = and_(keys.c.revoked_at.is_(None), or_(keys.c.expires_at.is_(None), keys.c.expires_at > now))
    return bool(db.scalar(select(exists(select(keys.c.id).where(good)))))


def _is(project: str, key: str) -> Any:
    return and_(keys.c.project == project, keys.c.id == key)


def _keys(db: Connection, query: Select[Any]) -> list[Key]:
    return [_key(row) for row in db.execute(query)]


def _key(row: Row[Any]) -> Key:
    return Key(
        project=row.project,
        id=row.id,
        name=row.name,
        hash=row.hash,
        scopes=read_scopes(row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
        made_by=row.made_by,
    )
