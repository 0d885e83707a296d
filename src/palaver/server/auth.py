"""Authentication: read a request's credential and find the caller it belongs to.

A server that only this machine can reach, and for which no key was ever created, has one caller with every scope.
Once a key was created, requests need one: an expired or revoked key does not open the server again.
"""

import asyncio
import base64
import binascii
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from palaver.core import api_keys
from palaver.core.api_keys import ALL_SCOPES, Scope
from palaver.core.events import RunFailed
from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import ConflictingFields, PalaverError, Unauthorized
from palaver.server.request import Exchange, RequestHeaders
from palaver.server.settings import Settings
from palaver.storage import api_keys as stored_keys
from palaver.storage.api_keys import ApiKey, LoginSession
from palaver.storage.database import Database

_AUTH_SCHEMES = (b"bearer", b"apikey")
_KEY_HEADERS = (b"x-api-key", b"api-key")
_COOKIE_SEPARATOR = re.compile(rb"[;,]")  # A comma joins two Cookie headers; our own values have none.


class Credential(NamedTuple):
    """A key or session token, as sent."""

    kind: Literal["key", "session"]
    text: str


def read_credential(headers: RequestHeaders, cookie: str, *, basic: bool = False) -> Credential | None:
    """Return the credential in the headers, valid or not. Credentials in a URL are ignored.

    With `basic`, the user name or the password of Basic authentication may be a key, as Langfuse's SDK sends two.
    Raises ConflictingFields for two different ones.
    """
    raw = headers.raw
    credentials: list[Credential] = []
    if (authorization := raw.get(b"authorization")) is not None:
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() in _AUTH_SCHEMES:
            credentials.append(Credential("key", _decode_text(key)))
        elif basic and scheme.lower() == b"basic":
            credentials += [Credential("key", half) for half in _basic_halves(key) if api_keys.parse_key(half)]
    credentials += [Credential("key", _decode_text(raw[name])) for name in _KEY_HEADERS if name in raw]
    if (cookies := raw.get(b"cookie")) is not None and (value := _cookie_value(cookies, cookie.encode())) is not None:
        credentials.append(Credential("session", value))
    if len(credentials) > 1 and len(set(credentials)) > 1:
        raise ConflictingFields("The request contains two different credentials. Send only one.")
    return credentials[0] if credentials else None


def _basic_halves(encoded: bytes) -> list[str]:
    """Return the user name and the password of Basic authentication."""
    try:
        return _decode_text(base64.b64decode(encoded.strip(), validate=True)).split(":", 1)
    except binascii.Error:
        return []


def _decode_text(raw: bytes) -> str:
    return raw.strip().decode("latin-1")


def _cookie_value(cookies: bytes, name: bytes) -> str | None:
    pairs = (piece.strip().partition(b"=") for piece in _COOKIE_SEPARATOR.split(cookies))
    values = [value for cookie, _, value in pairs if cookie == name]
    if not values:
        return None
    return _decode_text(values[0]) if len(values) == 1 else ""  # The server never sets it twice: accept neither.


# Cookies


def cookie_name(settings: Settings) -> str:
    """Return the name of the session cookie. Browsers accept `__Host-` only over https, for this host and all paths."""
    return "palaver" if settings.is_loopback else "__Host-palaver"


def session_cookie(settings: Settings, value: str, *, seconds: int, scheme: str = "http") -> str:
    """Return the Set-Cookie header of a session; with 0 seconds, the one that deletes it."""
    secure = "" if settings.is_loopback and scheme != "https" else "; Secure"
    return f"{cookie_name(settings)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CACHE_TTL_S = 2.0
"""How long a process may use values that another process has changed."""
MAX_CACHE_ENTRIES = 4096


class _CacheEntry(NamedTuple, Generic[V]):
    value: V | None
    expires_at: float


