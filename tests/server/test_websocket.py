"""Connections of sockets, apart from what is said on them."""

import asyncio
import logging
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from palaver.server.settings import Settings
from palaver.server.websocket import sockets
from tests.socketed import opening_of

NO_FRAME = b"\xff" * 20


async def test_one_that_does_not_wait_for_the_opening_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    asked, ended = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        seen.append((await receive())["type"])
        asked.set()
        seen.append((await receive())["type"])
        with pytest.raises(OSError):  # noqa: PT011  # uvicorn's has no words of its own.
            await send({"type": "websocket.accept"})
        ended.set()

    config = uvicorn.Config(slow, ws=sockets(Settings()), log_config=None)
    config.load()
    loop, state = asyncio.get_running_loop(), ServerState()
    listening = await loop.create_server(lambda: sockets(Settings())(config, state, {}), "127.0.0.1", 0)
    with caplog.at_level(logging.ERROR):
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(opening_of())
        await asyncio.wait_for(asked.wait(), 10)
        writer.write(NO_FRAME)
        answer = await asyncio.wait_for(reader.read(), 10)
        await asyncio.wait_for(ended.wait(), 10)
        writer.close()
        await writer.wait_closed()
    listening.close()
    await listening.wait_closed()

    assert answer == b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    assert seen == ["websocket.connect", "websocket.disconnect"]
    assert not caplog.records
