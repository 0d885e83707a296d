"""Who is asking: a request's credential, and the caller it stands for. Every route asks here, and only here.

A server to which no key was ever given out, and which only this machine can reach, knows one caller, who may do
everything. Once there is a key there is no way back by itself: a key that expires or is revoked opens nothing.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from palaver.core import keys
from palaver.core.events import RunFailed
from palaver.core.keys import ALL, Scope
from palaver.core.origins import DEFAULT_PROJECT
from palaver.errors import PalaverError, SettingsError, Unauthorized
from palaver.server.credentials import cookie_name, presented
from palaver.server.exchange import Exchange
from palaver.server.recent import Recent
from palaver.server.settings import Settings
from palaver.storage import api_keys as kept_keys
from palaver.storage import api_keys as kept_sessions
from palaver.storage.api_keys import ApiKey, LoginSession
from palaver.storage.database import Database

SESSION = timedelta(hours=12)
"""How long a login lasts."""
_NOTED_EVERY = timedelta(minutes=1)
_WATCHED_EVERY = 2.0
_NEVER = datetime.min.replace(tzinfo=UTC)
_MOST_NOTED = 4096
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


LOOPBACK = Caller(DEFAULT_PROJECT, ALL, None, "loopback")
"""Everybody, where no key was ever given out and only this machine can reach us."""
NOBODY = Caller("", frozenset(), None, "nobody")
"""Whoever asks for something that needs no credential: it was not looked at."""
NOT_GOOD = RunFailed(code=Unauthorized.code, message="The key that asked is no longer good.")
"""What a stream says to one whose credential ended while it was open."""


class Callers:
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
        self.now = steady(wall, monotonic)
        self._database = database
        self._is_loopback = settings.is_loopback
        self._monotonic = monotonic
        self._has_keys = False
        self._any: Recent[str, bool] = Recent(self._ask_any, monotonic=monotonic)
        self._keys: Recent[str, ApiKey] = Recent(self._ask_keys, monotonic=monotonic)
        self._sessions: Recent[bytes, LoginSession] = Recent(self._ask_sessions, monotonic=monotonic)
        self._watched: dict[object, tuple[Caller, Callable[[], object]]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._noted_at: dict[str, datetime] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def resolve(self, exchange: Exchange) -> Caller:
        """The caller of a request; Unauthorized where it shows nothing good."""
        if self._is_loopback and not self._has_keys and not await self.has_keys():
            return LOOPBACK
        shown = presented(exchange.headers, self.cookie)
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
        shown = keys.parse(text)
        if shown is None:
            return None
        key = await self._keys.get(shown.id)
        # First the comparison, whatever the key: how long it takes must not tell whether there is one.
        is_right = keys.is_secret_of(shown.secret, key.hash if key else None)
        now = self.now()
        if key is None or not is_right or not key.is_good(now):
            return None
        self._note_use(key, now)
        return Caller(key.project, key.scopes, key.id, "key")

    async def _of_cookie(self, text: str) -> Caller | None:
        if not keys.is_token(text):
            return None
        session = await self._sessions.get(keys.hashed(text))
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
        value, now = keys.token(secrets.randbits), self.now()
        key = await self._keys.get(caller.key)
        ends = now + SESSION
        if key is not None and key.expires_at is not None:
            ends = min(ends, key.expires_at)
        session = LoginSession(
            hash=keys.hashed(value),
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
            await asyncio.sleep(_WATCHED_EVERY)
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
        if now - max(key.last_used_at or _NEVER, self._noted_at.get(key.id, _NEVER)) < _NOTED_EVERY:
            return
        self._noted_at.pop(key.id, None)
        self._noted_at[key.id] = now
        if len(self._noted_at) > _MOST_NOTED:
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


def check_reach(settings: Settings, *, has_key: bool) -> None:
    """Refuse to be reachable by strangers while there is no way to tell who they are."""
    if not settings.is_loopback and not has_key:
        raise SettingsError(
            f"Others can reach {settings.host}, and there is no key to tell who they are:"
            " make one with palaver key create, or bind to 127.0.0.1."
        )


def steady(wall: Callable[[], datetime], monotonic: Callable[[], float]) -> Callable[[], datetime]:
    """A clock that goes on when the one on the wall is set back: a key that has expired must not revive."""
    began, since = wall(), monotonic()

    def now() -> datetime:
        return max(wall(), began + timedelta(seconds=monotonic() - since))

    return now
