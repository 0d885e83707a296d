"""The `Database` interface, how to open a database, and a database that is opened on first use.

Imports SQLAlchemy only when a database is opened: many commands never do.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from palaver.storage.paths import MEMORY_URL, redact_url

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.notifications import ChangeHandler, NotificationHandler
    from palaver.storage.redaction import StorageRedactor


P = ParamSpec("P")
T = TypeVar("T")


class Database(Protocol):
    """A database that runs repository functions off the event loop, each in its own transaction."""

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]: ...

    @property
    def path(self) -> Path | None:
        """The database file; None for a server or in memory."""
        ...

    async def read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that only reads."""
        ...

    async def write(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that writes; returns once its changes are durable."""
        ...

    @property
    def receives_notifications(self) -> bool:
        """Whether notifications of other processes arrive. Otherwise the caller has to poll."""
        ...

    async def listen(self, handler: "NotificationHandler") -> None:
        """Call the handler, on this event loop, with every notification of other processes."""
        ...

    async def watch(self, handler: "ChangeHandler") -> None:
        """Call the handler, on this event loop, with the durable changes of this process."""
        ...

    def set_redactor(self, redactor: "StorageRedactor") -> None:
        """Redact content that is written from now on."""
        ...

    async def close(self) -> None:
        """Finish pending work and close the database."""
        ...


def open_database(url: str) -> Database:
    """Open the database at a URL or path, and upgrade its schema first. Raises SettingsError."""
    from palaver.storage.sqlite import SqliteDatabase

    if url in (MEMORY_URL, "sqlite:///:memory:"):
        return SqliteDatabase.in_memory()
    if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        from palaver.storage.postgres import PostgresDatabase

        return PostgresDatabase.open_url(url)
    return SqliteDatabase.open_file(sqlite_path(url))


def sqlite_path(url: str) -> Path:
    """Return the path in a SQLite URL or a plain path. Raises SettingsError."""
    from palaver.errors import SettingsError

    scheme, colon, path = url.partition("://")
    if url == ":memory:":  # SQLAlchemy would open a database in memory, although we treat it as a file.
        raise SettingsError("Unsupported database ':memory:'. Use sqlite:// for an in-memory database.")
    if not colon:
        return Path(url).expanduser()
    if scheme != "sqlite" or not path.startswith("/") or len(path) < 2:
        raise SettingsError(
            f"Unsupported database URL {redact_url(url)!r}. Use a path, sqlite:///path or postgresql://host/name."
        )
    return Path(path[1:]).expanduser()


def printable_location(url: str) -> str:
    """Return the absolute path of a SQLite database, or a URL without its password, for messages."""
    return redact_url(url) if url.startswith("postgres") else str(sqlite_path(url).absolute())


class LazyDatabase:
    """A database that is opened on first use, in a thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening: asyncio.Task[Database] | None = None
        self._redactor: StorageRedactor | None = None

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        return "postgresql" if self._url.startswith("postgres") else "sqlite"

    @property
    def path(self) -> Path | None:
        return None if self.kind == "postgresql" or self._url == MEMORY_URL else sqlite_path(self._url)

    async def read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        return await (await self.open()).read(work, *args, **kwargs)

    async def write(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        return await (await self.open()).write(work, *args, **kwargs)

    @property
    def receives_notifications(self) -> bool:
        opening = self._opening
        is_open = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        return is_open and opening is not None and opening.result().receives_notifications

    async def listen(self, handler: "NotificationHandler") -> None:
        await (await self.open()).listen(handler)

    async def watch(self, handler: "ChangeHandler") -> None:
        await (await self.open()).watch(handler)

    def set_redactor(self, redactor: "StorageRedactor") -> None:
        """Redact content that is written. Must be called before the database is opened."""
        self._redactor = redactor

    async def open(self) -> "Database":
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(asyncio.to_thread(_open, self._url, self._redactor))
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        if self._opening is not None:
            await (await self.open()).close()


def _open(url: str, redactor: "StorageRedactor | None") -> "Database":
    database = open_database(url)
    if redactor is not None:
        database.set_redactor(redactor)
    return database
