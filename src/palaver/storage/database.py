"""The `Database` interface, how to open one, and a database that is opened on first use."""

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
    """Where values are kept."""

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """Which engine it is."""
        ...

    @property
    def path(self) -> Path | None:
        """Its file, if it has one."""
        ...

    async def read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that only looks gives."""
        ...

    async def write(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that changes something gives, once it is durable."""
        ...

    @property
    def receives_notifications(self) -> bool:
        """Do notices of other processes reach this one? Else it has to look by itself."""
        ...

    async def listen(self, heard: "NotificationHandler") -> None:
        """Call that, in this loop, with every notice from now on; where there are none, never."""
        ...

    async def watch(self, touched: "ChangeHandler") -> None:
        """Call that, in this loop, with what our own writes change, once it is durable."""
        ...

    def set_redactor(self, cleaner: "StorageRedactor") -> None:
        """Keep no more of what people say from now on than that leaves of it."""
        ...

    async def close(self) -> None:
        """Finish what was asked, and let go of the database."""
        ...


def open_database(url: str) -> Database:
    """The database at a URL, or in a file; brought up to date first. A SettingsError says what cannot be."""
    from palaver.storage.sqlite import SqliteDatabase

    if url in (MEMORY_URL, "sqlite:///:memory:"):
        return SqliteDatabase.in_memory()
    if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        from palaver.storage.postgres import PostgresDatabase

        return PostgresDatabase.open_url(url)
    return SqliteDatabase.open_file(sqlite_path(url))


def sqlite_path(url: str) -> Path:
    """The file that a URL of SQLite's, or a plain path, names."""
    from palaver.errors import SettingsError

    scheme, colon, rest = url.partition("://")
    if not colon:
        return Path(url).expanduser()
    if scheme != "sqlite" or not rest.startswith("/") or len(rest) < 2:
        raise SettingsError(
            f"No database at {redact_url(url)!r}: give a path, sqlite:///path or postgresql://host/name."
        )
    return Path(rest[1:]).expanduser()


class LazyDatabase:
    """The database at a URL. Its libraries are imported, and it is opened, in a thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening: asyncio.Task[Database] | None = None
        self._closed = False
        self._cleaner: StorageRedactor | None = None

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """Which engine it is."""
        return "postgresql" if self._url.startswith("postgres") else "sqlite"

    @property
    def path(self) -> Path | None:
        """Its file, if it has one."""
        return None if self.kind == "postgresql" or self._url == MEMORY_URL else sqlite_path(self._url)

    async def read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that only looks gives."""
        return await (await self.open()).read(work, *args, **kwargs)

    async def write(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that changes something gives, once it is durable."""
        return await (await self.open()).write(work, *args, **kwargs)

    @property
    def receives_notifications(self) -> bool:
        """Do notices of other processes reach this one?"""
        opening = self._opening
        is_open = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        return is_open and opening is not None and opening.result().receives_notifications

    async def listen(self, heard: "NotificationHandler") -> None:
        """Call that, in this loop, with every notice from now on."""
        await (await self.open()).listen(heard)

    async def watch(self, touched: "ChangeHandler") -> None:
        """Call that, in this loop, with what our own writes change, once it is durable."""
        await (await self.open()).watch(touched)

    def set_redactor(self, cleaner: "StorageRedactor") -> None:
        """Keep no more of what people say than that leaves of it: to be said before anybody asks."""
        self._cleaner = cleaner

    async def open(self) -> "Database":
        """The database itself."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(asyncio.to_thread(_open, self._url, self._cleaner))
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Let go of it, if it was ever opened."""
        if self._opening is not None:
            await (await self.open()).close()


def _open(url: str, cleaner: "StorageRedactor | None") -> "Database":
    database = open_database(url)
    if cleaner is not None:
        database.set_redactor(cleaner)
    return database
