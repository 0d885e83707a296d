"""Send a run to a client that did not start it: from its log, then live. A slow reader does not slow the run."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, nullcontext
from typing import Any

from palaver.core.events import Event
from palaver.core.interruption import OpenItems, rejection_events
from palaver.protocols.base import EventEncoder, HttpResponse
from palaver.server.auth import CREDENTIAL_ENDED
from palaver.server.request import Exchange
from palaver.server.streaming import KEEP_ALIVE_INTERVAL_S, escape_line_separators

_MAX_CHUNK_BYTES = 256 * 1024
_CREDENTIAL_GRACE_S = 2.0
"""How long a client whose credential ended may take to read the last frames."""


async def replay_events(
    exchange: Exchange,
    head: HttpResponse,
    frames: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    *,
    stall: float,
    opening: bytes = b"",
) -> None:
    """Send the frames of `batches` until the last, a disconnect, or `stall` seconds without progress.

    If the caller's credential becomes invalid, the stream ends with an error; the run continues.
    """
    loop = asyncio.get_running_loop()
    away: asyncio.Future[None] = loop.create_future()
    telling = loop.create_task(_send_events(exchange, head, opening, frames, batches, stall, away))
    leaving = loop.create_task(_wait_disconnect(exchange))

    def turn_away() -> None:
        if not away.done():
            away.set_result(None)
        loop.call_later(_CREDENTIAL_GRACE_S, telling.cancel)

    watched = exchange.callers.watched(exchange.caller, turn_away) if exchange.callers else nullcontext()
    try:
        with watched:
            await asyncio.wait([telling, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (telling, leaving):
            task.cancel()
        done, _ = await asyncio.wait([telling, leaving])
    if telling in done and not telling.cancelled():
        telling.result()  # Raise its error.


async def _wait_disconnect(exchange: Exchange) -> None:
    """Wait for a disconnect; the end of an unread body comes first."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


async def _send_events(
    exchange: Exchange,
    head: HttpResponse,
    opening: bytes,
    frames: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    stall: float,
    away: "asyncio.Future[None]",
) -> None:
    await exchange.open(head.status, head.headers)
    await _send_chunk(exchange, opening, stall)
    unended = OpenItems()
    async with aclosing(batches) as following:
        while batch := await _next_batch(following, exchange, head.keep_alive, stall, away):
            for body in _chunks(batch, frames, unended):
                await _send_chunk(exchange, body, stall)
                if away.done():
                    break
    last = b""
    if away.done() and not unended.is_over:
        last = escape_line_separators(b"".join(map(frames, rejection_events(unended, CREDENTIAL_ENDED))))
    await _send_chunk(exchange, last, stall, more=False)


async def _next_batch(
    batches: AsyncGenerator[Sequence[Event]],
    exchange: Exchange,
    keep_alive: bytes,
    stall: float,
    away: "asyncio.Future[None]",
) -> Sequence[Event]:
    """The next batch, empty at the end; send keep-alives while waiting for it."""
    reading = asyncio.get_running_loop().create_task(_read_batch(batches))
    try:
        while not away.done():
            heard, _ = await asyncio.wait(
                [reading, away], timeout=KEEP_ALIVE_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
            )
            if reading.done():
                return reading.result()
            if not heard:
                await _send_chunk(exchange, keep_alive, stall)
        return ()
    finally:
        reading.cancel()
        await asyncio.wait([reading])  # A running generator cannot be closed.


async def _read_batch(batches: AsyncGenerator[Sequence[Event]]) -> Sequence[Event]:
    return await anext(batches, None) or ()  # CPython 3.11 fails with an empty tuple as the default.


def _chunks(batch: Sequence[Event], frames: EventEncoder, unended: OpenItems) -> Iterator[bytes]:
    """The frames of a batch, encoded lazily, so that `unended` has seen exactly the events that were sent."""
    waiting: list[bytes] = []
    size = 0
    for event in batch:
        unended.feed(event)
        waiting.append(frames(event))
        size += len(waiting[-1])
        if size > _MAX_CHUNK_BYTES:
            yield escape_line_separators(b"".join(waiting))
            waiting, size = [], 0
    yield escape_line_separators(b"".join(waiting))


async def _send_chunk(exchange: Exchange, body: bytes, stall: float, *, more: bool = True) -> None:
    if not body and more:
        return
    message: dict[str, Any] = {"type": "http.response.body", "body": body, "more_body": more}
    try:
        async with asyncio.timeout(stall):
            await exchange.send(message)
    except TimeoutError:
        if exchange.wire is not None:
            exchange.wire.abort()
        raise
