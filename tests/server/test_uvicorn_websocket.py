"""WebSocket connections with misbehaving clients."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from palaver.server.settings import Settings
from palaver.server.uvicorn_protocols import websocket_protocol
from tests.tab_client import handshake_request

INVALID_FRAME = b"\xff" * 20
_TIMEOUT_S = 8  # Less than uvicorn waits for a client's close frame.


@asynccontextmanager
async def websocket_connection(app: Any) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve `app` over WebSocket and yield the reader and the writer of a client connection."""
    protocol = websocket_protocol(Settings())
    config = uvicorn.Config(app, ws=protocol, log_config=None)
    config.load()
    state = ServerState()
    listener = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    yield reader, writer
    writer.close()
    await writer.wait_closed()
    listener.close()
    await listener.wait_closed()


async def test_a_client_that_sends_data_before_the_handshake_answer_gets_a_400(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []
    connect_received, ended = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        seen.append((await receive())["type"])
        connect_received.set()
        seen.append((await receive())["type"])
        with pytest.raises(OSError):  # noqa: PT011  # uvicorn's error has no message.
            await send({"type": "websocket.accept"})
        ended.set()

    with caplog.at_level(logging.ERROR):
        async with websocket_connection(slow) as (reader, writer):
            writer.write(handshake_request())
            await asyncio.wait_for(connect_received.wait(), _TIMEOUT_S)
            writer.write(INVALID_FRAME)
            answer = await asyncio.wait_for(reader.read(), _TIMEOUT_S)
            await asyncio.wait_for(ended.wait(), _TIMEOUT_S)

    assert answer == b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    assert seen == ["websocket.connect", "websocket.disconnect"]
    assert not caplog.records


async def test_invalid_data_after_the_close_frame_ends_the_connection() -> None:
    async def brief(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 1000})

    async with websocket_connection(brief) as (reader, writer):
        writer.write(handshake_request())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _TIMEOUT_S)
        close_frame = await asyncio.wait_for(reader.readexactly(4), _TIMEOUT_S)
        writer.write(INVALID_FRAME)
        rest = await asyncio.wait_for(reader.read(), _TIMEOUT_S)

    assert head.startswith(b"HTTP/1.1 101 ")
    assert close_frame == b"\x88\x02" + (1000).to_bytes(2, "big")
    assert rest == b""
