"""API keys, login sessions and server secrets. Only hashes of keys and cookies are stored."""

from collections.abc import Callable, Collection
from datetime import datetime
from secrets import randbits, token_bytes
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, and_, delete, exists, insert, or_, select, update

from palaver.core.api_keys import Scope, generate_key, hash_secret, minimal_scopes, parse_scopes
from palaver.storage import notifications
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import dialect_insert, row_values
from palaver.storage.tables import keys, sessions
from palaver.storage.tables import secrets as secrets_table


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    id: str
    """The eight characters that identify it."""
    name: str
    hash: bytes
    """SHA-256 of the secret."""
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    made_by: str | None = None
    """The key that created it; None if it was created on the command line."""

    def is_valid(self, now: datetime) -> bool:
        """Whether the key is not revoked and not expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new_api_key(
    *,
    project: str,
    name: str,
    scopes: frozenset[Scope],
    now: datetime,
    expires_at: datetime | None = None,
    made_by: str | None = None,
    random_bits: Callable[[int], int] = randbits,
) -> tuple[ApiKey, str]:
    """Create a key that is not stored yet; returns it with the text to show to its owner."""
    generated = generate_key(random_bits)
    key = ApiKey(
        project=project,
        id=generated.id,
        name=name,
        hash=hash_secret(generated.secret),
        scopes=scopes,
        created_at=now,
        expires_at=expires_at,
        made_by=made_by,
    )
    return key, str(generated)


def insert_key(db: Connection, key: ApiKey) -> None:
    db.execute(insert(keys).values(msgspec.structs.asdict(key) | {"scopes": minimal_scopes(key.scopes)}))
    notifications.notify(db, "key", [key.id])


def find_keys(db: Connection, ids: Collection[str]) -> list[ApiKey]:
    """Find keys of any project by id. Only for authentication, which determines the project."""
    return _fetch_keys(db, select(keys).where(keys.c.id.in_(ids)))


def get_key(db: Connection, project: str, key: str) -> ApiKey | None:
    return next(iter(_fetch_keys(db, select(keys).where(_is_key(project, key)))), None)


def list_keys(db: Connection, project: str, window: Window = FIRST_PAGE) -> Page[ApiKey]:
    """List a project's keys, newest first."""
    query = select(keys).where(keys.c.project == project)
    return fetch_page(db, query, _row_to_key, project=project, by=(keys.c.created_at, keys.c.id), window=window)


def list_all_keys(db: Connection, project: str | None = None) -> list[ApiKey]:
    """List the keys of a project, or of all projects; for the command line."""
    query = select(keys).order_by(keys.c.project, keys.c.created_at, keys.c.id)
    return _fetch_keys(db, query if project is None else query.where(keys.c.project == project))


def update_key(db: Connection, project: str, key: str, changes: dict[str, Any]) -> ApiKey | None:
    """Change `name` or `expires_at`. The scopes of a key never change."""
    assert changes.keys() <= {"name", "expires_at"}
    if changes:
        db.execute(update(keys).where(_is_key(project, key)).values(changes))
        notifications.notify(db, "key", [key])
    return get_key(db, project, key)


def revoke_key(db: Connection, project: str, key: str, *, at: datetime) -> ApiKey | None:
    """Revoke a key and end its sessions. Has no effect on a revoked key."""
    db.execute(update(keys).where(_is_key(project, key), keys.c.revoked_at.is_(None)).values(revoked_at=at))
    db.execute(delete(sessions).where(sessions.c.project == project, sessions.c.key == key))
    notifications.notify(db, "key", [key])
    return get_key(db, project, key)


def set_last_used(db: Connection, project: str, key: str, *, at: datetime) -> None:
    """Store the time of use, unless a later one is stored."""
    is_older = or_(keys.c.last_used_at.is_(None), keys.c.last_used_at < at)
    db.execute(update(keys).where(_is_key(project, key), is_older).values(last_used_at=at))


def has_keys(db: Connection) -> bool:
    """Whether any key exists, valid or not."""
    return bool(db.scalar(select(exists(select(keys.c.id)))))


def has_valid_key(db: Connection, now: datetime) -> bool:
    is_valid = and_(keys.c.revoked_at.is_(None), or_(keys.c.expires_at.is_(None), keys.c.expires_at > now))
    return bool(db.scalar(select(exists(select(keys.c.id).where(is_valid)))))


def _is_key(project: str, key: str) -> Any:
    return and_(keys.c.project == project, keys.c.id == key)


def _fetch_keys(db: Connection, query: Select[Any]) -> list[ApiKey]:
    return [_row_to_key(row) for row in db.execute(query)]


def _row_to_key(row: Row[Any]) -> ApiKey:
    values: dict[str, Any] = {**row_values(row), "scopes": parse_scopes(row.scopes)}
    return ApiKey(**{name: values[name] for name in ApiKey.__struct_fields__})


class LoginSession(msgspec.Struct, frozen=True, kw_only=True):
    hash: bytes
    """SHA-256 of the cookie's value."""
    project: str
    key: str
    """The key used to log in; the session ends with it."""
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime


def insert_session(db: Connection, session: LoginSession) -> None:
    """Insert a session, and delete expired ones."""
    db.execute(delete(sessions).where(sessions.c.expires_at <= session.created_at))
    db.execute(insert(sessions).values(msgspec.structs.asdict(session) | {"scopes": minimal_scopes(session.scopes)}))


def find_sessions(db: Connection, hashes: Collection[bytes]) -> list[LoginSession]:
    """Find sessions of any project by hash. Only for authentication."""
    query = select(sessions).where(sessions.c.hash.in_(hashes))
    return [_row_to_session({**row}) for row in db.execute(query).mappings()]


def delete_session(db: Connection, hashed: bytes) -> None:
    db.execute(delete(sessions).where(sessions.c.hash == hashed))


def _row_to_session(row: dict[str, Any]) -> LoginSession:
    row["scopes"] = parse_scopes(row["scopes"])
    return LoginSession(**row)


SECRET_BYTES = 32


def get_or_create_secret(db: Connection, name: str, at: datetime) -> bytes:
    """Return a random secret that all processes on the database share, created on first use."""
    existing = _find_secret(db, name)
    if existing is not None:
        return existing
    row = {"name": name, "value": token_bytes(SECRET_BYTES), "created_at": at}
    db.execute(dialect_insert(db, secrets_table).on_conflict_do_nothing(), [row])
    created = _find_secret(db, name)
    assert created is not None
    return created


def _find_secret(db: Connection, name: str) -> bytes | None:
    return db.scalar(select(secrets_table.c.value).where(secrets_table.c.name == name))
