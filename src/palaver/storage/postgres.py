"""PostgreSQL: a pool of connections, each used by a thread of ours for as long as one question takes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from palaver.errors import Overloaded, SettingsError
from palaver.storage import cleaning, migrating
from palaver.storage.cleaning import Cleaner
from palaver.storage.failing import is_collision, meaning
from palaver.storage.listening import CONNECT_SECONDS, Line, Listener
from palaver.storage.notices import Heard, Touched, collect
from palaver.storage.places import redacted
from palaver.storage.watchers import Watchers

P = ParamSpec("P")
T = TypeVar("T")

_CONNECTIONS = 8
_TRIES = 5
"""How often two transactions may stand in each other's way."""


class Postgres:
    """A database on a server."""

    kind: Literal["postgresql"] = "postgresql"
    place = None

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self._listener: Listener | None = None
        self._watchers = Watchers()
        self._cleaner: Cleaner | None = None
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="palaver-database")

    @classmethod
    def at(cls, url: str) -> "Postgres":
        """The one at that URL, which must be there."""
        engine = engine_at(url)
        migrating.bring_server_up_to_date(engine, redacted(url))
        return cls(engine)

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that only looks gives."""
        return await self.write(work, *args, **kwargs)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that changes something gives, once it is durable."""
        if self._closed:
            raise Overloaded("The database is closed: the server is shutting down.")
        ask = partial(self._ask, work, args, kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    @property
    def hears(self) -> bool:
        """Do notices of other processes reach this one?"""
        return self._listener is not None and self._listener.hears

    async def listen(self, heard: Heard) -> None:
        """Call that, in this loop, with every notice from now on."""
        if self._listener is None:
            self._listener = Listener(self._line)
        await self._listener.listen(heard)

    async def watch(self, touched: Touched) -> None:
        """Call that, in this loop, with what our own writes change, once it is durable."""
        self._watchers.add(touched)

    def clean_with(self, cleaner: Cleaner) -> None:
        """Keep no more of what people say from now on than that leaves of it."""
        self._cleaner = cleaner

    async def close(self) -> None:
        """Finish what was asked, and let go of the connections."""
        if not self._closed:
            self._closed = True
            if self._listener is not None:
                await asyncio.to_thread(self._listener.close)
            await asyncio.to_thread(self._threads.shutdown)
            self._engine.dispose()

    def _line(self) -> Line:
        """A connection of its own for whoever listens: it is not to be had by anybody else."""
        places, named = self._engine.dialect.create_connect_args(self._engine.url)
        own = {"connect_timeout": CONNECT_SECONDS, "application_name": "palaver listening"}
        return psycopg.connect(*places, **{**named, **own}, autocommit=True)

    def _ask(self, work: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        for left in range(_TRIES - 1, -1, -1):
            try:
                with self._engine.begin() as connection:
                    touched = collect(connection) if self._watchers else []
                    if self._cleaner is not None:
                        cleaning.give(connection, self._cleaner)
                    result = work(connection, *args, **kwargs)
            except Exception as error:
                if left and is_collision(error):
                    continue
                raise meaning(error) or error from None
            if touched:
                self._watchers.tell(touched)
            return result
        raise AssertionError


def engine_at(url: str) -> Engine:
    """A pool of connections to the server at a URL."""
    try:
        place = make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise SettingsError(f"No database at {redacted(url)!r}: give postgresql://user@host/name.") from None
    engine = create_engine(
        place,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_pre_ping=True,
        hide_parameters=True,  # What people said is not for our log.
        connect_args={"connect_timeout": CONNECT_SECONDS, "application_name": "palaver"},
    )
    event.listen(engine, "connect", _prepare)
    return engine


class _Text(StrDumperUnknown):
    """Text as this database can take it: without the one character that it refuses, which anybody may send us."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


def _prepare(connection: psycopg.Connection[Any], _: object) -> None:
    connection.adapters.register_dumper(str, _Text)
