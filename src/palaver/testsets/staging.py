"""Staging: what rows hold is brought into the database before the revision that needs it, a batch at a time.

Nothing of it is visible, and if that revision never comes, it is swept: here at once, or by whoever tidies up after
a process that was killed.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

from sqlalchemy import Connection

from palaver.storage.database import Database
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.imports import Import
from palaver.storage.testsets.sweeping import sweep

BATCH = 1_000
"""Rows that are brought at once."""


class Staging:
    """One import into one set; a second one meanwhile is refused."""

    def __init__(self, database: Database, project: str, testset: str, now: Callable[[], datetime]) -> None:
        self._database = database
        self._project = project
        self._testset = testset
        self._now = now
        self.own: Import

    async def __aenter__(self) -> "Staging":
        """Begin."""
        dead = await self._database.write(testset_imports.dead, self._now(), self._testset)
        if dead is not None:
            await sweep(self._database, dead)
        self.own = await self._database.write(testset_imports.begin, self._project, self._testset, self._now())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sweep what was brought, unless a revision has it now."""
        sweeping = asyncio.ensure_future(sweep(self._database, self.own))
        await asyncio.shield(sweeping)  # Whoever waits may be gone: that is no reason to leave it.

    async def put(self, contents: Mapping[bytes, bytes], metas: Mapping[bytes, Any]) -> None:
        """Bring some more."""
        await self._database.write(_put, self.own, contents, metas, self._now())


def _put(
    db: Connection, own: Import, contents: Mapping[bytes, bytes], metas: Mapping[bytes, Any], at: datetime
) -> None:
    testset_imports.stay(db, own, at)
    testset_rows.add(db, own.project, own.testset, contents, added=own.number)
    testset_rows.add_metas(db, own.project, own.testset, metas, added=own.number)
