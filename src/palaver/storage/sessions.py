"""Sessions: what a browser has in place of a key. Only a hash of the cookie's value is here."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select

from palaver.core.keys import Scope, read_scopes, told_scopes
from palaver.storage.tables import sessions


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One login."""

    hash: bytes
    """Of the cookie's value."""
    project: str
    key: str
    """The key that it was traded for: it ends with it."""
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime


def add(db: Connection, session: Session) -> None:
    """Keep a new one; those that have expired by now go."""
    db.execute(delete(sessions).where(sessions.c.expires_at <= session.created_at))
    db.execute(insert(sessions).values(msgspec.structs.asdict(session) | {"scopes": told_scopes(session.scopes)}))


def find(db: Connection, hashes: Collection[bytes]) -> list[Session]:
    """Those whose cookies have these hashes: as with keys, this is how a request finds its project."""
    query = select(sessions).where(sessions.c.hash.in_(hashes))
    return [_session({**row}) for row in db.execute(query).mappings()]


def end(db: Connection, hashed: bytes) -> None:
    """Log out. Ending it twice changes nothing."""
    db.execute(delete(sessions).where(sessions.c.hash == hashed))


def _session(row: dict[str, Any]) -> Session:
    row["scopes"] = read_scopes(row["scopes"])
    return Session(**row)
