"""A server in process, with its database, a client without a credential, and a way to create keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from palaver.core.api_keys import ALL_SCOPES, Scope
from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage import api_keys as stored_keys
from palaver.storage.api_keys import ApiKey
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.testing import echo, in_process_transport, scripted


@dataclass
class KeyedServer:
    server: Server
    database: Database
    http: httpx.AsyncClient

    async def create_key(self, *scopes: Scope, project: str = "default", **more: Any) -> tuple[ApiKey, dict[str, str]]:
        """Create a key with these scopes (all by default); return it with its authorization header."""
        key_scopes = frozenset(scopes) or ALL_SCOPES
        key, secret = stored_keys.new_api_key(
            project=project, name="test", scopes=key_scopes, now=datetime.now(UTC), **more
        )
        await self.database.write(stored_keys.insert_key, key)
        self.server.authenticator.invalidate(key.id)
        return key, {"authorization": f"Bearer {secret}"}


@asynccontextmanager
async def keyed_server(url: str = MEMORY_URL, **options: Any) -> AsyncIterator[KeyedServer]:
    """A server of `echo` and `scripted`."""
    database = open_database(url)
    settings = Settings(**options)
    server = Server(Registry([echo, scripted]), settings, database=database)
    await server.rest_api.get()
    try:
        async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
            yield KeyedServer(server, database, http)
    finally:
        await server.close()
