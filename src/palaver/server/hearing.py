"""What other processes on the same database tell this one, handed to those whom it concerns."""

import asyncio
import logging
from typing import assert_never

from palaver.engine.engine import Engine
from palaver.engine.heartbeat import Heartbeat
from palaver.engine.queue import RunQueue
from palaver.engine.run_reader import RunReader
from palaver.errors import PalaverError
from palaver.evaluation.running.runner import Runner
from palaver.server.callers import Callers
from palaver.server.changes import Changes
from palaver.server.connected import Connected
from palaver.storage.notifications import Notification

log = logging.getLogger("palaver.server")


class Hearing:
    """Wakes whoever waits for something that happens elsewhere."""

    def __init__(
        self,
        engine: Engine,
        records: RunReader,
        presence: Heartbeat,
        backlog: RunQueue,
        callers: Callers,
        connected: Connected,
        changes: Changes,
        runner: Runner,
    ) -> None:
        self._engine = engine
        self._records = records
        self._presence = presence
        self._backlog = backlog
        self._callers = callers
        self._connected = connected
        self._changes = changes
        self._runner = runner
        self._answering: set[asyncio.Task[None]] = set()

    def heard(self, notice: Notification) -> None:
        """One notice, in our loop."""
        match notice.kind:
            case "grew":
                self._records.watching.grew(notice.names)
            case "followed":
                self._follow(notice)
            case "cancel":
                self._follow(notice)  # Whoever asks for its end waits for it.
                self._runner.heed()
            case "waiting":
                self._backlog.wake()
                self._runner.wake()
            case "key":
                self._callers.changed(*notice.names)
            case "connection":
                self._connected.changed()
            case "changed":
                self._changes.heard(notice.names)
            case "missed":
                self._records.watching.missed()
                self._presence.asked()
                self._backlog.wake()
                self._runner.wake()
                self._callers.changed_all()
                self._connected.changed()
            case _:
                assert_never(notice.kind)

    async def end(self) -> None:
        """Wait for what is still being told."""
        await asyncio.gather(*self._answering)

    def _follow(self, notice: Notification) -> None:
        if any(self._engine.find(name) is not None for name in notice.names):
            task = asyncio.get_running_loop().create_task(self._answer(notice))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            if notice.kind == "cancel":
                self._presence.asked()

    async def _answer(self, notice: Notification) -> None:
        try:
            await self._records.followed(notice.names)
        except PalaverError as error:
            log.debug("Those who follow a run of ours could not be told: %s", error.message)
