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
    async with asyncio.timeout(10):
        await threads.start(body)


async def idle(threads: ThreadPool) -> None:
    await wait_until(lambda: threads.busy == 0)


async def read(pump: ThreadBridge) -> list[object]:
    async with asyncio.timeout(10):
        return [value async for value in pump.values()]


# Threads


async def test_a_function_runs_in_a_new_thread_with_a_copy_of_the_callers_context() -> None:
    threads, seen = ThreadPool(), []
    WHO.set("me")

    def body() -> None:
        seen.append((WHO.get(), threading.current_thread().name, threading.current_thread().daemon))
        WHO.set("you")

    await start(threads, body)
    await idle(threads)

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
    await idle(threads)

    assert (before, started, threads.busy) == ((2, 2), 5, 0)


async def test_a_function_that_raises_releases_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    threads = ThreadPool(1)

    def body() -> None:
        raise LookupError

    for _ in range(3):
        await start(threads, body)
    await idle(threads)

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
    await idle(threads)


def test_a_thread_that_outlives_its_event_loop_ends_normally() -> None:
    release, left = threading.Event(), threading.Event()
    pumps: list[ThreadBridge] = []

    def body() -> None:
        release.wait(10)
        pumps[0].end()
        left.set()

    async def main() -> None:
        pumps.append(ThreadBridge(asyncio.get_running_loop()))
        await ThreadPool(1).start(body)
        reader = asyncio.create_task(read(pumps[0]))
        await asyncio.sleep(0)
        reader.cancel()

    asyncio.run(main())
    release.set()

    assert left.wait(10)
    for thread in threading.enumerate():
        if thread.name == "palaver-workflow":
            thread.join(10)


# The bridge


def pumped(work: Callable[[ThreadBridge], Any]) -> ThreadBridge:
    """A bridge that a thread fills."""
    pump = ThreadBridge(asyncio.get_running_loop())

    def body() -> None:
        try:
            work(pump)
        except BaseException as error:
            pump.end(error)
        else:
            pump.end()

    threading.Thread(target=body, daemon=True).start()
    return pump


async def test_values_arrive_in_order() -> None:
    def work(pump: ThreadBridge) -> None:
        for number in range(500):
            pump.put(number)

    assert await read(pumped(work)) == list(range(500))


async def test_values_arrive_while_the_thread_is_running() -> None:
    release = threading.Event()

    def work(pump: ThreadBridge) -> None:
        pump.put("first")
        release.wait(10)
        pump.put("second")

    values = pumped(work).values()
    async with asyncio.timeout(10):
        first = await anext(values)
        release.set()
        second = await anext(values)
    await values.aclose()

    assert (first, second) == ("first", "second")


@pytest.mark.parametrize("error", [LookupError("x"), SystemExit(1), KeyboardInterrupt()], ids=repr)
async def test_an_exception_of_the_thread_is_raised_after_its_values(error: BaseException) -> None:
    def work(pump: ThreadBridge) -> None:
        pump.put(1)
        raise error

    values = pumped(work).values()

    assert await anext(values) == 1
    with pytest.raises(type(error)):
        await anext(values)


async def test_a_thread_blocks_while_its_reader_is_behind() -> None:
    put = 0
    many = threading.Event()

    def work(pump: ThreadBridge) -> None:
        nonlocal put
        for number in range(100):
            pump.put(number)
            put += 1
            if put > 30:
                many.set()

    pump = pumped(work)
    ran_ahead = await asyncio.to_thread(many.wait, 0.1)
    before = put

    assert await read(pump) == list(range(100))
    assert (ran_ahead, before <= 16) == (False, True)


async def test_closing_the_bridge_cancels_blocked_threads() -> None:
    stopped = threading.Semaphore(0)
    pump = ThreadBridge(asyncio.get_running_loop())

    def work() -> None:
        for _ in range(2):  # It may ignore the first cancellation.
            try:
                while True:
                    pump.put(1)
            except asyncio.CancelledError:
                stopped.release()

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for helper in helpers:
        helper.start()
    await asyncio.sleep(0.01)
    pump.close()

    for helper in helpers:
        await asyncio.to_thread(helper.join, 10)
    assert [stopped.acquire(blocking=False) for _ in range(7)] == [True] * 6 + [False]
