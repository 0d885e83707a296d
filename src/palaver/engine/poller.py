"""Looking for work: again and again, after a while or as soon as somebody says that there is some."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from palaver.errors import PalaverError


class Poller:
    """One loop, from `begin` to `end`. It is never cancelled: what it is taking at that moment would be nobody's."""

    def __init__(
        self,
        poll: Callable[[], Awaitable[float | None]],
        *,
        subject: str,
        log: logging.Logger,
        retry_delay: float,
    ) -> None:
        """`look` says after how many seconds to look again (None: when woken); where it fails, `again` says so."""
        self._look = poll
        self._of = subject
        self._log = log
        self._again = retry_delay
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_stopping = False

    def start(self) -> None:
        """Look from now on."""
        if self._task is None and not self.is_stopping:
            self._task = asyncio.get_running_loop().create_task(self._look_on())

    def wake(self) -> None:
        """Look now, or once more if it is looking."""
        self._more.set()

    async def stop(self) -> None:
        """Look no more; what is being looked at is looked at to its end."""
        self.is_stopping = True
        self.wake()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _look_on(self) -> None:
        while not self.is_stopping:
            self._more.clear()
            seconds: float | None = self._again
            try:
                seconds = await self._look()
            except PalaverError as error:  # The database is away, or slow: it will be asked again.
                self._log.debug("%s could not be looked for: %s", self._of, error.message)
            except Exception:
                self._log.exception("%s could not be looked for", self._of)
            if not self.is_stopping:
                await self._rest(seconds)

    async def _rest(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._more.wait()
        except TimeoutError:
            pass
