"""/api/keys: API keys; /api/session: log in with a key, for a session in an HttpOnly cookie."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import api_keys
from palaver.core.api_keys import Scope
from palaver.errors import InvalidValue, MissingScope, NotFound, Unauthorized
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    decode_body,
    format_timestamp,
    if_match_check,
    make_view,
    object_response,
    operation_with_body,
    raw_body,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.auth import Authenticator, Caller, session_cookie
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import KIB, Settings
from palaver.storage import api_keys as key_store
from palaver.storage.api_keys import ApiKey
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window

Moment = Annotated[datetime, msgspec.Meta(tz=True, description="RFC 3339 timestamp with a time zone.")]


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: Timestamp
    expires_at: Timestamp | None
    last_used_at: Timestamp | None
    revoked_at: Timestamp | None


class CreatedKey(KeyRow, frozen=True, kw_only=True):
    """A newly created key. Its secret is shown only once."""

    secret: str


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key to create."""

    name: str
    """Display name."""
    scopes: list[str]
    """Scopes of the key: any of `read`, `invoke` and `admin`."""
    expires_at: Moment | None = None
    """When the key expires; null for never."""


class KeyPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to an API key. Omitted fields are not changed."""

    name: str | UnsetType = UNSET
    """Display name."""
    expires_at: Moment | UnsetType | None = UNSET
    """When the key expires; null for never."""
    scopes: Any = UNSET
    """Rejected: the scopes of a key can't be changed."""


def key_row(key: ApiKey) -> KeyRow:
    return make_view(KeyRow, key, **_fields(key))


def new_key_view(key: ApiKey, secret: str) -> CreatedKey:
    return make_view(CreatedKey, key, **_fields(key), secret=secret)


class KeyController(ApiController):
    path = "/api/keys"

    database: Database
    settings: Settings
    authenticator: Authenticator

    @get(operation_id="list_keys", summary="List API keys, newest first")
    async def list_keys(self, request: ApiRequest, after: After = None, limit: Limit = 50) -> Page[KeyRow]:
        page = await self.database.read(key_store.list_keys, caller_of(request).project, Window(limit, after))
        return page.map(key_row)

    @post(operation_id="make_key", summary="Create an API key", operation_class=operation_with_body(NewKey))
    async def make_key(self, request: ApiRequest) -> Response[CreatedKey]:
        body, caller = decode_body(await raw_body(request, self.settings), NewKey, self.settings), caller_of(request)
        key, secret = key_store.new_api_key(
            project=caller.project,
            name=api_keys.check_key_name(body.name, pointer="/name"),
            scopes=_parse_scopes(body.scopes, caller),
            now=self.authenticator.now(),
            expires_at=_check_future(body.expires_at, self.authenticator.now()),
            made_by=caller.key,
        )
        await self.database.write(key_store.insert_key, key)
        self.authenticator.invalidate(key.id)
        location = f"{self.settings.root_path}/api/keys/{api_keys.format_key_id(key.id)}"
        return object_response(request, new_key_view(key, secret), status=201, location=location)

    @patch(
        "/{key_id:str}",
        operation_id="change_key",
        summary="Change an API key's name or expiry",
        operation_class=operation_with_body(KeyPatch),
    )
    async def change_key(self, request: ApiRequest, key_id: FromPath[str]) -> Response[KeyRow]:
        body = decode_body(await raw_body(request, self.settings), KeyPatch, self.settings)
        changes = _changes(body, self.authenticator.now())
        check, project = if_match_check(request, key_row), caller_of(request).project
        changed = await self.database.write(_change_if_match, check, project, key_id, key_store.update_key, changes)
        self.authenticator.invalidate(changed.id)
        return object_response(request, key_row(changed))

    @delete("/{key_id:str}", operation_id="revoke_key", summary="Revoke an API key; it stays in the list")
    async def revoke_key(self, request: ApiRequest, key_id: FromPath[str]) -> None:
        revoke = partial(key_store.revoke_key, at=self.authenticator.now())
        check, project = if_match_check(request, key_row), caller_of(request).project
        changed = await self.database.write(_change_if_match, check, project, key_id, revoke)
        self.authenticator.invalidate(changed.id)