class TTLCache(Generic[K, V]):
    """A cache with single-flight loading. A name that does not exist is cached as None."""

    def __init__(
        self,
        load: Callable[[Collection[K]], Awaitable[Mapping[K, V]]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        max_entries: int = MAX_CACHE_ENTRIES,
    ) -> None:
        self._load = load
        self._monotonic = monotonic
        self._max_entries = max_entries
        self._entries: dict[K, _CacheEntry[V]] = {}
        self._loading: dict[K, asyncio.Task[V | None]] = {}
        self._invalidations = 0

    async def get(self, name: K) -> V | None:
        """Return the value; concurrent misses of a name load it once."""
        entry = self._entries.get(name)
        if entry is not None and self._monotonic() < entry.expires_at:
            return entry.value
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.get_running_loop().create_task(self._load_one(name))
            task.add_done_callback(_retrieve_exception)
        return await asyncio.shield(task)  # A caller that is cancelled must not cancel the load for the others.

    async def refresh(self, names: Collection[K]) -> None:
        """Load those of `names` that are missing or expired, together."""
        now = self._monotonic()
        stale = [name for name in names if (entry := self._entries.get(name)) is None or now >= entry.expires_at]
        if stale:
            await self._load_many(stale)

    def contains(self, name: K) -> bool:
        """Whether there is a value, even an expired one."""
        return name in self._entries

    def peek(self, name: K) -> V | None:
        """Return the last value, even if it has expired."""
        entry = self._entries.get(name)
        return None if entry is None else entry.value

    def invalidate(self, name: K) -> None:
        """Remove a value that has changed. A load in progress may have read the old one, so it is not stored either."""
        self._invalidations += 1
        self._entries.pop(name, None)
        self._loading.pop(name, None)

    def invalidate_all(self) -> None:
        self._invalidations += 1
        self._entries.clear()
        self._loading.clear()

    async def _load_one(self, name: K) -> V | None:
        try:
            return (await self._load_many([name])).get(name)
        finally:
            if self._loading.get(name) is asyncio.current_task():
                del self._loading[name]

    async def _load_many(self, names: Collection[K]) -> Mapping[K, V]:
        invalidations_before = self._invalidations
        values = await self._load(names)
        if invalidations_before == self._invalidations:
            expires_at = self._monotonic() + CACHE_TTL_S
            for name in names:
                self._entries.pop(name, None)  # Reinserted at the end: the first is always the oldest.
                self._entries[name] = _CacheEntry(values.get(name), expires_at)
            while len(self._entries) > self._max_entries:
                del self._entries[next(iter(self._entries))]
        return values


def _retrieve_exception(task: "asyncio.Task[object]") -> None:
    """Mark the exception as retrieved: every caller may have been cancelled."""
    if not task.cancelled():
        task.exception()


SESSION_LIFETIME = timedelta(hours=12)
_USE_WRITE_INTERVAL = timedelta(minutes=1)
_WATCH_INTERVAL_S = 2.0
_NEVER = datetime.min.replace(tzinfo=UTC)
_MAX_TRACKED_KEYS = 4096
log = logging.getLogger("palaver.server")


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request, in which project, with which scopes."""

    project: str
    scopes: frozenset[Scope]
    key: str | None
    """The id of the key; of a session, the key it was created with."""
    kind: Literal["nobody", "loopback", "key", "session"]
    session: bytes | None = None
    """The hash of the session token."""


LOOPBACK_CALLER = Caller(DEFAULT_PROJECT, ALL_SCOPES, None, "loopback")
"""The caller of every request until a key is created, if only this machine can reach the server."""
ANONYMOUS = Caller("", frozenset(), None, "nobody")
"""The caller of a route that needs no credential; credentials in the request were not checked."""
CREDENTIAL_ENDED = RunFailed(code=Unauthorized.code, message="The API key has expired or been revoked.")
"""The last event of a stream whose caller's credential expired or was revoked."""


class Authenticator:
    """Finds the caller of a request, and notices when a credential is revoked."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cookie = cookie_name(settings)
        self.now = steady_clock(clock, monotonic)
        self._database = database
        self._is_loopback = settings.is_loopback
        self._monotonic = monotonic
        self._has_keys = False
        self.is_keyless = False
        """Whether the last request needed no key: there is none, and only this machine can reach the server."""
        self._any_key: TTLCache[str, bool] = TTLCache(self._load_any_key, monotonic=monotonic)
        self._keys: TTLCache[str, ApiKey] = TTLCache(self._load_keys, monotonic=monotonic)
        self._sessions: TTLCache[bytes, LoginSession] = TTLCache(self._load_sessions, monotonic=monotonic)
        self._watches: dict[object, tuple[Caller, Callable[[], object]]] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._use_written_at: dict[str, datetime] = {}
        self._use_writes: set[asyncio.Task[None]] = set()

    async def resolve(self, exchange: Exchange, *, basic: bool = False) -> Caller:
        """Return the caller of a request. Raises Unauthorized without a valid credential."""
        if self._is_loopback and not self._has_keys and not await self.has_keys():
            return LOOPBACK_CALLER
        credential = read_credential(exchange.headers, self.cookie, basic=basic)
        caller = None
        if credential is not None:
            caller = await (
                self.caller_of_key(credential.text)
                if credential.kind == "key"
                else self._caller_of_cookie(credential.text)
            )
        if caller is None:
            raise Unauthorized
        return caller

    async def has_keys(self) -> bool:
        """Whether a key was ever created, by any process."""
        if not self._has_keys and await self._any_key.get(""):
            self._has_keys = True
        self.is_keyless = self._is_loopback and not self._has_keys
        return self._has_keys

    async def caller_of_key(self, text: str) -> Caller | None:
        """Return the caller of a valid key, or None."""
        parsed = api_keys.parse_key(text)
        if parsed is None:
            return None
        key = await self._keys.get(parsed.id)
        # Compare in any case: the time it takes must not reveal whether the key exists.
        is_match = api_keys.verify_secret(parsed.secret, key.hash if key else None)
        now = self.now()
        if key is None or not is_match or not key.is_valid(now):
            return None
        self._record_use(key, now)
        return Caller(key.project, key.scopes, key.id, "key")

    async def _caller_of_cookie(self, text: str) -> Caller | None:
        if not api_keys.is_token(text):
            return None
        session = await self._sessions.get(api_keys.hash_secret(text))
        if session is None:
            return None
        key, now = await self._keys.get(session.key), self.now()
        if key is None or now >= session.expires_at or not key.is_valid(now):
            return None
        self._record_use(key, now)
        return Caller(session.project, session.scopes, session.key, "session", session.hash)

    # Sessions

    async def create_session(self, caller: Caller) -> tuple[str, LoginSession]:
        """Create a session for a key. Return its token, which is not stored, and the stored session."""
        assert caller.key is not None
        token, now = api_keys.generate_token(secrets.randbits), self.now()
        key = await self._keys.get(caller.key)
        expires_at = now + SESSION_LIFETIME
        if key is not None and key.expires_at is not None:
            expires_at = min(expires_at, key.expires_at)
        session = LoginSession(
            hash=api_keys.hash_secret(token),
            project=caller.project,
            key=caller.key,
            scopes=caller.scopes,
            created_at=now,
            expires_at=expires_at,
        )
        await self._database.write(stored_keys.insert_session, session)
        self._sessions.invalidate(session.hash)
        return token, session

    async def end_session(self, caller: Caller) -> None:
        if caller.session is not None:
            await self._database.write(stored_keys.delete_session, caller.session)
            self._sessions.invalidate(caller.session)

    async def expires_at(self, caller: Caller) -> datetime | None:
        """Return when the caller's credential expires, if it does."""
        if caller.session is not None:
            session = await self._sessions.get(caller.session)
            return session.expires_at if session else None
        key = await self._keys.get(caller.key) if caller.key else None
        return key.expires_at if key else None

    # Invalidation and revocation

    def invalidate(self, *keys: str) -> None:
        """Forget keys that were created, changed or revoked, here or in another process."""
        for key in keys:
            self._keys.invalidate(key)
        self._any_key.invalidate("")

    def invalidate_all(self) -> None:
        """Forget everything: notifications may have been missed."""
        for cache in (self._any_key, self._keys, self._sessions):
            cache.invalidate_all()

    async def find_revoked(self, callers: Iterable[Caller]) -> set[Caller]:
        """Return the callers whose credential is not valid any more; if the database is down, by the cached rows.

        Called every two seconds for all open streams, with one or two queries in all.
        """
        watched = {caller for caller in callers if caller.key is not None}
        with suppress(PalaverError):
            await self._keys.refresh({caller.key for caller in watched if caller.key is not None})
            await self._sessions.refresh({caller.session for caller in watched if caller.session is not None})
        return {caller for caller in watched if self._is_revoked(caller)}

    def _is_revoked(self, caller: Caller) -> bool:
        now = self.now()
        if caller.session is not None and self._sessions.contains(caller.session):
            session = self._sessions.peek(caller.session)
            if session is None or now >= session.expires_at:
                return True
        if caller.key is None or not self._keys.contains(caller.key):
            return False
        key = self._keys.peek(caller.key)
        return key is None or not key.is_valid(now)

    @contextmanager
    def watch(self, caller: Caller, on_revoked: Callable[[], object]) -> Generator[None]:
        """Call `on_revoked` if the caller's credential becomes invalid within the block."""
        if caller.key is None:
            yield
            return
        token = object()
        self._watches[token] = caller, on_revoked
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.get_running_loop().create_task(self._watch())
        try:
            yield
        finally:
            del self._watches[token]

    async def _watch(self) -> None:
        while self._watches:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            revoked = await self.find_revoked({caller for caller, _ in self._watches.values()})
            for caller, on_revoked in list(self._watches.values()):
                if caller in revoked:
                    on_revoked()

    async def close(self) -> None:
        """Wait for pending writes."""
        if self._watcher is not None:
            self._watcher.cancel()
        await asyncio.gather(*self._use_writes)

    # The database

    def _record_use(self, key: ApiKey, now: datetime) -> None:
        """Record the use of a key, at most once a minute, in the background."""
        if now - max(key.last_used_at or _NEVER, self._use_written_at.get(key.id, _NEVER)) < _USE_WRITE_INTERVAL:
            return
        self._use_written_at.pop(key.id, None)
        self._use_written_at[key.id] = now
        if len(self._use_written_at) > _MAX_TRACKED_KEYS:
            del self._use_written_at[next(iter(self._use_written_at))]
        task = asyncio.get_running_loop().create_task(self._write_use(key, now))
        self._use_writes.add(task)
        task.add_done_callback(self._use_writes.discard)

    async def _write_use(self, key: ApiKey, now: datetime) -> None:
        try:
            await self._database.write(stored_keys.set_last_used, key.project, key.id, at=now)
        except PalaverError as error:
            log.debug("Failed to record the use of an API key: %s", error.message)

    async def _load_any_key(self, names: Collection[str]) -> Mapping[str, bool]:
        exists = await self._database.read(stored_keys.has_keys)
        return dict.fromkeys(names, exists)

    async def _load_keys(self, names: Collection[str]) -> Mapping[str, ApiKey]:
        return {key.id: key for key in await self._database.read(stored_keys.find_keys, names)}

    async def _load_sessions(self, names: Collection[bytes]) -> Mapping[bytes, LoginSession]:
        return {session.hash: session for session in await self._database.read(stored_keys.find_sessions, names)}


def steady_clock(wall: Callable[[], datetime], monotonic: Callable[[], float]) -> Callable[[], datetime]:
    """Return a clock that never goes back: setting the wall clock back must not revive an expired key."""
    wall_start, monotonic_start = wall(), monotonic()

    def now() -> datetime:
        return max(wall(), wall_start + timedelta(seconds=monotonic() - monotonic_start))

    return now
