"""A process without a socket: it takes background runs until a signal says stop."""

import asyncio
import signal
from collections.abc import Callable

from palaver.server.app import Server


async def work(worker: Server, *, started: Callable[[], None] = lambda: None) -> None:
    """Take runs until told to stop. The first signal lets them end, as long as a server would; a second ends them."""
    loop, told = asyncio.get_running_loop(), asyncio.Semaphore(0)
    signals = (signal.SIGINT, signal.SIGTERM)
    for sign in signals:
        loop.add_signal_handler(sign, told.release)
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
        for sign in signals:
            loop.remove_signal_handler(sign)
        await worker.close()
