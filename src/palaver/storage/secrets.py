"""Secrets of the house: random bytes, made once, by which all processes on one database agree."""

from datetime import datetime
from secrets import token_bytes

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from palaver.storage.tables import secrets as secrets_table

BYTES = 32


def get(db: Connection, name: str, at: datetime) -> bytes:
    """The one of that name. Whoever asks first makes it; who asks at the same time gets the same."""
    known = _known(db, name)
    if known is not None:
        return known
    put = postgresql.insert(secrets_table) if db.dialect.name == "postgresql" else sqlite.insert(secrets_table)
    row = {"name": name, "value": token_bytes(BYTES), "created_at": at}
    db.execute(put.on_conflict_do_nothing(), [row])
    made = _known(db, name)
    assert made is not None
    return made


def _known(db: Connection, name: str) -> bytes | None:
    return db.scalar(select(secrets_table.c.value).where(secrets_table.c.name == name))
