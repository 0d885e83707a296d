"""The database that --db selects, for every command that uses stored data."""

import os
import re
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from palaver.core.ids import sortable_id
from palaver.server.settings import read_settings

if TYPE_CHECKING:
    from palaver.storage.database import Database
    from palaver.storage.pagination import Page

RowT = TypeVar("RowT")
_PAGE_ROWS = 200
_PASSWORD = re.compile(r"(://[^/?#@:]*):[^/?#]*(?=@)|([?&]password=)[^&#]*")


def database_url(db: str | None) -> str:
    """Return the database URL from the option, PALAVER_DB, palaver.toml, or the user's data folder."""
    settings, _ = read_settings(flags={"db": db}, env=os.environ, folder=Path.cwd())
    if settings.db:
        return settings.db
    from palaver.storage.paths import default_path

    return str(default_path())


def open_configured_database(db: str | None) -> "Database":
    """Open the database and migrate it; the caller closes it. Raises SettingsError if it can't be opened."""
    from palaver.storage.database import open_database  # Imported late: --help must not wait for SQLAlchemy.

    return open_database(database_url(db))


@asynccontextmanager
async def use_database(db: str | None) -> AsyncGenerator["Database"]:
    """Open the database, and close it at the end of the block."""
    database = open_configured_database(db)
    try:
        yield database
    finally:
        await database.close()


async def load_all_pages(
    db: str | None, query: "Callable[..., Page[RowT]]", *args: object, **kwargs: Any
) -> list[RowT]:
    """Return the rows of all pages of a query that takes a `window`."""
    from palaver.storage.pagination import Window

    rows: list[RowT] = []
    after: str | None = None
    async with use_database(db) as database:
        while True:
            page = await database.read(query, *args, window=Window(_PAGE_ROWS, after), **kwargs)
            rows += page.data
            after = page.next
            if after is None:
                return rows


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
