"""Sweeping: what an import brought that was never committed, and what is left of sets that were erased."""

import asyncio
from datetime import datetime

from palaver.storage.database import Database
from palaver.storage.testsets import imports as testset_imports
from palaver.storage.testsets.imports import Import, Swept


async def sweep(database: Database, own: Import) -> None:
    """Erase all of it, a piece at a time. What was committed meanwhile stays."""
    so_far: Swept | None = testset_imports.START
    while so_far is not None:
        so_far = await database.write(testset_imports.sweep_some, own, so_far)
        await asyncio.sleep(0)  # Others want to write, too.


async def sweep_dead(database: Database, now: datetime) -> None:
    """The same for all imports whose makers are gone."""
    while (dead := await database.write(testset_imports.dead, now)) is not None:
        await sweep(database, dead)
