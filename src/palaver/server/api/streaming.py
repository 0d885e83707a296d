"""Streamed responses of the REST API, sent as fast as the client reads."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

from litestar import Response

from palaver.core.events import RunFailed
from palaver.engine.engine import SHUTDOWN_FAILURE
from palaver.errors import InvalidValue
from palaver.protocols import sse
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import ApiRequest, caller_of
from palaver.server.rate_limit import RateLimits
from palaver.server.request import ClientDisconnected, Exchange
from palaver.server.response_ends import run_until_disconnect
from palaver.server.settings import Settings

EVENT_STREAM = "text/event-stream"
EVENT_STREAM_HEAD = HttpResponse(
    status=200,
    headers=(("content-type", EVENT_STREAM), ("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no")),
    keep_alive=sse.KEEP_ALIVE,
)


class StreamingResponse(Response[Any]):
    """A response that `send` writes to the exchange itself."""

    def __init__(self, send: Callable[[Exchange], Awaitable[None]]) -> None:
        super().__init__(None, media_type=EVENT_STREAM)
        self._send = send

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            exchange = Exchange(scope, receive, send)
            exchange.caller, exchange.response_ends = scope["palaver.caller"], scope["palaver.response_ends"]
            await self._send(exchange)

        return cast("Any", application)


Headers = tuple[tuple[str, str], ...]


def last_event_id(request: ApiRequest) -> int | None:
    """Return the number that an EventSource sends when it reconnects; None on the first request."""
    text = request.headers.get("last-event-id", "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise InvalidValue(f"Invalid Last-Event-ID {text[:40]!r}: must be the number of an event.")
    return int(text)


async def stream_chunks(
    request: ApiRequest, chunks: AsyncGenerator[bytes], headers: Headers, rate_limits: RateLimits, settings: Settings
) -> Response[Any]:
    """Return a response of `chunks`. Errors of the first one are raised here, before the response starts."""
    caller, first = caller_of(request), await anext(chunks, b"")

    async def send(exchange: Exchange) -> None:
        with rate_limits.streams.slot(caller):
            await send_chunks(exchange, first, chunks, settings.stream_stall, headers)

    return StreamingResponse(send)


async def send_chunks(
    exchange: Exchange,
    first: bytes,
    chunks: AsyncGenerator[bytes],
    stall: float,
    headers: Headers,
    *,
    stop: asyncio.Future[None] | None = None,
) -> None:
    """Send `first` and `chunks`, until the client disconnects, stalls, or its credential becomes invalid.

    When the server stops, `stop` is set, which has to end `chunks`; without it, the response may take its time.
    """
    task = asyncio.get_running_loop().create_task(_send_all(exchange, first, chunks, stall, headers))

    def on_end(reason: RunFailed) -> None:
        if reason is not SHUTDOWN_FAILURE:
            task.cancel()
        elif stop is not None and not stop.done():
            stop.set_result(None)

    is_disconnected = await run_until_disconnect(exchange, task, on_end=on_end)
    if task.cancelled() and not is_disconnected:
        if exchange.writer is None:
            raise ClientDisconnected
        exchange.writer.abort()  # The client sees that the response is incomplete.


async def _send_all(
    exchange: Exchange, first: bytes, chunks: AsyncGenerator[bytes], stall: float, headers: Headers
) -> None:
    await exchange.start_response(200, headers)
    async with aclosing(chunks):
        await exchange.send_chunk(first, stall)
        async for chunk in chunks:
            await exchange.send_chunk(chunk, stall)
    await exchange.send({"type": "http.response.body", "body": b"", "more_body": False})
