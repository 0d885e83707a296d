"""Keep-alives of streams that are read from a log; those of live runs are sent by `streaming.StreamMonitor`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

KEEP_ALIVE_INTERVAL_S = 15
"""After this long without a frame, send a keep-alive."""


async def with_keep_alive(
    chunks: AsyncGenerator[bytes], keep_alive: bytes, *, until: "asyncio.Future[Any] | None" = None
) -> AsyncGenerator[bytes]:
    """Yield the chunks, and `keep_alive` while there is none. End early when `until` is done."""
    loop = asyncio.get_running_loop()
    stop = loop.create_future() if until is None else until
    async with aclosing(chunks):
        while not stop.done():
            read_task = loop.create_task(_next_chunk(chunks))
            try:
                while not read_task.done() and not stop.done():
                    done, _ = await asyncio.wait(
                        [read_task, stop], timeout=KEEP_ALIVE_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
                    )
                    if not done:
                        yield keep_alive
            finally:
                read_task.cancel()  # Does nothing if it is done.
                await asyncio.wait([read_task])  # A running generator cannot be closed.
            chunk = None if read_task.cancelled() else read_task.result()
            if chunk is None:
                return
            yield chunk


async def _next_chunk(chunks: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(chunks, None)
