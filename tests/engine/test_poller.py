"""The poller: intervals, wake-ups, failures and shutdown."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from palaver.engine.poller import Poller
from palaver.errors import Overloaded

log = logging.getLogger("palaver.tests.looking")
SHORT_DELAY_S, LONG_DELAY_S = 0.001, 3600.0


class Work:
    """Work that returns or raises the given results in turn, and the last one forever."""

    def __init__(self, *says: float | Exception | None) -> None:
        self._says: Iterator[float | Exception | None] = iter(says)
        self._last: float | Exception | None = None
        self.looks = 0
        self.looked = asyncio.Condition()

    async def look(self) -> float | None:
        result = self._last = next(self._says, self._last)
        async with self.looked:
            self.looks += 1
            self.looked.notify_all()
        if isinstance(result, Exception):
            raise result
        return result

    async def until(self, looks: int) -> None:
        async with asyncio.timeout(60), self.looked:
            await self.looked.wait_for(lambda: self.looks >= looks)


def new_poller(work: Work, again: float = LONG_DELAY_S) -> Poller:
    return Poller(work.look, subject="work", log=log, retry_delay=again)


async def test_the_poller_polls_at_once_and_again_after_the_returned_delay() -> None:
    work = Work(SHORT_DELAY_S, SHORT_DELAY_S, None)
    poller = new_poller(work)
    poller.start()
    await work.until(3)
    await poller.stop()
    assert work.looks == 3


async def test_work_that_returns_no_delay_is_polled_when_woken() -> None:
    work = Work(None)
    poller = new_poller(work)
    poller.start()
    await work.until(1)
    poller.wake()
    await work.until(2)
    await poller.stop()


async def test_a_wake_up_during_a_poll_causes_another_poll() -> None:
    work = Work(None)
    entered = asyncio.Event()

    async def look() -> float | None:
        if not entered.is_set():
            entered.set()
            poller.wake()  # Too late for this poll.
        return await work.look()

    poller = Poller(look, subject="work", log=log, retry_delay=LONG_DELAY_S)
    poller.start()
    await work.until(2)
    await poller.stop()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Overloaded("It is away."), (logging.DEBUG, "Failed to poll for work: It is away.")),
        (RuntimeError("a mistake"), (logging.ERROR, "Failed to poll for work")),
    ],
)
async def test_a_failed_poll_is_logged_and_retried(
    error: Exception, expected: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error, None)
    poller = new_poller(work, again=SHORT_DELAY_S)
    with caplog.at_level(logging.DEBUG, logger=log.name):
        poller.start()
        await work.until(2)
        await poller.stop()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [expected]


async def test_stop_waits_for_the_current_poll_and_no_poll_follows() -> None:
    polling, ended = asyncio.Event(), asyncio.Event()

    async def look() -> float:
        polling.set()
        for _ in range(5):
            await asyncio.sleep(0)
        ended.set()
        return SHORT_DELAY_S

    poller = Poller(look, subject="work", log=log, retry_delay=LONG_DELAY_S)
    poller.start()
    await polling.wait()
    await poller.stop()
    assert ended.is_set()

    ended.clear()
    poller.start()
    poller.wake()
    await asyncio.sleep(0)
    assert not ended.is_set()


async def test_a_poller_that_never_started_can_be_stopped() -> None:
    work = Work(None)
    await new_poller(work).stop()
    assert work.looks == 0
