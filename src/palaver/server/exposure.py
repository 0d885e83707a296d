"""Refuse to listen on a public address while there is no API key."""

import asyncio
import shlex

from palaver.engine.engine import utc_now
from palaver.errors import SettingsError
from palaver.server.settings import Settings
from palaver.storage import api_keys as stored_keys
from palaver.storage.database import MEMORY_URL, Database, printable_location
from palaver.storage.paths import default_path


def check_exposure(settings: Settings, *, has_key: bool, database: str) -> None:
    """Raise SettingsError for a public address without a key in `database`, the URL or path."""
    if settings.is_loopback or has_key:
        return
    refusal = f"Refusing to listen on {settings.host}: no valid API key found in"
    if database == MEMORY_URL:
        raise SettingsError(f"{refusal} the in-memory database. Use --host 127.0.0.1, or a database with a key (--db).")
    location = printable_location(database)
    argument = "…" if "***" in location else shlex.quote(location)
    raise SettingsError(f"{refusal} {location}. Run `palaver key create --db {argument}` or use --host 127.0.0.1.")


def require_key_if_exposed(settings: Settings, database: Database) -> None:
    """Raise SettingsError for a public address if the database has no valid key."""
    if not settings.is_loopback:
        has_key = asyncio.run(database.read(stored_keys.has_valid_key, utc_now()))
        check_exposure(settings, has_key=has_key, database=settings.db or str(default_path()))
