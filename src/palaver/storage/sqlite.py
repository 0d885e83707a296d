"""SQLite: one writer thread with group commit, and several reader threads.

Jobs that wait at the same time share a transaction, since a commit costs more than its content. If one of them fails,
the transaction is rolled back and each job runs separately, so that no job fails because of another.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event

from palaver.errors import Overloaded, SettingsError
from palaver.storage import redaction
from palaver.storage.driver_errors import translate_error
from palaver.storage.migrations import upgrade
from palaver.storage.notifications import Change, ChangeHandler, ChangeWatchers, NotificationHandler, collect_changes
from palaver.storage.redaction import StorageRedactor
from palaver.storage.tables import metadata

P = ParamSpec("P")
T = TypeVar("T")

_MAX_GROUP = 256
"""Maximum number of jobs per transaction."""
_READER_THREADS = 4
BUSY_TIMEOUT_S = 5
"""How long to wait for a lock of another process."""


class _Job(NamedTuple):
    work: Callable[[Connection], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class SqliteDatabase:
    """A SQLite database in a file or in memory."""

    kind: Literal["sqlite"] = "sqlite"
    receives_notifications = False

    def __init__(self, path: Path | None, engine: Engine) -> None:
        self.path = path
        self._engine = engine
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._watchers = ChangeWatchers()
        self._redactor: StorageRedactor | None = None
        self._readers = (
            ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="palaver-read") if path is not None else None
        )  # An in-memory database belongs to one connection, hence to one thread.
        self._writer = threading.Thread(target=self._write_loop, name="palaver-write", daemon=True)
        self._writer.start()

    @classmethod
    def open_file(cls, path: Path) -> "SqliteDatabase":
        """Open a file, created if needed with mode 0600, and upgrade its schema."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise SettingsError(f"Cannot open the database {path}: {error.strerror}.") from None
        upgrade.ensure_file_current(path)
        url = URL.create("sqlite", database=str(path))
        engine = create_engine(url, pool_size=_READER_THREADS + 1, max_overflow=0, hide_parameters=True)
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "begin", _begin_transaction)
        return cls(path, engine)

    @classmethod
    def in_memory(cls) -> "SqliteDatabase":
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, hide_parameters=True, connect_args={"check_same_thread": False}
        )
        event.listen(engine, "connect", _prepare_memory)
        event.listen(engine, "begin", _begin_transaction)
        return cls(None, engine)

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._readers is None:
            return await self.write(work, *args, **kwargs)
        if self._closed:
            raise _closed_error()
        job = partial(self._read, partial(_call, work, args, kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._readers, job)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise _closed_error()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(partial(_call, work, args, kwargs), future, loop))
        return await future

    async def listen(self, handler: NotificationHandler) -> None:
        """Do nothing: SQLite has no notifications, so callers poll."""

    async def watch(self, handler: ChangeHandler) -> None:
        self._watchers.add(handler)

    def set_redactor(self, redactor: StorageRedactor) -> None:
        self._redactor = redactor

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.join()
        if self._readers is not None:
            self._readers.shutdown()
        self._engine.dispose()

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(reads=True)
                if self._redactor is not None:
                    redaction.attach_redactor(connection, self._redactor)
                return work(connection)
        except Exception as error:
            raise translate_error(error) or error from None

    # The writer thread

    def _write_loop(self) -> None:
        is_closing = False
        while not is_closing:
            group = [self._jobs.get()]
            while len(group) < _MAX_GROUP and not self._jobs.empty():
                group.append(self._jobs.get())
            is_closing = None in group
            self._write([job for job in group if job is not None])
            group.clear()  # Release the jobs while waiting for more.

    def _write(self, group: list[_Job]) -> None:
        changes: list[Change] = []
        try:
            with self._engine.begin() as connection:
                if self._watchers:
                    changes = collect_changes(connection)
                if self._redactor is not None:
                    redaction.attach_redactor(connection, self._redactor)
                results: _Results = [(job, job.work(connection), None) for job in group]
        except Exception as error:
            translated = translate_error(error)
            # If overloaded, no job is at fault, and each would wait again.
            if len(group) > 1 and not isinstance(translated, Overloaded):
                for job in group:
                    self._write([job])
                return
            results, changes = [(job, None, translated or error) for job in group], []
        if results:
            _resolve_all(results)
        if changes:
            self._watchers.notify(changes)


def _call(work: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any], connection: Connection) -> T:
    return work(connection, *args, **kwargs)


def _closed_error() -> Overloaded:
    return Overloaded("The database is closed because the server is shutting down.")


_Results = list[tuple[_Job, Any, BaseException | None]]


def _resolve_all(results: _Results) -> None:
    """Resolve the futures, with one call into each event loop."""
    for loop in {job.loop for job, _, _ in results}:
        loop_results = [result for result in results if result[0].loop is loop]
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, loop_results)


def _resolve(results: _Results) -> None:
    for job, value, error in results:
        if job.future.done():
            continue  # The caller was cancelled.
        if error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)


# Connections


def _prepare_file(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # Transactions start explicitly.
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = FAST")


_memory_template: list[bytes] = []
"""A serialized empty database: creating the tables takes as long as a hundred runs."""


def _prepare_memory(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None
    if not _memory_template:
        engine = create_engine("sqlite://", poolclass=StaticPool)
        metadata.create_all(engine)
        with engine.connect() as template:
            _memory_template.append(template.connection.dbapi_connection.serialize())  # type: ignore[union-attr]
        engine.dispose()
    connection.deserialize(_memory_template[0])
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_transaction(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
