"""The TTL cache: lifetime, single-flight refresh, invalidation and eviction."""

import asyncio
import gc
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from palaver.errors import Overloaded
from palaver.server.auth import TTLCache


class Source:
    """A source of changeable values that records its queries, with a manual clock."""

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
        async with asyncio.timeout(60):
            while len(self.asked) < times:  # noqa: ASYNC110 - a few turns of the loop
                await asyncio.sleep(0)

    def recent(self, most: int = 100) -> TTLCache[str, int]:
        return TTLCache(self.ask, monotonic=lambda: self.seconds, max_entries=most)


async def test_values_are_cached_for_two_seconds() -> None:
    source = Source()
    cache = source.recent()
    seen = [await cache.get("a"), await cache.get("b")]
    source.values = {"a": 2, "b": 3}
    source.seconds = 1.9
    seen += [await cache.get("a"), await cache.get("b")]
    source.seconds = 2.0
    seen += [await cache.get("a"), await cache.get("b")]

    assert seen == [1, None, 1, None, 2, 3]
    assert source.asked == [["a"], ["b"], ["a"], ["b"]]


async def test_concurrent_readers_of_a_name_share_one_query() -> None:
    source = Source()
    source.go.clear()
    cache = source.recent()
    waiting = [asyncio.create_task(cache.get("a")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    source.go.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)

    assert source.asked == [["a"]]
    assert done[1:] == [1, 1, 1, 1]
    assert isinstance(done[0], asyncio.CancelledError)


async def test_an_invalidated_name_is_queried_again_and_an_older_result_is_not_cached() -> None:
    source = Source()
    cache = source.recent()
    await cache.get("a")
    cache.invalidate("a")
    source.go.clear()
    before = asyncio.create_task(cache.get("a"))
    await source.was_asked(2)
    source.values = {"a": 2}
    cache.invalidate("a")
    after = asyncio.create_task(cache.get("a"))
    await source.was_asked(3)
    source.go.set()

    assert (await before, await after, await cache.get("a")) == (1, 2, 2)
    assert source.asked == [["a"], ["a"], ["a"]]


async def test_refresh_loads_all_missing_names_with_one_query() -> None:
    source = Source()
    cache = source.recent()
    await cache.get("a")
    await cache.refresh(["a", "b", "c"])
    await cache.refresh(["a", "b", "c"])
    await cache.refresh([])

    assert source.asked == [["a"], ["b", "c"]]
    assert [(cache.contains(name), cache.peek(name)) for name in "abcd"] == [
        (True, 1),
        (True, None),
        (True, None),
        (False, None),
    ]


async def test_the_oldest_entry_is_evicted_when_the_cache_is_full() -> None:
    source = Source()
    cache = source.recent(most=2)
    for name in "abac":
        source.seconds += 3
        await cache.get(name)

    assert [cache.contains(name) for name in "abc"] == [True, False, True]


async def test_an_error_is_raised_and_not_cached() -> None:
    source = Source()
    cache = source.recent()
    source.away = True
    with pytest.raises(Overloaded):
        await cache.get("a")
    source.away = False

    assert await cache.get("a") == 1


async def test_an_error_without_a_waiting_reader_is_ignored() -> None:
    unhandled: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: unhandled.append(problem))
    source = Source()
    source.away = True
    source.go.clear()
    cache = source.recent()
    waiting = asyncio.create_task(cache.get("a"))
    await source.was_asked(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    source.go.set()
    for _ in range(3):
        await asyncio.sleep(0)
    del waiting
    gc.collect()  # A task whose exception was never retrieved reports it when it is deleted.

    assert unhandled == []
    source.away = False
    assert await cache.get("a") == 1
