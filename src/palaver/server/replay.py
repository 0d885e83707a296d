"""Send the log of a run and then follow it: for resumed, replayed and background streams.

A slow reader does not slow the run.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from palaver.core.events import Event
from palaver.core.runs import OpenItems, rejection_events
from palaver.protocols.base import EventEncoder, HttpResponse
from palaver.server.auth import CREDENTIAL_ENDED
from palaver.server.keep_alive import with_keep_alive
from palaver.server.request import Exchange, run_until_disconnect
from palaver.server.streaming import escape_line_separators

_MAX_CHUNK_BYTES = 256 * 1024
_CREDENTIAL_GRACE_S = 2.0
"""How long a client whose credential ended may take to read the last frames."""


async def replay_events(
    exchange: Exchange,
    head: HttpResponse,
    encode: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    *,
    stall: float,
    opening: bytes = b"",
) -> None:
    """Send the frames of `batches` until the last one, a disconnect, or `stall` seconds without progress.

    If the caller's credential becomes invalid, the stream ends with an error; the run continues.
    """
    loop = asyncio.get_running_loop()
    credential_ended: asyncio.Future[None] = loop.create_future()

    async def send_events() -> None:
        await exchange.start_response(head.status, head.headers)
        await exchange.send_chunk(opening, stall)
        open_items = OpenItems()
        frames = _encode_batches(batches, encode, open_items)
        async with aclosing(with_keep_alive(frames, head.keep_alive, until=credential_ended)) as chunks:
            async for body in chunks:
                await exchange.send_chunk(body, stall)
        last_frames = b""
        if credential_ended.done() and not open_items.is_ended:
            last_frames = escape_line_separators(b"".join(map(encode, rejection_events(open_items, CREDENTIAL_ENDED))))
        await exchange.send_chunk(last_frames, stall, more_body=False)

    sender = loop.create_task(send_events())

    def on_revoked() -> None:
        if not credential_ended.done():
            credential_ended.set_result(None)
        loop.call_later(_CREDENTIAL_GRACE_S, sender.cancel)

    await run_until_disconnect(exchange, sender, on_revoked=on_revoked)


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
