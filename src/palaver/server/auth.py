"""Authentication: read a request's credential and find the caller it belongs to."""

import asyncio
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
from palaver.errors import ConflictingFields, PalaverError, SettingsError, Unauthorized
from palaver.server.request import Exchange, RequestHeaders
from palaver.server.settings import Settings
from palaver.storage import api_keys as kept_keys
from palaver.storage import api_keys as kept_sessions
from palaver.storage.api_keys import ApiKey, LoginSession
from palaver.storage.database import Database

_AUTH_SCHEMES = (b"bearer", b"apikey")
_KEY_HEADERS = (b"x-api-key", b"api-key")
_COOKIE_SEPARATOR = re.compile(rb"[;,]")  # A comma where two Cookie headers were joined; no value of ours has one.


class Credential(NamedTuple):
    """What a request shows."""

    kind: Literal["key", "session"]
    text: str


def read_credential(head: RequestHeaders, cookie: str) -> Credential | None:
    """The one credential in the headers of a request, good or not. Nothing in a URL is ever one."""
    raw = head.raw
    found: list[Credential] = []
    if (authorization := raw.get(b"authorization")) is not None:
        scheme, _, rest = authorization.partition(b" ")
        if scheme.lower() in _AUTH_SCHEMES:
            found.append(Credential("key", _decode_text(rest)))
    found += [Credential("key", _decode_text(raw[name])) for name in _KEY_HEADERS if name in raw]
    if (cookies := raw.get(b"cookie")) is not None and (value := _cookie_value(cookies, cookie.encode())) is not None:
        found.append(Credential("session", value))
    if len(found) > 1 and len(set(found)) > 1:
        raise ConflictingFields("This request has two different credentials: send one.")
    return found[0] if found else None


def _decode_text(raw: bytes) -> str:
    return raw.strip().decode("latin-1")


def _cookie_value(cookies: bytes, name: bytes) -> str | None:
    pairs = (piece.strip().partition(b"=") for piece in _COOKIE_SEPARATOR.split(cookies))
    values = [value for named, _, value in pairs if named == name]
    if not values:
        return None
    return _decode_text(values[0]) if len(values) == 1 else ""  # Of two, none: we never set two.


# Cookies


def cookie_name(settings: Settings) -> str:
    """What the cookie is called. Browsers take the longer name over https only, from this host alone, for all paths."""
    return "palaver" if settings.is_loopback else "__Host-palaver"


def session_cookie(settings: Settings, value: str, *, seconds: int, scheme: str = "http") -> str:
    """The header that gives a browser its session; for 0 seconds, the one that takes it away."""
    secure = "" if settings.is_loopback and scheme != "https" else "; Secure"
    return f"{cookie_name(settings)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CACHE_TTL_S = 2.0
"""How long an answer is good: no process is further behind the others than that."""
MAX_CACHE_ENTRIES = 4096
"""How many answers are kept, of whatever strangers ask for."""


class _CacheEntry(NamedTuple, Generic[V]):
    value: V | None
    until: float


