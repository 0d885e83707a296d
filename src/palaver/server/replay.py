"""Send the log of a run and then follow it: for resumed, replayed and background streams.

A slow reader does not slow the run.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.runs import OpenItems, rejection_events
from palaver.protocols.base import EventEncoder, HttpResponse
from palaver.server.keep_alive import with_keep_alive
from palaver.server.request import Exchange
from palaver.server.response_ends import run_until_disconnect
from palaver.server.streaming import escape_line_separators

_MAX_CHUNK_BYTES = 256 * 1024
_EARLY_END_TIMEOUT_S = 2.0
"""How long a client may take to read the last frames of a stream that ends early."""


async def replay_events(
    exchange: Exchange,
    head: HttpResponse,
    encode: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    *,
    stall: float,
    opening: bytes = b"",
    started: RunStarted | None = None,
) -> None:
    """Send the frames of `batches` until the last one, a disconnect, or `stall` seconds without progress.

    If the caller's credential becomes invalid or the server stops, the stream ends with an error; the run may continue.
    `started` is for encoders that need the first event even if the run has not started by then.
    """
    loop = asyncio.get_running_loop()
    early_end: asyncio.Future[RunFailed] = loop.create_future()

    async def send_events() -> None:
        await exchange.start_response(head.status, head.headers)
        await exchange.send_chunk(opening, stall)
        open_items = OpenItems()
        frames = _encode_batches(batches, encode, open_items)
        async with aclosing(with_keep_alive(frames, head.keep_alive, until=early_end)) as chunks:
            async for body in chunks:
                await exchange.send_chunk(body, stall)
        last_frames = b""
        if early_end.done() and not open_items.is_ended:
            last_events = rejection_events(open_items, early_end.result())
            if started is not None and not open_items.is_started:
                last_events.insert(0, started)
            last_frames = escape_line_separators(b"".join(map(encode, last_events)))
        await exchange.send_chunk(last_frames, stall, more_body=False)

    sender = loop.create_task(send_events())

    def on_end(reason: RunFailed) -> None:
        if not early_end.done():
            early_end.set_result(reason)
        loop.call_later(_EARLY_END_TIMEOUT_S, sender.cancel)

    await run_until_disconnect(exchange, sender, on_end=on_end)


async def _encode_batches(
    batches: AsyncGenerator[Sequence[Event]], encode: EventEncoder, open_items: OpenItems
) -> AsyncGenerator[bytes]:
    """Encode batches lazily, so that `open_items` has seen exactly the events that were sent."""
    async with aclosing(batches):
        async for batch in batches:
            chunk: list[bytes] = []
            size = 0
            for event in batch:
                open_items.feed(event)
                chunk.append(encode(event))
                size += len(chunk[-1])
                if size > _MAX_CHUNK_BYTES:
                    yield escape_line_separators(b"".join(chunk))
                    chunk, size = [], 0
            yield escape_line_separators(b"".join(chunk))
