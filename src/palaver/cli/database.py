"""The database that --db selects, for every command that uses stored data."""

import asyncio
import os
import re
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from palaver.core.ids import sortable_id
from palaver.errors import PalaverError, SettingsError
from palaver.server.settings import Settings, read_settings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.database import Database
    from palaver.storage.pagination import Page

P = ParamSpec("P")
T = TypeVar("T")
RowT = TypeVar("RowT")
_PAGE_ROWS = 200
_PASSWORD = re.compile(r"(://[^/?#@:]*):[^/?#]*(?=@)|([?&]password=)[^&#]*")


def database_url(db: str | None) -> str:
    """Return the database URL from the option, PALAVER_DB, palaver.toml, or the user's data folder."""
    settings, _ = read_settings(flags={"db": db}, env=os.environ, folder=Path.cwd())
    return configured_url(settings)


def configured_url(settings: Settings) -> str:
    """Return the URL in the settings, or the user's data folder. Raises SettingsError for an unsupported URL."""
    from palaver.storage.paths import default_path

    if not settings.db:
        return str(default_path())
    check_database_url(settings.db)
    return settings.db


def check_database_url(url: str) -> None:
    """Raise SettingsError for an unsupported URL, without opening the database."""
    from palaver.storage.paths import MEMORY_URL

    if url not in (MEMORY_URL, "sqlite:///:memory:") and sqlite_path(url) is None:
        from palaver.storage.postgres import create_postgres_engine

        create_postgres_engine(url).dispose()


@contextmanager
def database_failures() -> Generator[None]:
    """Re-raise SettingsErrors about the state of a database as failures, which exit with 1 instead of 2."""
    try:
        yield
    except SettingsError as error:
        raise PalaverError(error.message) from error


def open_configured_database(db: str | None) -> "Database":
    """Open the database and migrate it; the caller closes it."""
    from palaver.storage.database import open_database  # Imported late: --help must not wait for SQLAlchemy.

    url = database_url(db)
    with database_failures():
        return open_database(url)


@asynccontextmanager
async def use_database(db: str | None) -> AsyncGenerator["Database"]:
    """Open the database, and close it at the end of the block."""
    database = open_configured_database(db)
    try:
        yield database
    finally:
        await database.close()


def read_database(
    db: str | None, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs
) -> T:
    """Open the database, run a function that only reads, and close it."""
    return asyncio.run(_with_database(db, lambda database: database.read(work, *args, **kwargs)))


def write_database(
    db: str | None, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs
) -> T:
    """Open the database, run a function that writes, in one transaction, and close it."""
    return asyncio.run(_with_database(db, lambda database: database.write(work, *args, **kwargs)))


async def _with_database(db: str | None, query: "Callable[[Database], Awaitable[T]]") -> T:
    async with use_database(db) as database:
        return await query(database)


def load_all_pages(db: str | None, query: "Callable[..., Page[RowT]]", *args: object, **kwargs: Any) -> list[RowT]:
    """Return the rows of all pages of a query that takes a `window`."""

    async def load() -> list[RowT]:
        async with use_database(db) as database:
            return [row async for page in iterate_pages(database, query, *args, **kwargs) for row in page]

    return asyncio.run(load())


async def iterate_pages(
    database: "Database", query: "Callable[..., Page[RowT]]", *args: object, page_rows: int = _PAGE_ROWS, **kwargs: Any
) -> AsyncIterator[list[RowT]]:
    from palaver.storage.pagination import Window

    after: str | None = None
    while True:
        page = await database.read(query, *args, window=Window(page_rows, after), **kwargs)
        yield page.data
        after = page.next
        if after is None:
            return


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    from palaver.storage.database import sqlite_path

    return None if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")) else sqlite_path(url)


def postgres_command(*arguments: str) -> str:
    """Return a shell command for a PostgreSQL program, without passwords in URLs."""
    return " ".join(
        shlex.quote(_PASSWORD.sub(r"\1\2", argument).replace("+psycopg://", "://")) for argument in arguments
    )


def new_id(prefix: str) -> str:
    """Return an id for a new row; ids sort by time."""
    return f"{prefix}_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"
