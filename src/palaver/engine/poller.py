"""Poll for work, waking early on notification."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

from palaver.errors import PalaverError


class Poller:
    """A polling loop. It is never cancelled in the middle of a poll, which may be claiming work."""

    def __init__(
        self,
        poll: Callable[[], Awaitable[float | None]],
        *,
        subject: str,
        log: logging.Logger,
        retry_delay: float,
    ) -> None:
        """`poll` returns the seconds until the next poll; None waits for `wake`, an error for `retry_delay`."""
        self._poll = poll
        self._subject = subject
        self._log = log
        self._retry_delay = retry_delay
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_stopping = False

    def start(self) -> None:
        if self._task is None and not self.is_stopping:
            self._task = asyncio.get_running_loop().create_task(self._loop())

    def wake(self) -> None:
        """Poll now, or once more if a poll is in progress."""
        self._wakeup.set()

    async def stop(self) -> None:
        """Stop after the poll in progress."""
        self.is_stopping = True
        self.wake()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _loop(self) -> None:
        while not self.is_stopping:
            self._wakeup.clear()
            seconds: float | None = self._retry_delay
            problem = f"Failed to poll for {self._subject}"
            with log_errors(self._log, problem, problem):
                seconds = await self._poll()
            if not self.is_stopping:
                await wait_for_event(self._wakeup, seconds)


async def wait_for_event(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait until the event is set, or for `timeout_s`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


@contextmanager
def log_errors(log: logging.Logger, unavailable: str, failed: str) -> Generator[None]:
    """Log errors of the block. A PalaverError is only for debugging: the database is unreachable or slow."""
    try:
        yield
    except PalaverError as error:
        log.debug("%s: %s", unavailable, error.message)
    except Exception:
        log.exception(failed)


_T = TypeVar("_T")
_RETRY_INTERVAL_S = 0.05


async def poll_until(find: Callable[[], Awaitable[_T | None]], *, timeout_s: float) -> _T:
    """Call `find` until it returns something. Raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while (value := await find()) is None:  # noqa: ASYNC110 - written by another process, without a notification
            await asyncio.sleep(_RETRY_INTERVAL_S)
        return value
