"""Clients that read streams in every protocol and record the deltas, their times, and the end."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tests.server_process import ServerProcess

_MAX_LINE_BYTES = 1 << 20


def counting_script(count: int, pace: float) -> str:
    """A script for the workflow `scripted` that counts, with a pause of `pace` seconds after each number."""
    steps = [step for number in range(count) for step in ({"text": f"{number} "}, {"sleep": pace})]
    return msgspec.json.encode(steps).decode()


class StreamProtocol(NamedTuple):
    """The request of a stream and how to parse it."""

    path: str
    body: Callable[[str], dict[str, Any]]
    delta: Callable[[Any], str]
    """The text that a frame adds."""
    is_end: Callable[[Any], bool]
    """Whether a frame ends the stream, in any state."""


def _chat_delta(frame: Any) -> str:
    return frame["choices"][0]["delta"].get("content") or "" if frame.get("choices") else ""


def _openai_end(frame: Any) -> bool:
    return frame["type"] in ("response.completed", "response.incomplete", "response.failed")


PROTOCOLS: dict[str, StreamProtocol] = {
    "responses": StreamProtocol(
        "/scripted/v1/responses",
        lambda question: {"model": "scripted", "input": question, "stream": True, "store": True},
        lambda frame: frame["delta"] if frame["type"] == "response.output_text.delta" else "",
        _openai_end,
    ),
    "chat_completions": StreamProtocol(
        "/scripted/v1/chat/completions",
        lambda question: {"model": "scripted", "messages": [{"role": "user", "content": question}], "stream": True},
        _chat_delta,
        lambda frame: "error" in frame or any(choice["finish_reason"] for choice in frame["choices"]),
    ),
    "ui_stream": StreamProtocol(
        "/scripted/api/chat",
        lambda question: {"messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": question}]}]},
        lambda frame: frame["delta"] if frame["type"] == "text-delta" else "",
        lambda frame: frame["type"] in ("finish", "abort", "error"),
    ),
    "invoke": StreamProtocol(
        "/scripted/invoke",
        lambda question: {"messages": [{"role": "user", "content": question}], "flags": {"stream": True}},
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
    """Time of arrival and text of each delta."""
    frames: list[Any] = field(default_factory=list[Any])
    ended: bool = False
    """Whether the end was received."""
    plain: bytes = b""
    """The body of a response that is not a stream."""

    @property
    def run(self) -> str:
        """The run id; empty until received."""
        return self.headers.get("x-palaver-run-id", "")

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)

    async def read(self, port: int) -> None:
        """Send the request and read until the end, or until the connection is lost."""
        protocol = PROTOCOLS[self.protocol]
        body = msgspec.json.encode(self.body)
        head = f"POST {self.path or protocol.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_MAX_LINE_BYTES)
            try:
                writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await self._read_head(reader)
                async for line in reader:
                    self.take(line.strip(), asyncio.get_running_loop().time())
            finally:
                writer.close()

    async def _read_head(self, reader: asyncio.StreamReader) -> None:
        self.status = int((await reader.readuntil(b"\r\n")).split()[1])
        while line := (await reader.readuntil(b"\r\n")).decode().strip():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()

    def take(self, line: bytes, at: float = 0.0) -> None:
        """Process a line of a stream. Chunk sizes are skipped: no frame spans two chunks."""
        protocol = PROTOCOLS[self.protocol]
        if self.status != 200:
            self.plain += line
            return
        line = line.removeprefix(b"data: ")
        if line.startswith(b"{"):
            frame = msgspec.json.decode(line)
            self.frames.append(frame)
            if text := protocol.delta(frame):
                self.pieces.append((at, text))
            self.ended = self.ended or protocol.is_end(frame)


def make_clients(questions: Sequence[str]) -> list[StreamClient]:
    """Make a client for each question, alternating between the protocols."""
    names = list(PROTOCOLS)
    clients: list[StreamClient] = []
    for number, question in enumerate(questions):
        name = names[number % len(names)]
        body = PROTOCOLS[name].body(question)
        clients.append(StreamClient(name, body | {"id": f"chat-{number}"} if name == "ui_stream" else body))
    return clients


@asynccontextmanager
async def read_streams(server: ServerProcess, readers: Sequence[StreamClient]) -> AsyncGenerator[None]:
    """Read all streams concurrently; leaving the block waits for their ends."""
    tasks = [asyncio.create_task(reader.read(server.port)) for reader in readers]
    try:
        yield
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
