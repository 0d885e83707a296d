"""Serialize the turns of a conversation: reject, queue or interrupt a turn while another one runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

from palaver.engine.poller import poll_until
from palaver.engine.run_reader import RunReader
from palaver.errors import (
    ConversationLocked,
    RateLimited,
    RunNotFound,
)
from palaver.storage.database import Database
from palaver.storage.threads import repository as threads
from palaver.workflows.workflow import TurnPolicy

Noun = Literal["thread", "conversation"]
"""What messages call a thread: the Responses protocol knows it as a conversation."""
_POLL_INTERVAL_S = 0.05


class TurnLock:
    """Serializes runs per thread, by the workflow's `turns` policy."""

    def __init__(self, database: Database, run_reader: RunReader, *, max_queued: int, timeout_s: float) -> None:
        self._database = database
        self._run_reader = run_reader
        self._max_queued = max_queued
        self._timeout_s = timeout_s
        self._queued_count: dict[tuple[str, str], int] = {}

    @asynccontextmanager
    async def hold(
        self, project: str, thread: str, run: str, policy: TurnPolicy, *, noun: Noun = "thread"
    ) -> AsyncGenerator[None]:
        """Lock the thread for a run. The end of the run releases it; so does an exception in the block."""
        await self._acquire(project, thread, run, policy, noun)
        try:
            yield
        except BaseException:
            await asyncio.shield(self._database.write(threads.release_thread, project, thread, run))
            raise

    async def _acquire(self, project: str, thread: str, run: str, policy: TurnPolicy, noun: Noun) -> None:
        if await self._database.write(threads.claim_thread, project, thread, run):
            return
        match policy:
            case "reject":
                raise ConversationLocked(
                    f"{noun.capitalize()} {thread!r} already has a run in progress. Wait for it to finish."
                )
            case "interrupt":
                await self._interrupt(project, thread, run, noun)
            case "queue":
                await self._queue(project, thread, run, noun)

    async def _interrupt(self, project: str, thread: str, run: str, noun: Noun) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                while not await self._database.write(threads.claim_thread, project, thread, run):
                    locked_thread = await self._database.read(threads.require_thread, project, thread)
                    if locked_thread.run is not None:
                        await self._cancel(project, locked_thread.run)
        except TimeoutError:
            raise ConversationLocked(
                f"Timed out waiting for the run in progress in {noun} {thread!r} to stop."
            ) from None

    async def _cancel(self, project: str, run: str) -> None:
        try:
            await self._run_reader.cancel(project, run)
        except RunNotFound:
            await asyncio.sleep(_POLL_INTERVAL_S)  # It is about to start.

    async def _try_lock(self, project: str, thread: str, run: str) -> bool | None:
        return await self._database.write(threads.claim_thread, project, thread, run) or None

    async def _queue(self, project: str, thread: str, run: str, noun: Noun) -> None:
        key = project, thread
        if self._queued_count.get(key, 0) >= self._max_queued:
            message = f"Too many queued turns in {noun} {thread!r} (limit: {self._max_queued}). Try again later."
            raise RateLimited(message, retry_after=1)
        self._queued_count[key] = self._queued_count.get(key, 0) + 1
        try:
            await poll_until(partial(self._try_lock, project, thread, run), timeout_s=self._timeout_s)
        except TimeoutError:
            raise ConversationLocked(f"Timed out waiting for earlier turns in {noun} {thread!r} to finish.") from None
        finally:
            self._queued_count[key] -= 1
            if not self._queued_count[key]:
                del self._queued_count[key]
