"""Many clients that read streams, in every protocol: what each was told, when, and whether it was told the end."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tests.server_process import ServerProcess

_MAX_LINE_BYTES = 1 << 20


def counting_script(words: int, pace: float) -> str:
    """What makes the workflow `scripted` say the numbers up to that, one each so many seconds."""
    said = [step for number in range(words) for step in ({"text": f"{number} "}, {"sleep": pace})]
    return msgspec.json.encode(said).decode()


class StreamProtocol(NamedTuple):
    """How to ask for a stream, and how to read it."""

    path: str
    body: Callable[[str], dict[str, Any]]
    delta: Callable[[Any], str]
    """The text that a frame adds."""
    ends: Callable[[Any], bool]
    """Does a frame tell the end, whichever?"""


def _chat_delta(frame: Any) -> str:
    return frame["choices"][0]["delta"].get("content") or "" if frame.get("choices") else ""


def _openai_end(frame: Any) -> bool:
    return frame["type"] in ("response.completed", "response.incomplete", "response.failed")


PROTOCOLS: dict[str, StreamProtocol] = {
    "responses": StreamProtocol(
        "/scripted/v1/responses",
        lambda asked: {"model": "scripted", "input": asked, "stream": True, "store": True},
        lambda frame: frame["delta"] if frame["type"] == "response.output_text.delta" else "",
        _openai_end,
    ),
    "chat_completions": StreamProtocol(
        "/scripted/v1/chat/completions",
        lambda asked: {"model": "scripted", "messages": [{"role": "user", "content": asked}], "stream": True},
        _chat_delta,
        lambda frame: "error" in frame or any(choice["finish_reason"] for choice in frame["choices"]),
    ),
    "ui_stream": StreamProtocol(
        "/scripted/api/chat",
        lambda asked: {"messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": asked}]}]},
        lambda frame: frame["delta"] if frame["type"] == "text-delta" else "",
        lambda frame: frame["type"] in ("finish", "abort", "error"),
    ),
    "invoke": StreamProtocol(
        "/scripted/invoke",
        lambda asked: {"messages": [{"role": "user", "content": asked}], "flags": {"stream": True}},
        lambda frame: frame["data"].get("delta", "") if frame["type"] == "message_delta" else "",
        lambda frame: frame["type"] == "done",
    ),
}


@dataclass
class StreamClient:
    """One reader of one stream."""

    protocol: str
    body: dict[str, Any]
    path: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    pieces: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """What was said, and when we read it."""
    frames: list[Any] = field(default_factory=list[Any])
    ended: bool = False
    """Was it told the end?"""
    plain: bytes = b""
    """The body of an answer that is no stream."""

    @property
    def run(self) -> str:
        """The name of the run; empty while the client has not learnt it."""
        return self.headers.get("x-palaver-run-id", "")

    @property
    def text(self) -> str:
        """All that was said to it."""
        return "".join(piece for _, piece in self.pieces)

    async def read(self, port: int) -> None:
        """Ask, and read until the end, or until the server is gone."""
        protocol = PROTOCOLS[self.protocol]
        body = msgspec.json.encode(self.body)
        head = f"POST {self.path or protocol.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_MAX_LINE_BYTES)
            try:
                writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await self._head(reader)
                async for line in reader:
                    self.take(line.strip(), asyncio.get_running_loop().time())
            finally:
                writer.close()

    async def _head(self, reader: asyncio.StreamReader) -> None:
        self.status = int((await reader.readuntil(b"\r\n")).split()[1])
        while line := (await reader.readuntil(b"\r\n")).decode().strip():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()

    def take(self, line: bytes, at: float = 0.0) -> None:
        """A line of a stream. Those that tell how long a chunk is are passed over: none has a frame in two chunks."""
        protocol = PROTOCOLS[self.protocol]
        if self.status != 200:
            self.plain += line
            return
        line = line.removeprefix(b"data: ")
        if line.startswith(b"{"):
            frame = msgspec.json.decode(line)
            self.frames.append(frame)
            if said := protocol.delta(frame):
                self.pieces.append((at, said))
            self.ended = self.ended or protocol.ends(frame)


def make_clients(asked: Sequence[str]) -> list[StreamClient]:
    """A client for each of these, in every protocol by turns."""
    names = list(PROTOCOLS)
    found: list[StreamClient] = []
    for number, one in enumerate(asked):
        name = names[number % len(names)]
        body = PROTOCOLS[name].body(one)
        found.append(StreamClient(name, body | {"id": f"chat-{number}"} if name == "ui_stream" else body))
    return found


@asynccontextmanager
async def read_streams(server: ServerProcess, readers: Sequence[StreamClient]) -> AsyncGenerator[None]:
    """Let them all read; at the end of the block all have come to an end, whichever."""
    tasks = [asyncio.create_task(reader.read(server.port)) for reader in readers]
    try:
        yield
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
