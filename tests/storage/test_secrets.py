"""Server secrets are created once and shared by all processes."""

import asyncio
from datetime import UTC, datetime

from palaver.storage import api_keys
from palaver.storage.database import Database, open_database

AT = datetime(2026, 11, 15, tzinfo=UTC)


async def test_secret_is_created_once_per_name(database: Database) -> None:
    first = await database.write(api_keys.get_or_create_secret, "redaction", AT)
    other = await database.write(api_keys.get_or_create_secret, "else", AT)

    assert len(first) == 32
    assert await database.write(api_keys.get_or_create_secret, "redaction", AT) == first
    assert other != first


async def test_concurrent_processes_get_the_same_secret(postgres_url: str) -> None:
    databases = [open_database(postgres_url), open_database(postgres_url)]
    calls = [one.write(api_keys.get_or_create_secret, "redaction", AT) for one in databases for _ in range(8)]

    assert len(set(await asyncio.gather(*calls))) == 1
    for one in databases:
        await one.close()
