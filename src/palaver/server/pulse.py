"""The pulse: looks after all open streams once a second, so that no stream needs a timer of its own."""

import asyncio

from palaver.server.callers import NOT_GOOD, Callers
from palaver.server.stream import Stream


class Pulse:
    """Beats while there are streams."""

    def __init__(self, *, stall: float, callers: Callers | None = None, interval: float = 1.0) -> None:
        self._callers = callers
        self.streams: set[Stream] = set()
        self._stall = stall
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: Stream) -> None:
        """Look after this one too."""
        self.streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        beats = 0
        while self.streams:
            await asyncio.sleep(self._interval)
            for stream in list(self.streams):
                if stream.run.over:  # Its code may go on for ever; the answer does not.
                    self.streams.discard(stream)
                else:
                    stream.tick(self._stall / self._interval)
            beats += 1
            if self._callers is not None and beats % 2 == 0:
                await self._turn_away(self._callers)

    async def _turn_away(self, callers: Callers) -> None:
        """End the streams of those whose credential is no longer good."""
        gone = await callers.gone({stream.caller for stream in self.streams if stream.caller.key is not None})
        for stream in list(self.streams) if gone else ():
            if stream.caller in gone:
                stream.run.cancel(NOT_GOOD)
