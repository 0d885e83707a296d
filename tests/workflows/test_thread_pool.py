"""The thread pool for sync code, and the bridge that passes its values to the event loop."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from palaver.workflows.thread_pool import ThreadBridge, ThreadPool
from tests.engine.run_factory import wait_until

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO")


async def start(threads: ThreadPool, body: Callable[[], None]) -> None:
    async with asyncio.timeout(60):
        await threads.start(body)


async def wait_idle(threads: ThreadPool) -> None:
    await wait_until(lambda: threads.busy == 0)


async def read_all(bridge: ThreadBridge) -> list[object]:
    async with asyncio.timeout(60):
        return [value async for value in bridge.values()]


# Threads


async def test_a_function_runs_in_a_new_thread_with_a_copy_of_the_callers_context() -> None:
    threads, seen = ThreadPool(), []
    WHO.set("me")

    def body() -> None:
        seen.append((WHO.get(), threading.current_thread().name, threading.current_thread().daemon))
        WHO.set("you")

    await start(threads, body)
    await wait_idle(threads)

    assert seen == [("me", "palaver-workflow", True)]
    assert WHO.get() == "me"


async def test_calls_beyond_the_number_of_slots_wait() -> None:
    threads, release = ThreadPool(2), threading.Event()
    started = 0

    def body() -> None:
        release.wait(10)

    async def one() -> None:
        nonlocal started
        await start(threads, body)
        started += 1

    tasks = [asyncio.create_task(one()) for _ in range(5)]
    for _ in range(10):
        await asyncio.sleep(0)
    before = (started, threads.busy)
    release.set()
    await asyncio.gather(*tasks)
    await wait_idle(threads)

    assert (before, started, threads.busy) == ((2, 2), 5, 0)


async def test_a_function_that_raises_releases_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    threads = ThreadPool(1)

    def body() -> None:
        raise LookupError

    for _ in range(3):
        await start(threads, body)
    await wait_idle(threads)
    for thread in threading.enumerate():
        if thread.name == "palaver-workflow":
            thread.join(10)  # It calls the hook after it has released its slot.

    assert threads.busy == 0


async def test_a_thread_that_cannot_be_started_releases_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = ThreadPool(1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await start(threads, print)

    await start(threads, lambda: None)
    await wait_idle(threads)


def test_a_thread_that_outlives_its_event_loop_ends_normally() -> None:
    release, thread_ended = threading.Event(), threading.Event()
    bridges: list[ThreadBridge] = []

    def body() -> None:
        release.wait(10)
        bridges[0].end()
        thread_ended.set()

    async def main() -> None:
        bridges.append(ThreadBridge(asyncio.get_running_loop()))
        await ThreadPool(1).start(body)
        reader = asyncio.create_task(read_all(bridges[0]))
        await asyncio.sleep(0)
        reader.cancel()

    asyncio.run(main())
    release.set()

    assert thread_ended.wait(10)
    for thread in threading.enumerate():
        if thread.name == "palaver-workflow":
            thread.join(10)


# The bridge


def filled_bridge(work: Callable[[ThreadBridge], Any]) -> ThreadBridge:
    """A bridge that a thread fills."""
    bridge = ThreadBridge(asyncio.get_running_loop())

    def body() -> None:
        try:
            work(bridge)
        except BaseException as error:
            bridge.end(error)
        else:
            bridge.end()

    threading.Thread(target=body, daemon=True).start()
    return bridge


async def test_values_arrive_in_order() -> None:
    def work(bridge: ThreadBridge) -> None:
        for number in range(500):
            bridge.put(number)

    assert await read_all(filled_bridge(work)) == list(range(500))


async def test_values_arrive_while_the_thread_is_running() -> None:
    release = threading.Event()

    def work(bridge: ThreadBridge) -> None:
        bridge.put("first")
        release.wait(10)
        bridge.put("second")

    values = filled_bridge(work).values()
    async with asyncio.timeout(60):
        first = await anext(values)
        release.set()
        second = await anext(values)
    await values.aclose()

    assert (first, second) == ("first", "second")


@pytest.mark.parametrize("error", [LookupError("x"), SystemExit(1), KeyboardInterrupt()], ids=repr)
async def test_an_exception_of_the_thread_is_raised_after_its_values(error: BaseException) -> None:
    def work(bridge: ThreadBridge) -> None:
        bridge.put(1)
        raise error

    values = filled_bridge(work).values()

    assert await anext(values) == 1
    with pytest.raises(type(error)):
        await anext(values)


async def test_a_thread_blocks_while_its_reader_is_behind() -> None:
    put = 0
    many = threading.Event()

    def work(bridge: ThreadBridge) -> None:
        nonlocal put
        for number in range(100):
            bridge.put(number)
            put += 1
            if put > 30:
                many.set()

    bridge = filled_bridge(work)
    ran_ahead = await asyncio.to_thread(many.wait, 0.1)
    before = put

    assert await read_all(bridge) == list(range(100))
    assert (ran_ahead, before <= 16) == (False, True)


async def test_closing_the_bridge_cancels_blocked_threads() -> None:
    stopped, values = threading.Semaphore(0), list[int]()
    bridge = ThreadBridge(asyncio.get_running_loop())

    def work() -> None:
        for _ in range(2):  # It may ignore the first cancellation.
            try:
                while True:
                    bridge.put(1)
                    values.append(1)
            except asyncio.CancelledError:
                stopped.release()

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for helper in helpers:
        helper.start()
    await wait_until(lambda: len(values) == 16)  # The buffer is full.
    bridge.close()

    for helper in helpers:
        await asyncio.to_thread(helper.join, 10)
    assert [stopped.acquire(blocking=False) for _ in range(7)] == [True] * 6 + [False]
