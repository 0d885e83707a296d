"""PostgreSQL: a connection pool used from threads, and a listener for notifications."""

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
"""After this time without a notification the listener checks its connection."""
_MAX_RECONNECT_DELAY_S = 5.0

ListenConnection = psycopg.Connection[tuple[Any, ...]]


class NotificationListener:
    """Listens for notifications on a separate connection, in a thread. Reconnects when the connection is lost."""

    def __init__(self, connect: Callable[[], ListenConnection]) -> None:
        self._connect = connect
        self._handlers: list[tuple[asyncio.AbstractEventLoop, NotificationHandler]] = []
        self._stopped = threading.Event()
        self._is_connected = threading.Event()
        self._wake_receiver, self._wake_sender = socket.socketpair()  # Lets `close` wake the thread.
        self._thread = threading.Thread(target=self._run, name="palaver-listen", daemon=True)

    @property
    def receives_notifications(self) -> bool:
        """Whether the connection is established."""
        return self._is_connected.is_set()

    async def listen(self, handler: NotificationHandler) -> None:
        """Call the handler, on this event loop, with every notification. Waits for the first connection."""
        self._handlers.append((asyncio.get_running_loop(), handler))
        if not self._thread.is_alive() and not self._stopped.is_set():
            self._thread.start()
            await asyncio.to_thread(self._is_connected.wait, CONNECT_TIMEOUT_S)

    def close(self) -> None:
        self._stopped.set()
        self._wake_sender.send(b"x")
        if self._thread.is_alive():
            self._thread.join()
        self._wake_receiver.close()
        self._wake_sender.close()

    # The listener thread

    def _run(self) -> None:
        delay_s, is_first = 0.1, True
        while not self._stopped.is_set():
            try:
                with self._open() as connection, selectors.DefaultSelector() as selector:
                    selector.register(connection.pgconn.socket, selectors.EVENT_READ)
                    selector.register(self._wake_receiver, selectors.EVENT_READ)
                    self._is_connected.set()
                    if not is_first:
                        self._dispatch(Notification("missed", ()))
                    delay_s, is_first = 0.1, False
                    while not self._stopped.is_set():
                        self._wait(connection, selector)
            except (psycopg.Error, OSError) as error:
                if self._is_connected.is_set():
                    log.info("Lost the notification connection to the database; reconnecting: %s", str(error).strip())
            finally:
                self._is_connected.clear()
            self._stopped.wait(delay_s)
            delay_s = min(delay_s * 2, _MAX_RECONNECT_DELAY_S)

    def _open(self) -> ListenConnection:
        connection = self._connect()
        try:
            # A suspended process or a dead network must not fill the server's notification queue.
            connection.execute("SET tcp_user_timeout = 60000")
            connection.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _wait(self, connection: ListenConnection, selector: selectors.BaseSelector) -> None:
        if not selector.select(_IDLE_CHECK_S):
            connection.execute("SELECT 1")
        names_by_kind: dict[NotificationKind, dict[str, None]] = {}
        for message in connection.notifies(timeout=0):
            if (notification := parse_notification(message.payload)) is not None:
                names_by_kind.setdefault(notification.kind, {}).update(dict.fromkeys(notification.names))
        for kind, names in names_by_kind.items():
            self._dispatch(Notification(kind, list(names)))

    def _dispatch(self, notification: Notification) -> None:
        for loop, handler in self._handlers:
            with suppress(RuntimeError):  # The event loop is closed.
                loop.call_soon_threadsafe(handler, notification)


P = ParamSpec("P")
T = TypeVar("T")

_POOL_SIZE = 8
_MAX_TRIES = 5
"""Attempts of a transaction that fails to serialize."""


class PostgresDatabase:
    kind: Literal["postgresql"] = "postgresql"
    path = None

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self._listener: NotificationListener | None = None
        self._watchers = ChangeWatchers()
        self._redactor: StorageRedactor | None = None
        self._threads = ThreadPoolExecutor(_POOL_SIZE, thread_name_prefix="palaver-database")

    @classmethod
    def open_url(cls, url: str) -> "PostgresDatabase":
        """Connect to an existing database and upgrade its schema."""
        engine = create_postgres_engine(url)
        upgrade.ensure_server_current(engine, redact_url(url))
        return cls(engine)

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(work, *args, **kwargs)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise Overloaded("The database is closed because the server is shutting down.")
        execute = partial(self._execute, work, args, kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, execute)

    @property
    def receives_notifications(self) -> bool:
        return self._listener is not None and self._listener.receives_notifications

    async def listen(self, handler: NotificationHandler) -> None:
        if self._listener is None:
            self._listener = NotificationListener(self._connect_listener)
        await self._listener.listen(handler)

    async def watch(self, handler: ChangeHandler) -> None:
        self._watchers.add(handler)

    def set_redactor(self, redactor: StorageRedactor) -> None:
        self._redactor = redactor

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._listener is not None:
                await asyncio.to_thread(self._listener.close)
            await asyncio.to_thread(self._threads.shutdown)
            self._engine.dispose()

    def _connect_listener(self) -> ListenConnection:
        """Open a connection outside the pool for the listener."""
        args, kwargs = self._engine.dialect.create_connect_args(self._engine.url)
        options = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "palaver listening"}
        return psycopg.connect(*args, **{**kwargs, **options}, autocommit=True)

    def _execute(self, work: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        for retries_left in range(_MAX_TRIES - 1, -1, -1):
            try:
                with self._engine.begin() as connection:
                    changes = collect_changes(connection) if self._watchers else []
                    if self._redactor is not None:
                        redaction.attach_redactor(connection, self._redactor)
                    result = work(connection, *args, **kwargs)
            except Exception as error:
                if retries_left and is_serialization_failure(error):
                    continue
                raise translate_error(error) or error from None
            if changes:
                self._watchers.notify(changes)
            return result
        raise AssertionError


def create_postgres_engine(url: str) -> Engine:
    """Create the SQLAlchemy engine for a URL. Raises SettingsError for an invalid one."""
    try:
        location = make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise SettingsError(
            f"Invalid database URL {redact_url(url)!r}. Expected postgresql://user@host/name."
        ) from None
    engine = create_engine(
        location,
        pool_size=_POOL_SIZE,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT_S,
        pool_pre_ping=True,
        hide_parameters=True,  # Keeps content out of the log.
        connect_args={"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "palaver"},
    )
    event.listen(engine, "connect", _prepare_connection)
    return engine


class _NulFreeText(StrDumperUnknown):
    """Replaces NUL, which PostgreSQL refuses in text."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


def _prepare_connection(connection: psycopg.Connection[Any], _: object) -> None:
    connection.adapters.register_dumper(str, _NulFreeText)
