"""Concurrent requests to /v1/traces, as exporters send them: each connection waits for its answer."""

import http.client
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import msgspec

from benchmarks import machine
from benchmarks.context import MeasurementError
from benchmarks.servers import Server

CONNECTIONS = 4
MediaType = Literal["application/x-protobuf", "application/json"]
PROTOBUF: MediaType = "application/x-protobuf"
JSON: MediaType = "application/json"
_RETRY_INTERVAL_S = 0.05
_TIMEOUT_S = 120


class SendResult(msgspec.Struct, frozen=True):
    seconds: float
    waits: list[float]
    """Milliseconds to the answer of each accepted request."""
    refused: int
    """Number of answers with status 429 or 503."""


def send_spans(
    server: Server,
    bodies: Iterable[bytes],
    *,
    media_type: MediaType = PROTOBUF,
    connections: int = CONNECTIONS,
    on_sent: Callable[[], None] | None = None,
) -> SendResult:
    """Send all bodies from the load's core. The first connection calls `on_sent` after each of its requests."""
    shared = _SharedIterator(iter(bodies))
    since = time.perf_counter()
    with machine.pin_to_core(machine.LOAD_CORE), ThreadPoolExecutor(connections) as pool:
        senders = [
            pool.submit(_send_all, server, shared, media_type, on_sent if not number else None)
            for number in range(connections)
        ]
        parts = [sender.result() for sender in senders]
    waits = [wait for part, _ in parts for wait in part]
    return SendResult(time.perf_counter() - since, waits, sum(refused for _, refused in parts))


class _SharedIterator:
    """An iterator for several threads."""

    def __init__(self, iterator: Iterator[bytes]) -> None:
        self._iterator = iterator
        self._lock = threading.Lock()

    def next(self) -> bytes | None:
        with self._lock:
            return next(self._iterator, None)


def _send_all(
    server: Server, bodies: _SharedIterator, media_type: MediaType, on_sent: Callable[[], None] | None
) -> tuple[list[float], int]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    waits: list[float] = []
    refused = 0
    while (body := bodies.next()) is not None:
        while True:
            since = time.perf_counter()
            connection.request("POST", "/v1/traces", body, {"content-type": media_type})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status not in (429, 503):
                break
            refused += 1
            time.sleep(_RETRY_INTERVAL_S)
        if answer.status != 200 or b"rejected" in content:
            raise MeasurementError(f"{server.name} responded to spans with {answer.status}: {content[:200]!r}")
        waits.append((time.perf_counter() - since) * 1000)
        if on_sent is not None:
            on_sent()
    connection.close()
    return waits, refused
