"""The TTL cache: lifetime, single-flight refresh, invalidation and eviction."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from palaver.errors import Overloaded
from palaver.server.auth import TTLCache


class Source:
    """Values that can change, questions that are counted, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {"a": 1}
        self.asked: list[list[str]] = []
        self.seconds = 0.0
        self.away = False
        self.go = asyncio.Event()
        self.go.set()

    async def ask(self, names: Collection[str]) -> Mapping[str, int]:
        self.asked.append(sorted(names))
        found = {name: self.values[name] for name in names if name in self.values}
        await self.go.wait()
        if self.away:
            raise Overloaded("away")
        return found

    async def was_asked(self, times: int) -> None:
        async with asyncio.timeout(5):
            while len(self.asked) < times:  # noqa: ASYNC110 - a few turns of the loop
                await asyncio.sleep(0)

    def recent(self, most: int = 100) -> TTLCache[str, int]:
        return TTLCache(self.ask, monotonic=lambda: self.seconds, max_entries=most)


async def test_an_answer_is_good_for_two_seconds() -> None:
    source = Source()
    recent = source.recent()
    seen = [await recent.get("a"), await recent.get("b")]
    source.values = {"a": 2, "b": 3}
    source.seconds = 1.9
    seen += [await recent.get("a"), await recent.get("b")]
    source.seconds = 2.0
    seen += [await recent.get("a"), await recent.get("b")]

    assert seen == [1, None, 1, None, 2, 3]
    assert source.asked == [["a"], ["b"], ["a"], ["b"]]


async def test_those_who_want_the_same_ask_once() -> None:
    source = Source()
    source.go.clear()
    recent = source.recent()
    waiting = [asyncio.create_task(recent.get("a")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    source.go.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)

    assert source.asked == [["a"]]
    assert done[1:] == [1, 1, 1, 1]
    assert isinstance(done[0], asyncio.CancelledError)


async def test_what_was_dropped_is_asked_again_and_an_answer_of_before_is_not_kept() -> None:
    source = Source()
    recent = source.recent()
    await recent.get("a")
    recent.invalidate("a")
    source.go.clear()
    before = asyncio.create_task(recent.get("a"))
    await source.was_asked(2)
    source.values = {"a": 2}
    recent.invalidate("a")
    after = asyncio.create_task(recent.get("a"))
    await source.was_asked(3)
    source.go.set()

    assert (await before, await after, await recent.get("a")) == (1, 2, 2)
    assert source.asked == [["a"], ["a"], ["a"]]


async def test_many_are_refreshed_with_one_question() -> None:
    source = Source()
    recent = source.recent()
    await recent.get("a")
    await recent.refresh(["a", "b", "c"])
    await recent.refresh(["a", "b", "c"])
    await recent.refresh([])

    assert source.asked == [["a"], ["b", "c"]]
    assert [(recent.contains(name), recent.peek(name)) for name in "abcd"] == [
        (True, 1),
        (True, None),
        (True, None),
        (False, None),
    ]


async def test_no_more_is_kept_than_fits_and_the_oldest_goes() -> None:
    source = Source()
    recent = source.recent(most=2)
    for name in "abac":
        source.seconds += 3
        await recent.get(name)

    assert [recent.contains(name) for name in "abc"] == [True, False, True]


async def test_an_error_reaches_all_who_wait_and_is_not_kept() -> None:
    source = Source()
    recent = source.recent()
    source.away = True
    with pytest.raises(Overloaded):
        await recent.get("a")
    source.away = False

    assert await recent.get("a") == 1


async def test_an_error_that_nobody_waits_for_is_nobodys() -> None:
    source = Source()
    source.away = True
    source.go.clear()
    recent = source.recent()
    waiting = asyncio.create_task(recent.get("a"))
    await source.was_asked(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    source.go.set()
    for _ in range(3):
        await asyncio.sleep(0)

    source.away = False
    assert await recent.get("a") == 1
