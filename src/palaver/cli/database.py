"""The option --db, and the database that it means: the same for every command that touches stored things."""

import os
import re
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.server.settings import read_settings

if TYPE_CHECKING:
    from palaver.storage.database import Database

_PASSWORD = re.compile(r"(://[^/?#@:]*):[^/?#]*(?=@)|([?&]password=)[^&#]*")


def database_url(db: str | None) -> str:
    """The database that is meant: by the option, else by PALAVER_DB, else by palaver.toml, else this user's own."""
    settings, _ = read_settings(flags={"db": db}, env=os.environ, folder=Path.cwd())
    if settings.db:
        return settings.db
    from palaver.storage.paths import default_path

    return str(default_path())


def open_configured_database(db: str | None) -> "Database":
    """That database, brought up to date; whoever opens it closes it. A SettingsError says what cannot be."""
    from palaver.storage.database import open_database  # Late: --help must not wait for SQLAlchemy.

    return open_database(database_url(db))


@asynccontextmanager
async def use_database(db: str | None) -> AsyncGenerator["Database"]:
    """The same, for as long as the block takes."""
    database = open_configured_database(db)
    try:
        yield database
    finally:
        await database.close()


def sqlite_path(url: str) -> Path | None:
    """The file that a database is in; None: a server has it."""
    from palaver.storage.database import sqlite_path

    return None if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")) else sqlite_path(url)


def postgres_command(*words: str) -> str:
    """A line for a shell, as PostgreSQL's programs take it; passwords of URLs are left out."""
    return " ".join(shlex.quote(_PASSWORD.sub(r"\1\2", word).replace("+psycopg://", "://")) for word in words)
