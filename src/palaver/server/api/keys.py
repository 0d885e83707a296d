"""Keys over REST, for an admin of the project.

Making one does not go through `idempotency.once`: that would have to keep the secret, which is shown this once.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import api_keys
from palaver.core.api_keys import Scope
from palaver.errors import InvalidValue, MissingScope, NotFound
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    Time,
    answer,
    caller_of,
    raw_body,
    read_as,
    takes,
    told_time,
    unless_stale,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.auth import Authenticator, Caller
from palaver.server.settings import Settings
from palaver.storage import api_keys as kept
from palaver.storage.api_keys import ApiKey
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window

Moment = Annotated[datetime, msgspec.Meta(tz=True, description="RFC 3339, with its zone.")]


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key, as it is listed."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None


class NewKey(KeyRow, frozen=True, kw_only=True):
    """A key that was just made: its secret is shown this once."""

    secret: str


class MakeKey(msgspec.Struct, frozen=True, kw_only=True):
    """The body that makes one."""

    name: str
    scopes: list[str]
    expires_at: Moment | None = None


class ChangeKey(msgspec.Struct, frozen=True, kw_only=True):
    """The body that changes one: what is absent stays."""

    name: str | UnsetType = UNSET
    expires_at: Moment | UnsetType | None = UNSET
    scopes: Any = UNSET


def row(key: ApiKey) -> KeyRow:
    """A key as it is listed."""
    return KeyRow(**_fields(key))


def shown_once(key: ApiKey, secret: str) -> NewKey:
    """A key as its maker sees it, once."""
    return NewKey(**_fields(key), secret=secret)


class KeyController(ApiController):
    path = "/api/keys"

    database: Database
    settings: Settings
    authenticator: Authenticator

    @get(operation_id="list_keys", summary="The project's keys, newest first")
    async def list_keys(self, request: Asked, after: After = None, limit: Limit = 50) -> Page[KeyRow]:
        found = await self.database.read(kept.list_keys, caller_of(request).project, Window(limit, after))
        return found.map(row)

    @post(operation_id="make_key", summary="A new key", operation_class=takes(MakeKey))
    async def make_key(self, request: Asked) -> Response[NewKey]:
        given, caller = read_as(await raw_body(request, self.settings), MakeKey, self.settings), caller_of(request)
        key, secret = kept.new_api_key(
            project=caller.project,
            name=api_keys.check_key_name(given.name, pointer="/name"),
            scopes=_granted(given.scopes, caller),
            now=self.authenticator.now(),
            expires_at=_to_come(given.expires_at, self.authenticator.now()),
            made_by=caller.key,
        )
        await self.database.write(kept.insert_key, key)
        self.authenticator.invalidate(key.id)
        location = f"{self.settings.root_path}/api/keys/{api_keys.format_key_id(key.id)}"
        return answer(request, shown_once(key, secret), status=201, location=location)

    @patch(
        "/{key_id:str}",
        operation_id="change_key",
        summary="Its name, its end",
        operation_class=takes(ChangeKey),
    )
    async def change_key(self, request: Asked, key_id: FromPath[str]) -> Response[KeyRow]:
        given = read_as(await raw_body(request, self.settings), ChangeKey, self.settings)
        changes = _changes(given, self.authenticator.now())
        changed = await self.database.write(
            _if_fresh, unless_stale(request, row), caller_of(request).project, key_id, kept.update_key, changes
        )
        self.authenticator.invalidate(changed.id)
        return answer(request, row(changed))

    @delete("/{key_id:str}", operation_id="revoke_key", summary="Revoke it; its row stays")
    async def revoke_key(self, request: Asked, key_id: FromPath[str]) -> None:
        revoke = _revoked_at(self.authenticator.now())
        changed = await self.database.write(
            _if_fresh, unless_stale(request, row), caller_of(request).project, key_id, revoke
        )
        self.authenticator.invalidate(changed.id)


def _if_fresh(
    db: Connection,
    check: Callable[[ApiKey], None],
    project: str,
    key_id: str,
    change: Callable[..., ApiKey | None],
    *args: Any,
) -> ApiKey:
    """Change a key of the project, if it is there and the caller has seen it as it is."""
    named = api_keys.parse_key_id(key_id)
    key = kept.get_key(db, project, named) if named else None
    if key is None:
        raise NotFound(f"There is no key {key_id[:40]!r}.")
    check(key)
    return change(db, project, key.id, *args) or key


def _revoked_at(now: datetime) -> Callable[[Connection, str, str], ApiKey | None]:
    return lambda db, project, key: kept.revoke_key(db, project, key, at=now)


def _granted(words: list[str], caller: Caller) -> frozenset[Scope]:
    scopes = api_keys.parse_scopes(words, pointer="/scopes")
    for scope in api_keys.minimal_scopes(scopes - caller.scopes):
        raise MissingScope(scope, reason=f"You cannot give the scope {scope}, which you do not have.")
    return scopes


def _changes(given: ChangeKey, now: datetime) -> dict[str, Any]:
    if given.scopes is not UNSET:
        raise InvalidValue("What a key may do never changes: make another, and revoke this one.", pointer="/scopes")
    changes: dict[str, Any] = {}
    if given.name is not UNSET:
        changes["name"] = api_keys.check_key_name(given.name, pointer="/name")
    if given.expires_at is not UNSET:
        changes["expires_at"] = _to_come(given.expires_at, now)
    return changes


def _to_come(moment: datetime | None, now: datetime) -> datetime | None:
    if moment is not None and moment <= now:
        raise InvalidValue("A key must expire in the future.", pointer="/expires_at")
    return moment


def _fields(key: ApiKey) -> dict[str, Any]:
    return {
        "id": api_keys.format_key_id(key.id),
        "name": key.name,
        "scopes": api_keys.minimal_scopes(key.scopes),
        "created_at": told_time(key.created_at),
        "expires_at": _told(key.expires_at),
        "last_used_at": _told(key.last_used_at),
        "revoked_at": _told(key.revoked_at),
    }


def _told(moment: datetime | None) -> str | None:
    return told_time(moment) if moment else None
