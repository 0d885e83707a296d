"""Refuse to listen on a public address while there is no API key."""

import asyncio

from palaver.engine.engine import utc_now
from palaver.errors import SettingsError
from palaver.server.settings import Settings
from palaver.storage import api_keys as stored_keys
from palaver.storage.database import Database


def check_exposure(settings: Settings, *, has_key: bool) -> None:
    """Raise SettingsError for a public address without a key."""
    if not settings.is_loopback and not has_key:
        raise SettingsError(
            f"Others can reach {settings.host}, and there is no key to tell who they are:"
            " make one with palaver key create, or bind to 127.0.0.1."
        )


def require_key_if_exposed(settings: Settings, database: Database) -> None:
    """Raise SettingsError for a public address if the database has no valid key."""
    if not settings.is_loopback:
        check_exposure(settings, has_key=asyncio.run(database.read(stored_keys.has_valid_key, utc_now())))
