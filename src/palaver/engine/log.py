"""The log of a run, and those who read it.

The reader that started the run is told in the run's own task, so that the workflow goes at its pace; other readers
follow the log and are never waited for.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

from palaver.core.calls import Call
from palaver.core.events import Event, RunStarted
from palaver.core.origins import Origin
from palaver.engine.store import Store

Attend = Callable[[Sequence[Event]], Awaitable[None] | None]
"""The reader that started the run, told everything in order, one call at a time. What it gives back is awaited: the
run goes at its pace. It never raises: on error it stops listening, and the run goes on or is cancelled."""

LATER = (RunStarted(),)
"""Stands for a batch whose place is kept elsewhere."""

_helpers: set[asyncio.Task[None]] = set()  # Of all runs: a list for each would be empty nearly always.


class Log(ABC):
    """Events in order, and the telling of them. The part of a Run that knows nothing of workflows."""

    id: str
    name: str
    call: Call
    origin: Origin
    started: RunStarted

    def __init__(self, store: Store, attend: Attend | None) -> None:
        self.log: list[Event] = []
        self.finished = False
        self.first_output_at: datetime | None = None
        """When it first said something."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiters: Sequence[asyncio.Future[None]] = ()
        # What the first reader is being told by the run's own task, and from where on nobody has told it yet.
        self._attend: Attend | None = attend
        self._sending: Sequence[Event] = ()
        self._untold: int | None = None
        self._turn: asyncio.Lock | None = None  # Made by the first who needs it.

    @property
    def is_attended(self) -> bool:
        """Is there a reader that started it, and is told in its own task?"""
        return self._attend is not None

    async def recorded(self) -> None:
        """Wait until its last event is recorded, whoever is still being told."""
        async for _ in self.follow(len(self.log) - 1):
            pass

    async def follow(self, after: int = -1) -> AsyncGenerator[Sequence[Event]]:
        """Every event after that `seq`, in batches as they come, until the last. Any number may follow."""
        at = max(after + 1, 0)
        while True:
            if batch := self.log[at:]:
                at += len(batch)
                yield batch
            elif self.finished:
                return
            else:
                waiter = self._loop.create_future()
                self._waiters = [*self._waiters, waiter]
                try:
                    await waiter
                finally:
                    self._waiters = [other for other in self._waiters if other is not waiter]

    def _tell(self, events: Sequence[Event]) -> Awaitable[None] | None:
        """Note events and tell them, in the run's own task; gives back what is to be waited for, if anything."""
        self._put(events)
        if self._attend is None:
            return None
        if self._untold is not None:
            return self._look_up()
        self._sending = events
        sending = self._attend(events)
        if sending is not None:
            return self._told(sending)
        self._sending = ()
        return self._look_up() if self._untold is not None else None

    async def _told(self, sending: Awaitable[None]) -> None:
        await sending
        self._sending = ()
        if self._untold is not None:
            await self._look_up()

    def _put(self, events: Sequence[Event]) -> None:
        self.log += events
        if not self.finished:  # Its last events are in the store already, which has let go of it.
            self._note_output()
            if self._store.grew is not None:
                self._store.grew(self)
        if self._waiters:
            self._wake()

    def _note_output(self) -> None:
        """Note the time, if what was put first is more than that it started."""
        if self.first_output_at is None and len(self.log) > 1:
            self.first_output_at = self.time()

    @abstractmethod
    def time(self) -> datetime:
        """Now, by the run's own clock."""

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _look_up(self) -> None:
        """In the run's own task: something happened while it was sending, or another task is sending."""
        self._sending = LATER
        async with self._lock():
            await self._catch_up()
        self._sending = ()

    async def _flush(self) -> None:
        """In a task of its own, while the run's is inside the workflow; when it is not, it will look up itself."""
        async with self._lock():
            if not self._sending:
                await self._catch_up()

    def _lock(self) -> asyncio.Lock:
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    async def _catch_up(self) -> None:
        """Tell the first reader, in order, what nobody has told it yet."""
        while self._untold is not None and self._attend is not None:
            if (batch := self.log[self._untold :]) and (sending := self._attend(batch)) is not None:
                await sending
            told = self._untold + len(batch)
            self._untold = told if told < len(self.log) else None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        _helpers.add(task)  # The loop itself holds tasks weakly.
        task.add_done_callback(_helpers.discard)
        return task
