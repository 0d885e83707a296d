"""One run at a time in a conversation: what becomes of a second one, its workflow says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from palaver.engine.run_reader import RunReader
from palaver.errors import ConversationLocked, RateLimited, RunNotFound
from palaver.storage.database import Database
from palaver.storage.threads import repository as threads
from palaver.workflows.options import TurnPolicy

_LOOK = 0.05
"""Seconds until a turn that waits looks again."""


class Turns:
    """Whose turn it is, in every conversation of a database."""

    def __init__(self, database: Database, records: RunReader, *, most_queued: int, seconds: float) -> None:
        self._database = database
        self._records = records
        self._most_queued = most_queued
        self._seconds = seconds
        self._waiting: dict[tuple[str, str], int] = {}

    @asynccontextmanager
    async def taken(self, project: str, thread: str, run: str, policy: TurnPolicy) -> AsyncGenerator[None]:
        """Let that run answer in the thread. Its end releases it; so does a block that does not come to start it."""
        await self._take(project, thread, run, policy)
        try:
            yield
        except BaseException:
            await asyncio.shield(self._database.write(threads.release_thread, project, thread, run))
            raise

    async def _take(self, project: str, thread: str, run: str, policy: TurnPolicy) -> None:
        if await self._database.write(threads.claim_thread, project, thread, run):
            return
        match policy:
            case "reject":
                raise ConversationLocked(f"Another turn runs in the conversation {thread!r}: wait until it has ended.")
            case "interrupt":
                await self._interrupt(project, thread, run)
            case "queue":
                await self._queue(project, thread, run)

    async def _interrupt(self, project: str, thread: str, run: str) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                while not await self._database.write(threads.claim_thread, project, thread, run):
                    found = await self._database.read(threads.require_thread, project, thread)
                    if found.run is not None:
                        await self._cancel(project, found.run)
        except TimeoutError:
            raise ConversationLocked(f"The turn before this one in {thread!r} does not end.") from None

    async def _cancel(self, project: str, run: str) -> None:
        try:
            await self._records.cancel(project, run)
        except RunNotFound:
            await asyncio.sleep(_LOOK)  # It is about to begin.

    async def _queue(self, project: str, thread: str, run: str) -> None:
        place = project, thread
        if self._waiting.get(place, 0) >= self._most_queued:
            raise RateLimited(f"{self._most_queued} turns wait in the conversation {thread!r} already.", retry_after=1)
        self._waiting[place] = self._waiting.get(place, 0) + 1
        try:
            async with asyncio.timeout(self._seconds):
                while not await self._database.write(threads.claim_thread, project, thread, run):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            raise ConversationLocked(f"The turns before this one in {thread!r} have not ended.") from None
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