class TTLCache(Generic[K, V]):
    """Values by name, None for what is not there."""

    def __init__(
        self,
        ask: Callable[[Collection[K]], Awaitable[Mapping[K, V]]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        most: int = MAX_CACHE_ENTRIES,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._most = most
        self._said: dict[K, _CacheEntry[V]] = {}
        self._asking: dict[K, asyncio.Task[V | None]] = {}
        self._dropped = 0

    async def get(self, name: K) -> V | None:
        """The value of that name. Those who want it at the same time ask once."""
        said = self._said.get(name)
        if said is not None and self._monotonic() < said.until:
            return said.value
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.get_running_loop().create_task(self._asked(name))
            asking.add_done_callback(_retrieve_exception)
        return await asyncio.shield(asking)  # Whoever leaves takes nothing from the others.

    async def refresh(self, names: Collection[K]) -> None:
        """See to it that all of these are known and new, with one question."""
        now = self._monotonic()
        old = [name for name in names if (said := self._said.get(name)) is None or now >= said.until]
        if old:
            await self._keep(old)

    def knows(self, name: K) -> bool:
        """Was anything said of it, however long ago?"""
        return name in self._said

    def last(self, name: K) -> V | None:
        """What was said last, however long ago."""
        said = self._said.get(name)
        return None if said is None else said.value

    def drop(self, name: K) -> None:
        """Forget it: it has changed. An answer that is on its way may be of before, so it is not kept either."""
        self._dropped += 1
        self._said.pop(name, None)
        self._asking.pop(name, None)

    def drop_all(self) -> None:
        """Forget everything."""
        self._dropped += 1
        self._said.clear()
        self._asking.clear()

    async def _asked(self, name: K) -> V | None:
        try:
            return (await self._keep([name])).get(name)
        finally:
            if self._asking.get(name) is asyncio.current_task():
                del self._asking[name]

    async def _keep(self, names: Collection[K]) -> Mapping[K, V]:
        dropped = self._dropped
        found = await self._ask(names)
        if dropped == self._dropped:
            until = self._monotonic() + CACHE_TTL_S
            for name in names:
                self._said.pop(name, None)  # It goes to the end: the first is always the one asked longest ago.
                self._said[name] = _CacheEntry(found.get(name), until)
            while len(self._said) > self._most:
                del self._said[next(iter(self._said))]
        return found


def _retrieve_exception(task: "asyncio.Task[object]") -> None:
    """Whoever waited may have left: its error is nobody's then, and no reason to complain."""
    if not task.cancelled():
        task.exception()


SESSION_LIFETIME = timedelta(hours=12)
"""How long a login lasts."""
_USE_WRITE_INTERVAL = timedelta(minutes=1)
_WATCH_INTERVAL_S = 2.0
_NEVER = datetime.min.replace(tzinfo=UTC)
_MAX_NOTED_KEYS = 4096
log = logging.getLogger("palaver.server")


class Caller(msgspec.Struct, frozen=True):
    """Who is asking, in which project, and what they may do there."""

    project: str
    scopes: frozenset[Scope]
    key: str | None
    """The id of the key, also of the one that a session was traded for."""
    kind: Literal["nobody", "loopback", "key", "session"]
    session: bytes | None = None
    """The hash that a session is kept under."""


LOOPBACK_CALLER = Caller(DEFAULT_PROJECT, ALL_SCOPES, None, "loopback")
"""Everybody, where no key was ever given out and only this machine can reach us."""
ANONYMOUS = Caller("", frozenset(), None, "nobody")
"""Whoever asks for something that needs no credential: it was not looked at."""
CREDENTIAL_ENDED = RunFailed(code=Unauthorized.code, message="The key that asked is no longer good.")
"""What a stream says to one whose credential ended while it was open."""


class Authenticator:
    """Finds the caller of a request."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cookie = cookie_name(settings)
        self.now = steady_clock(wall, monotonic)
        self._database = database
        self._is_loopback = settings.is_loopback
        self._monotonic = monotonic
        self._has_keys = False
        self._any: TTLCache[str, bool] = TTLCache(self._ask_any, monotonic=monotonic)
        self._keys: TTLCache[str, ApiKey] = TTLCache(self._ask_keys, monotonic=monotonic)
        self._sessions: TTLCache[bytes, LoginSession] = TTLCache(self._ask_sessions, monotonic=monotonic)
        self._watched: dict[object, tuple[Caller, Callable[[], object]]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._noted_at: dict[str, datetime] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def resolve(self, exchange: Exchange) -> Caller:
        """The caller of a request; Unauthorized where it shows nothing good."""
        if self._is_loopback and not self._has_keys and not await self.has_keys():
            return LOOPBACK_CALLER
        shown = read_credential(exchange.headers, self.cookie)
        caller = None
        if shown is not None:
            caller = await (self.of_key(shown.text) if shown.kind == "key" else self._of_cookie(shown.text))
        if caller is None:
            raise Unauthorized
        return caller

    async def has_keys(self) -> bool:
        """Was a key ever given out, here or by another process?"""
        if not self._has_keys and await self._any.get(""):
            self._has_keys = True
        return self._has_keys

    async def of_key(self, text: str) -> Caller | None:
        """The caller that a key stands for; None for anything but a good one."""
        shown = api_keys.parse_key(text)
        if shown is None:
            return None
        key = await self._keys.get(shown.id)
        # First the comparison, whatever the key: how long it takes must not tell whether there is one.
        is_right = api_keys.verify_secret(shown.secret, key.hash if key else None)
        now = self.now()
        if key is None or not is_right or not key.is_good(now):
            return None
        self._note_use(key, now)
        return Caller(key.project, key.scopes, key.id, "key")

    async def _of_cookie(self, text: str) -> Caller | None:
        if not api_keys.is_token(text):
            return None
        session = await self._sessions.get(api_keys.hash_secret(text))
        if session is None:
            return None
        key, now = await self._keys.get(session.key), self.now()
        if key is None or now >= session.expires_at or not key.is_good(now):
            return None
        self._note_use(key, now)
        return Caller(session.project, session.scopes, session.key, "session", session.hash)

    # Sessions

    async def begin_session(self, caller: Caller) -> tuple[str, LoginSession]:
        """Log in whoever has shown a key: the cookie's value, which is kept nowhere, and what is."""
        assert caller.key is not None
        value, now = api_keys.generate_token(secrets.randbits), self.now()
        key = await self._keys.get(caller.key)
        ends = now + SESSION_LIFETIME
        if key is not None and key.expires_at is not None:
            ends = min(ends, key.expires_at)
        session = LoginSession(
            hash=api_keys.hash_secret(value),
            project=caller.project,
            key=caller.key,
            scopes=caller.scopes,
            created_at=now,
            expires_at=ends,
        )
        await self._database.write(kept_sessions.insert_session, session)
        self._sessions.drop(session.hash)
        return value, session

    async def end_session(self, caller: Caller) -> None:
        """Log out; whoever has no session is out already."""
        if caller.session is not None:
            await self._database.write(kept_sessions.delete_session, caller.session)
            self._sessions.drop(caller.session)

    async def expires_at(self, caller: Caller) -> datetime | None:
        """When the caller's credential ends by itself."""
        if caller.session is not None:
            session = await self._sessions.get(caller.session)
            return session.expires_at if session else None
        key = await self._keys.get(caller.key) if caller.key else None
        return key.expires_at if key else None

    # What has changed since

    def changed(self, *keys: str) -> None:
        """Keys were made, changed or revoked, here or in another process: the next request is to know."""
        for key in keys:
            self._keys.drop(key)
        self._any.drop("")

    def changed_all(self) -> None:
        """Any of them may have been."""
        for recent in (self._any, self._keys, self._sessions):
            recent.drop_all()

    async def gone(self, callers: Iterable[Caller]) -> set[Caller]:
        """Those whose credential is no longer good. While the database is away, by what it said last.

        For what stays open: asked every other second, it asks one or two questions for all.
        """
        asked = {caller for caller in callers if caller.key is not None}
        with suppress(PalaverError):
            await self._keys.refresh({caller.key for caller in asked if caller.key is not None})
            await self._sessions.refresh({caller.session for caller in asked if caller.session is not None})
        return {caller for caller in asked if self._is_gone(caller)}

    def _is_gone(self, caller: Caller) -> bool:
        now = self.now()
        if caller.session is not None and self._sessions.knows(caller.session):
            session = self._sessions.last(caller.session)
            if session is None or now >= session.expires_at:
                return True
        if caller.key is None or not self._keys.knows(caller.key):
            return False
        key = self._keys.last(caller.key)
        return key is None or not key.is_good(now)

    @contextmanager
    def watched(self, caller: Caller, end: Callable[[], object]) -> Generator[None]:
        """Call `end` if the caller's credential is no longer good before the block is over."""
        if caller.key is None:
            yield
            return
        mark = object()
        self._watched[mark] = caller, end
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch_on())
        try:
            yield
        finally:
            del self._watched[mark]

    async def _watch_on(self) -> None:
        while self._watched:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            gone = await self.gone({caller for caller, _ in self._watched.values()})
            for caller, end in list(self._watched.values()):
                if caller in gone:
                    end()

    async def close(self) -> None:
        """Wait for what is still being written."""
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*self._noting)

    # The database

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        """Write down that it was used, once a minute, with nobody waiting for it."""
        if now - max(key.last_used_at or _NEVER, self._noted_at.get(key.id, _NEVER)) < _USE_WRITE_INTERVAL:
            return
        self._noted_at.pop(key.id, None)
        self._noted_at[key.id] = now
        if len(self._noted_at) > _MAX_NOTED_KEYS:
            del self._noted_at[next(iter(self._noted_at))]
        task = asyncio.get_running_loop().create_task(self._noted(key, now))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _noted(self, key: ApiKey, now: datetime) -> None:
        try:
            await self._database.write(kept_keys.set_last_used, key.project, key.id, at=now)
        except PalaverError as error:
            log.debug("The use of a key was not written down: %s", error.message)

    async def _ask_any(self, names: Collection[str]) -> Mapping[str, bool]:
        found = await self._database.read(kept_keys.has_keys)
        return dict.fromkeys(names, found)

    async def _ask_keys(self, names: Collection[str]) -> Mapping[str, ApiKey]:
        return {key.id: key for key in await self._database.read(kept_keys.find_keys, names)}

    async def _ask_sessions(self, names: Collection[bytes]) -> Mapping[bytes, LoginSession]:
        return {session.hash: session for session in await self._database.read(kept_sessions.find_sessions, names)}


def check_exposure(settings: Settings, *, has_key: bool) -> None:
    """Refuse to be reachable by strangers while there is no way to tell who they are."""
    if not settings.is_loopback and not has_key:
        raise SettingsError(
            f"Others can reach {settings.host}, and there is no key to tell who they are:"
            " make one with palaver key create, or bind to 127.0.0.1."
        )


def steady_clock(wall: Callable[[], datetime], monotonic: Callable[[], float]) -> Callable[[], datetime]:
    """A clock that goes on when the one on the wall is set back: a key that has expired must not revive."""
    began, since = wall(), monotonic()

    def now() -> datetime:
        return max(wall(), began + timedelta(seconds=monotonic() - since))

    return now
