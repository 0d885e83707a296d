"""The load without a C compiler: takes the words of generator.c, does the same with asyncio, prints the same line.

It reads no more than it must: an event is a blank line, a streamed answer ends with the empty chunk. That holds for the
servers measured here, whose events are one line each, and lets it keep up with a server written in Python.
"""

import asyncio
import re
import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import cast

import msgspec

_LAST_CHUNK = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Counters:
    """What all connections have in common: the request, the clock, the counts."""

    def __init__(self, words: Mapping[str, str]) -> None:
        body = words.get("body", "").encode()
        lines = [
            f"POST {words['path']} HTTP/1.1",
            f"host: 127.0.0.1:{words['port']}",
            f"accept: {words.get('accept', '*/*')}",
            "content-type: application/json",
            f"content-length: {len(body)}",
        ]
        self.request = "\r\n".join([*lines, "", ""]).encode() + body
        self.most = int(words.get("requests", 1 << 40))
        self.expected = int(words.get("expected", -1))
        self.begin = time.monotonic() + float(words.get("warm_up", 0))
        self.end = self.begin + float(words.get("seconds", 1))
        self.started = self.requests = self.events = self.events_all = self.failed = self.wrong = self.held = (
            self.reads
        ) = 0
        self.firsts: list[float] = []
        self.latencies: list[float] = []


class _Connection(asyncio.Protocol):
    def __init__(self, tally: _Counters) -> None:
        self._tally = tally
        self._closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by class.
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's promise
        if not self._complete:
            self._tally.failed += 1
        self._closed.set_result(None)

    async def closed(self) -> None:
        await self._closed

    def _ask(self) -> None:
        self._complete = False
        self._head: bytes | None = b""
        self._left = 0
        self._chunked = False
        self._tail = b""
        self._events = 0
        self._tally.started += 1
        self._sent = time.monotonic()
        self._transport.write(self._tally.request)

    def data_received(self, data: bytes) -> None:
        self._tally.reads += 1
        if self._head is not None:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._head = None
            length = _LENGTH.search(head)
            self._chunked, self._left = length is None, int(length[1]) if length else 0
            if not head.startswith(b"HTTP/1.1 200 "):
                self._transport.abort()
                return
        self._count((self._tail[-1:] + data).count(b"\n\n"))
        self._tail = (self._tail + data)[-len(_LAST_CHUNK) :]
        self._left -= len(data)
        if self._tail == _LAST_CHUNK if self._chunked else self._left <= 0:
            self._end()

    def _count(self, events: int) -> None:
        if not events:
            return
        tally, now = self._tally, time.monotonic()
        inside = tally.begin <= now < tally.end
        if not self._events:
            tally.held += 1
            if inside:
                tally.firsts.append(now - self._sent)
        self._events += events
        tally.events_all += events
        if inside:
            tally.events += events

    def _end(self) -> None:
        tally, now = self._tally, time.monotonic()
        self._complete = True
        if tally.expected not in (-1, self._events):
            tally.wrong += 1
        if tally.begin <= now < tally.end:
            tally.requests += 1
            tally.latencies.append(now - self._sent)
        if now < tally.end and tally.started < tally.most:
            self._ask()
        else:
            self._transport.close()


async def _generate_load(words: Mapping[str, str]) -> None:
    tally = _Counters(words)
    wanted, hold = int(words.get("connections", 1)), words.get("hold") == "1"
    begun, used = time.monotonic(), time.process_time()
    opening = begun
    connections: list[_Connection] = []
    while len(connections) < min(wanted, tally.most) and time.monotonic() < tally.end:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(tally), "127.0.0.1", int(words["port"])
        )
        connections.append(connection)
        opening += 1 / float(words.get("opened_per_second", 1e9))
        await asyncio.sleep(opening - time.monotonic())
    if hold:
        while tally.held + tally.failed < wanted and time.monotonic() < tally.end:  # noqa: ASYNC110 - no event per event
            await asyncio.sleep(0.01)
    else:
        _, late = await asyncio.wait(
            [asyncio.ensure_future(c.closed()) for c in connections], timeout=tally.end - begun + 10
        )
        tally.failed += len(late)
    end = time.monotonic()
    counted = {
        "requests": tally.requests,
        "events": tally.events,
        "seconds": min(end, tally.end) - tally.begin,
        "events_all": tally.events_all,
        "failed": tally.failed,
        "wrong": tally.wrong,
        "held": tally.held,
        "first_event_ms": median(tally.firsts or [0]) * 1e3,
        "latency_ms": median(tally.latencies or [0]) * 1e3,
        "reads": tally.reads,
        "busy": (time.process_time() - used) / (end - begun),
    }
    print(msgspec.json.encode(counted).decode(), flush=True)
    if hold:
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Load a server as the words of the command line say."""
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    run(_generate_load(dict(word.split("=", 1) for word in sys.argv[1:])))


if __name__ == "__main__":
    main()
