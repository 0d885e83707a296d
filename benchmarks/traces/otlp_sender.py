"""Requests to /v1/traces, several at once, as exporters send them: a connection sends its next when it is answered."""

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
_RETRY_INTERVAL_S = 0.05  # Seconds until what was refused for now is sent again.
_TIMEOUT_S = 120


class SendResult(msgspec.Struct, frozen=True):
    """What came of it."""

    seconds: float
    waits: list[float]
    """Milliseconds until each request that was taken had its answer."""
    refused: int
    """How often one was told to come back later."""


def send_spans(
    server: Server,
    bodies: Iterable[bytes],
    *,
    form: MediaType = PROTOBUF,
    connections: int = CONNECTIONS,
    seen: Callable[[], None] | None = None,
) -> SendResult:
    """Send all of them, from the load's core. `seen` is called now and then, by one of those that send."""
    one_by_one = _SharedIterator(iter(bodies))
    since = time.perf_counter()
    with machine.pin_to_core(machine.LOAD_CORE), ThreadPoolExecutor(connections) as pool:
        senders = [
            pool.submit(_send_all, server, one_by_one, form, seen if not place else None)
            for place in range(connections)
        ]
        parts = [sender.result() for sender in senders]
    waits = [wait for part, _ in parts for wait in part]
    return SendResult(time.perf_counter() - since, waits, sum(refused for _, refused in parts))


class _SharedIterator:
    """An iterator for several threads."""

    def __init__(self, of: Iterator[bytes]) -> None:
        self._of = of
        self._lock = threading.Lock()

    def take(self) -> bytes | None:
        with self._lock:
            return next(self._of, None)


def _send_all(
    server: Server, bodies: _SharedIterator, form: MediaType, seen: Callable[[], None] | None
) -> tuple[list[float], int]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    waits: list[float] = []
    refused = 0
    while (body := bodies.take()) is not None:
        while True:
            since = time.perf_counter()
            connection.request("POST", "/v1/traces", body, {"content-type": form})
            answer = connection.getresponse()
            told = answer.read()
            if answer.status not in (429, 503):
                break
            refused += 1
            time.sleep(_RETRY_INTERVAL_S)
        if answer.status != 200 or b"rejected" in told:
            raise MeasurementError(f"{server.name} answered {answer.status} to spans: {told[:200]!r}")
        waits.append((time.perf_counter() - since) * 1000)
        if seen is not None:
            seen()
    connection.close()
    return waits, refused
