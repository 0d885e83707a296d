"""A run, read by somebody who did not start it: from its log, then as it goes on. Nobody waits for such a reader.

It goes at its own pace, and may leave and come back: the run does not notice.
"""

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
"""Bytes that are sent in one piece."""
_CREDENTIAL_GRACE_S = 2.0
"""Seconds in which a reader who is turned away may take what it is still told."""


async def replay_events(
    exchange: Exchange,
    head: HttpResponse,
    frames: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    *,
    stall: float,
    opening: bytes = b"",
) -> None:
    """Send the frames of what comes, until the last, or until the reader leaves or takes nothing any more.

    One whose key is no longer good is told so, in frames like any: the run itself goes on.
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
        telling.result()  # Its error is ours.


async def _wait_disconnect(exchange: Exchange) -> None:
    """Wait until the reader leaves; of a body that nobody has asked for comes an end first."""
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
    """What comes next, or nothing at the end; while it is awaited, the reader is told that we are alive."""
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
        await asyncio.wait([reading])  # Else the generator could not be closed.


async def _read_batch(batches: AsyncGenerator[Sequence[Event]]) -> Sequence[Event]:
    return await anext(batches, None) or ()  # As a default, CPython 3.11 breaks on an empty tuple.


def _chunks(batch: Sequence[Event], frames: EventEncoder, unended: OpenItems) -> Iterator[bytes]:
    """The frames of a batch, made as they are sent: so whoever is turned away has heard what was noted."""
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