def _change_if_match(
    db: Connection,
    check: Callable[[ApiKey], None],
    project: str,
    key_id: str,
    change: Callable[..., ApiKey | None],
    *args: Any,
) -> ApiKey:
    """Apply `change` to a key. Raises NotFound, or StaleBase if `If-Match` fails."""
    parsed_id = api_keys.parse_key_id(key_id)
    key = key_store.get_key(db, project, parsed_id) if parsed_id else None
    if key is None:
        raise NotFound(f"API key {key_id[:40]!r} not found.")
    check(key)
    return change(db, project, key.id, *args) or key


def _parse_scopes(names: list[str], caller: Caller) -> frozenset[Scope]:
    scopes = api_keys.parse_scopes(names, pointer="/scopes")
    for scope in api_keys.minimal_scopes(scopes - caller.scopes):
        raise MissingScope(scope, reason=f"You can't grant the scope {scope!r} because you don't have it.")
    return scopes


def _changes(body: KeyPatch, now: datetime) -> dict[str, Any]:
    if body.scopes is not UNSET:
        raise InvalidValue("A key's scopes can't be changed. Create a new key and revoke this one.", pointer="/scopes")
    changes: dict[str, Any] = {}
    if body.name is not UNSET:
        changes["name"] = api_keys.check_key_name(body.name, pointer="/name")
    if body.expires_at is not UNSET:
        changes["expires_at"] = _check_future(body.expires_at, now)
    return changes


def _check_future(moment: datetime | None, now: datetime) -> datetime | None:
    if moment is not None and moment <= now:
        raise InvalidValue("expires_at must be in the future.", pointer="/expires_at")
    return moment


def _fields(key: ApiKey) -> dict[str, Any]:
    return {"id": api_keys.format_key_id(key.id), "scopes": api_keys.minimal_scopes(key.scopes)}


_MAX_LOGIN_BYTES = 4 * KIB  # Sent without authentication.


class Login(msgspec.Struct, frozen=True):
    """An API key to log in with."""

    key: str
    """The API key."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's project, scopes and credential."""

    project: str
    scopes: list[Scope]
    key: str | None
    expires_at: Timestamp | None


class SessionController(ApiController):
    path = "/api/session"

    settings: Settings
    authenticator: Authenticator
    rate_limits: RateLimits

    @post(
        operation_id="log_in",
        summary="Log in with an API key and get a session cookie",
        status_code=204,
        operation_class=operation_with_body(Login),
    )
    async def log_in(self, request: ApiRequest) -> Response[None]:
        settings = msgspec.structs.replace(self.settings, max_body=_MAX_LOGIN_BYTES)
        body = decode_body(await raw_body(request, settings), Login, settings)
        address = request.client.host if request.client else ""
        self.rate_limits.count_login(address)
        caller = await self.authenticator.caller_of_key(body.key.strip())
        if caller is None:
            raise Unauthorized("Invalid API key.")  # Same for unknown, expired and revoked.
        self.rate_limits.uncount_login(address)
        self.rate_limits.count_request(caller)
        value, session = await self.authenticator.create_session(caller)
        lifetime = session.expires_at - session.created_at
        return _cookie_response(request, self.settings, value, int(lifetime.total_seconds()))

    @get(operation_id="get_session", summary="Get the current caller")
    async def get_session(self, request: ApiRequest) -> SessionView:
        caller = caller_of(request)
        expires_at = await self.authenticator.expires_at(caller)
        return SessionView(
            project=caller.project,
            scopes=api_keys.minimal_scopes(caller.scopes),
            key=api_keys.format_key_id(caller.key) if caller.key else None,
            expires_at=format_timestamp(expires_at) if expires_at else None,
        )

    @delete(operation_id="log_out", summary="Log out")
    async def log_out(self, request: ApiRequest) -> Response[None]:
        await self.authenticator.end_session(caller_of(request))
        return _cookie_response(request, self.settings, "", 0)


def _cookie_response(request: ApiRequest, settings: Settings, value: str, seconds: int) -> Response[None]:
    cookie = session_cookie(settings, value, seconds=seconds, scheme=request.scope["scheme"])
    return Response(None, status_code=204, headers={"set-cookie": cookie})
