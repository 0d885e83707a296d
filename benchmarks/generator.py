"""The load generator without a C compiler: the arguments and the output of generator.c, implemented with asyncio.

It parses as little as possible: a blank line ends an event, an empty chunk ends a stream. That is enough for the
servers measured here, whose events are one line each, and keeps the generator faster than a server written in Python.
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
    """State shared by all connections: the request, the time window, the counts."""

    def __init__(self, options: Mapping[str, str]) -> None:
        body = options.get("body", "").encode()
        lines = [
            f"POST {options['path']} HTTP/1.1",
            f"host: 127.0.0.1:{options['port']}",
            f"accept: {options.get('accept', '*/*')}",
            "content-type: application/json",
            f"content-length: {len(body)}",
        ]
        self.request = "\r\n".join([*lines, "", ""]).encode() + body
        self.max_requests = int(options.get("requests", 1 << 40))
        self.expected = int(options.get("expected", -1))
        self.window_start = time.monotonic() + float(options.get("warm_up", 0))
        self.window_end = self.window_start + float(options.get("seconds", 1))
        self.started = self.requests = self.events = self.events_all = self.failed = self.wrong = self.held = (
            self.reads
        ) = 0
        self.firsts: list[float] = []
        self.latencies: list[float] = []


class _Connection(asyncio.Protocol):
    def __init__(self, counters: _Counters) -> None:
        self._counters = counters
        self._closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass of asyncio's.
        self._send_request()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's interface
        if not self._complete:
            self._counters.failed += 1
        self._closed.set_result(None)

    async def closed(self) -> None:
        await self._closed

    def _send_request(self) -> None:
        self._complete = False
        self._head: bytes | None = b""
        self._remaining_bytes = 0
        self._chunked = False
        self._tail = b""
        self._event_count = 0
        self._counters.started += 1
        self._sent_at = time.monotonic()
        self._transport.write(self._counters.request)

    def data_received(self, data: bytes) -> None:
        self._counters.reads += 1
        if self._head is not None:
            self._head += data
            head, separator, data = self._head.partition(b"\r\n\r\n")
            if not separator:
                return
            self._head = None
            length = _LENGTH.search(head)
            self._chunked, self._remaining_bytes = length is None, int(length[1]) if length else 0
            if not head.startswith(b"HTTP/1.1 200 "):
                self._transport.abort()
                return
        self._count((self._tail[-1:] + data).count(b"\n\n"))
        self._tail = (self._tail + data)[-len(_LAST_CHUNK) :]
        self._remaining_bytes -= len(data)
        if self._tail == _LAST_CHUNK if self._chunked else self._remaining_bytes <= 0:
            self._end()

    def _count(self, events: int) -> None:
        if not events:
            return
        counters, now = self._counters, time.monotonic()
        in_window = counters.window_start <= now < counters.window_end
        if not self._event_count:
            counters.held += 1
            if in_window:
                counters.firsts.append(now - self._sent_at)
        self._event_count += events
        counters.events_all += events
        if in_window:
            counters.events += events

    def _end(self) -> None:
        counters, now = self._counters, time.monotonic()
        self._complete = True
        if counters.expected not in (-1, self._event_count):
            counters.wrong += 1
        if counters.window_start <= now < counters.window_end:
            counters.requests += 1
            counters.latencies.append(now - self._sent_at)
        if now < counters.window_end and counters.started < counters.max_requests:
            self._send_request()
        else:
            self._transport.close()


async def _generate_load(options: Mapping[str, str]) -> None:
    counters = _Counters(options)
    connection_count, hold_open = int(options.get("connections", 1)), options.get("hold") == "1"
    started_at, processor_start = time.monotonic(), time.process_time()
    next_open_at = started_at
    connections: list[_Connection] = []
    while len(connections) < min(connection_count, counters.max_requests) and time.monotonic() < counters.window_end:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(counters), "127.0.0.1", int(options["port"])
        )
        connections.append(connection)
        next_open_at += 1 / float(options.get("opened_per_second", 1e9))
        await asyncio.sleep(next_open_at - time.monotonic())
    if hold_open:
        while counters.held + counters.failed < connection_count and time.monotonic() < counters.window_end:  # noqa: ASYNC110 - no event per event
            await asyncio.sleep(0.01)
    else:
        _, unfinished = await asyncio.wait(
            [asyncio.ensure_future(c.closed()) for c in connections], timeout=counters.window_end - started_at + 10
        )
        counters.failed += len(unfinished)
    end = time.monotonic()
    result = {
        "requests": counters.requests,
        "events": counters.events,
        "seconds": min(end, counters.window_end) - counters.window_start,
        "events_all": counters.events_all,
        "failed": counters.failed,
        "wrong": counters.wrong,
        "held": counters.held,
        "first_event_ms": median(counters.firsts or [0]) * 1e3,
        "latency_ms": median(counters.latencies or [0]) * 1e3,
        "reads": counters.reads,
        "busy": (time.process_time() - processor_start) / (end - started_at),
    }
    print(msgspec.json.encode(result).decode(), flush=True)
    if hold_open:
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Load a server with the options of the command line."""
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    run(_generate_load(dict(option.split("=", 1) for option in sys.argv[1:])))


if __name__ == "__main__":
    main()
