"""A process without a socket: it takes background runs until a signal says stop."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from palaver.server.app import Server


async def run_worker(worker: Server, *, started: Callable[[], None] = lambda: None) -> None:
    """Take runs until told to stop. The first signal lets them end, as long as a server would; a second ends them."""
    loop, told = asyncio.get_running_loop(), asyncio.Semaphore(0)
    with _stop_signals(told.release):
        try:
            await worker.arrive()
            started()
            await told.acquire()
            draining = loop.create_task(worker.engine.drain(worker.settings.shutdown_seconds))
            again = loop.create_task(told.acquire())
            await asyncio.wait([draining, again], return_when=asyncio.FIRST_COMPLETED)
            again.cancel()
            if not draining.done():
                draining.cancel()
                await worker.engine.drain(0)
            await asyncio.gather(draining, return_exceptions=True)
        finally:
            await worker.close()


@contextmanager
def _stop_signals(told: Callable[[], None]) -> Generator[None]:
    """Call that, in this loop, for each signal that says stop. Not by the loop itself: on Windows it hears of none."""
    loop = asyncio.get_running_loop()

    def hand_on(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(told)

    before = {sign: signal.signal(sign, hand_on) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
