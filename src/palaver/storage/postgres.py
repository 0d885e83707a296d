"""PostgreSQL: a pool of connections used from threads, and a listener for NOTIFY."""

import asyncio
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from palaver.errors import Overloaded, SettingsError
from palaver.storage import redaction
from palaver.storage.driver_errors import is_serialization_failure, translate_error
from palaver.storage.migrations import upgrade
from palaver.storage.notifications import (
    CHANNEL,
    ChangeHandler,
    ChangeWatchers,
    Notification,
    NotificationHandler,
    NotificationKind,
    collect_changes,
    parse_notification,
)
from palaver.storage.paths import redact_url
from palaver.storage.redaction import StorageRedactor

log = logging.getLogger("palaver.server")

CONNECT_TIMEOUT_S = 5
_IDLE_CHECK_S = 20
"""After so long without a notice a listener asks whether anybody is there."""
_MAX_RECONNECT_DELAY_S = 5.0

ListenConnection = psycopg.Connection[tuple[Any, ...]]


class NotificationListener:
    """A connection that does nothing but listen, in a thread of its own. One that is lost is made anew."""

    def __init__(self, connect: Callable[[], ListenConnection]) -> None:
        self._connect = connect
        self._heard: list[tuple[asyncio.AbstractEventLoop, NotificationHandler]] = []
        self._stopped = threading.Event()
        self._there = threading.Event()
        self._alarm, self._bell = socket.socketpair()  # To be woken by `close` while nothing comes.
        self._thread = threading.Thread(target=self._listen_on, name="palaver-listen", daemon=True)

    @property
    def receives_notifications(self) -> bool:
        """Does it hear what is told at this moment, as far as it knows?"""
        return self._there.is_set()

    async def listen(self, heard: NotificationHandler) -> None:
        """Call that, in this loop, with every notice from now on: from this on, if the server is there."""
        self._heard.append((asyncio.get_running_loop(), heard))
        if not self._thread.is_alive() and not self._stopped.is_set():
            self._thread.start()
            await asyncio.to_thread(self._there.wait, CONNECT_TIMEOUT_S)

    def close(self) -> None:
        """Stop, and wait for it."""
        self._stopped.set()
        self._bell.send(b"x")
        if self._thread.is_alive():
            self._thread.join()
        self._alarm.close()
        self._bell.close()

    # Its thread

    def _listen_on(self) -> None:
        pause, first = 0.1, True
        while not self._stopped.is_set():
            try:
                with self._connected() as line, selectors.DefaultSelector() as ready:
                    ready.register(line.pgconn.socket, selectors.EVENT_READ)
                    ready.register(self._alarm, selectors.EVENT_READ)
                    self._there.set()
                    if not first:
                        self._hand_on(Notification("missed", ()))
                    pause, first = 0.1, False
                    while not self._stopped.is_set():
                        self._wait(line, ready)
            except (psycopg.Error, OSError) as error:
                if self._there.is_set():
                    log.info("Notices of other processes are not heard for the moment: %s", str(error).strip())
            finally:
                self._there.clear()
            self._stopped.wait(pause)
            pause = min(pause * 2, _MAX_RECONNECT_DELAY_S)

    def _connected(self) -> ListenConnection:
        line = self._connect()
        try:
            # A process that is stopped, or a network that swallows everything, must not fill the server's queue.
            line.execute("SET tcp_user_timeout = 60000")
            line.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            line.close()
            raise
        return line

    def _wait(self, line: ListenConnection, ready: selectors.BaseSelector) -> None:
        if not ready.select(_IDLE_CHECK_S):
            line.execute("SELECT 1")
        told: dict[NotificationKind, dict[str, None]] = {}
        for one in line.notifies(timeout=0):
            if (notice := parse_notification(one.payload)) is not None:
                told.setdefault(notice.kind, {}).update(dict.fromkeys(notice.names))
        for kind, names in told.items():
            self._hand_on(Notification(kind, list(names)))

    def _hand_on(self, notice: Notification) -> None:
        for loop, heard in self._heard:
            with suppress(RuntimeError):  # That loop is closed.
                loop.call_soon_threadsafe(heard, notice)


P = ParamSpec("P")
T = TypeVar("T")

_POOL_SIZE = 8
_MAX_TRIES = 5
"""How often two transactions may stand in each other's way."""


class PostgresDatabase:
    """A database on a server."""

    kind: Literal["postgresql"] = "postgresql"
    path = None

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self._listener: NotificationListener | None = None
        self._watchers = ChangeWatchers()
        self._cleaner: StorageRedactor | None = None
        self._threads = ThreadPoolExecutor(_POOL_SIZE, thread_name_prefix="palaver-database")

    @classmethod
    def open_url(cls, url: str) -> "PostgresDatabase":
        """The one at that URL, which must be there."""
        engine = create_postgres_engine(url)
        upgrade.ensure_server_current(engine, redact_url(url))
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
    def receives_notifications(self) -> bool:
        """Do notices of other processes reach this one?"""
        return self._listener is not None and self._listener.receives_notifications

    async def listen(self, heard: NotificationHandler) -> None:
        """Call that, in this loop, with every notice from now on."""
        if self._listener is None:
            self._listener = NotificationListener(self._line)
        await self._listener.listen(heard)

    async def watch(self, touched: ChangeHandler) -> None:
        """Call that, in this loop, with what our own writes change, once it is durable."""
        self._watchers.add(touched)

    def set_redactor(self, cleaner: StorageRedactor) -> None:
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

    def _line(self) -> ListenConnection:
        """A connection of its own for whoever listens: it is not to be had by anybody else."""
        places, named = self._engine.dialect.create_connect_args(self._engine.url)
        own = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "palaver listening"}
        return psycopg.connect(*places, **{**named, **own}, autocommit=True)

    def _ask(self, work: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        for left in range(_MAX_TRIES - 1, -1, -1):
            try:
                with self._engine.begin() as connection:
                    touched = collect_changes(connection) if self._watchers else []
                    if self._cleaner is not None:
                        redaction.attach_redactor(connection, self._cleaner)
                    result = work(connection, *args, **kwargs)
            except Exception as error:
                if left and is_serialization_failure(error):
                    continue
                raise translate_error(error) or error from None
            if touched:
                self._watchers.notify(touched)
            return result
        raise AssertionError


def create_postgres_engine(url: str) -> Engine:
    """A pool of connections to the server at a URL."""
    try:
        place = make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise SettingsError(f"No database at {redact_url(url)!r}: give postgresql://user@host/name.") from None
    engine = create_engine(
        place,
        pool_size=_POOL_SIZE,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT_S,
        pool_pre_ping=True,
        hide_parameters=True,  # What people said is not for our log.
        connect_args={"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "palaver"},
    )
    event.listen(engine, "connect", _prepare_connection)
    return engine


class _NulFreeText(StrDumperUnknown):
    """Text as this database can take it: without the one character that it refuses, which anybody may send us."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


def _prepare_connection(connection: psycopg.Connection[Any], _: object) -> None:
    connection.adapters.register_dumper(str, _NulFreeText)
