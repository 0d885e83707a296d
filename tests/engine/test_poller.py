"""The poller: intervals, wake-ups, failures and shutdown."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from palaver.engine.poller import Poller
from palaver.errors import Overloaded

log = logging.getLogger("palaver.tests.looking")
SOON, NEVER = 0.001, 3600.0


class Work:
    """Something to look for: what each look says in turn, the last of it for ever."""

    def __init__(self, *says: float | Exception | None) -> None:
        self._says: Iterator[float | Exception | None] = iter(says)
        self._last: float | Exception | None = None
        self.looks = 0
        self.looked = asyncio.Condition()

    async def look(self) -> float | None:
        said = self._last = next(self._says, self._last)
        async with self.looked:
            self.looks += 1
            self.looked.notify_all()
        if isinstance(said, Exception):
            raise said
        return said

    async def until(self, looks: int) -> None:
        async with asyncio.timeout(20), self.looked:
            await self.looked.wait_for(lambda: self.looks >= looks)


def looking(work: Work, again: float = NEVER) -> Poller:
    return Poller(work.look, subject="Work", log=log, retry_delay=again)


async def test_it_looks_at_once_and_again_after_as_long_as_was_said() -> None:
    work = Work(SOON, SOON, None)
    loop = looking(work)
    loop.start()
    await work.until(3)
    await loop.stop()
    assert work.looks == 3


async def test_who_says_nothing_is_looked_at_when_woken() -> None:
    work = Work(None)
    loop = looking(work)
    loop.start()
    await work.until(1)
    loop.wake()
    await work.until(2)
    await loop.stop()


async def test_what_comes_while_it_looks_is_looked_at_too() -> None:
    work = Work(None)
    loop = looking(work)
    entered = asyncio.Event()

    async def look() -> float | None:
        if not entered.is_set():
            entered.set()
            loop.wake()  # It came too late for this look.
        return await work.look()

    loop = Poller(look, subject="Work", log=log, retry_delay=NEVER)
    loop.start()
    await work.until(2)
    await loop.stop()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Overloaded("It is away."), (logging.DEBUG, "Work could not be looked for: It is away.")),
        (RuntimeError("a mistake"), (logging.ERROR, "Work could not be looked for")),
    ],
)
async def test_a_look_that_fails_is_told_and_made_again(
    error: Exception, told: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error, None)
    loop = looking(work, again=SOON)
    with caplog.at_level(logging.DEBUG, logger=log.name):
        loop.start()
        await work.until(2)
        await loop.stop()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [told]


async def test_a_look_is_never_cut_off_and_nothing_is_looked_at_after_the_end() -> None:
    going_on, ended = asyncio.Event(), asyncio.Event()

    async def look() -> float:
        going_on.set()
        for _ in range(5):
            await asyncio.sleep(0)
        ended.set()
        return SOON

    loop = Poller(look, subject="Work", log=log, retry_delay=NEVER)
    loop.start()
    await going_on.wait()
    await loop.stop()
    assert ended.is_set()

    ended.clear()
    loop.start()
    loop.wake()
    await asyncio.sleep(0)
    assert not ended.is_set()


async def test_one_that_never_began_ends() -> None:
    work = Work(None)
    await looking(work).stop()
    assert work.looks == 0
