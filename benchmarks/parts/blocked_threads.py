"""The latency of async workflows while sync workflows block their threads."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from statistics import median

import msgspec

from benchmarks import machine, servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_most
from benchmarks.servers import Server

_BLOCKED_RUNS = 4
_CALLS = 200


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    seconds = context.choose(full=5.0, quick=1.0)
    with servers.run_palaver(context) as server, machine.pin_to_core(machine.LOAD_CORE):
        with closing(_connection(server)) as connection:
            _call(connection, "echo", number=0)
        milliseconds = _times_while_blocked(server, seconds)
    yield Figure(
        name="response time while sync workflows block",
        value=max(milliseconds),
        unit="ms",
        goal=at_most(20),
        how=f"slowest of {_CALLS} calls to an async workflow, while {_BLOCKED_RUNS} sync workflows each block a worker "
        f"thread for {seconds:g} s; median {median(milliseconds):.2f} ms",
    )


def _times_while_blocked(server: Server, seconds: float) -> list[float]:
    with ExitStack() as stack:
        blocked = [stack.enter_context(closing(_connection(server))) for _ in range(_BLOCKED_RUNS)]
        for connection in blocked:
            _send(connection, "block", seconds=seconds)
        caller = stack.enter_context(closing(_connection(server)))
        time.sleep(0.1)
        _check_blocked(server)
        milliseconds: list[float] = []
        started_at = time.perf_counter()
        for number in range(_CALLS):
            due_at = started_at + number * seconds * 0.7 / _CALLS  # Spread over most of the blocked time.
            time.sleep(max(0.0, due_at - time.perf_counter()))
            sent_at = time.perf_counter()
            _call(caller, "echo", number=number)
            milliseconds.append((time.perf_counter() - sent_at) * 1e3)
        _check_blocked(server)
        for connection in blocked:
            connection.getresponse().read()
        return milliseconds


def _check_blocked(server: Server) -> None:
    _, metrics = servers.get(server.port, "/metrics")
    if b"\npalaver_threads_busy %.1f\n" % _BLOCKED_RUNS not in metrics:
        raise MeasurementError(f"not all of {_BLOCKED_RUNS} blocking runs were under way")


def _connection(server: Server) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", server.port, timeout=30)


def _send(connection: HTTPConnection, workflow: str, **inputs: object) -> None:
    body = msgspec.json.encode({"inputs": inputs})
    connection.request("POST", f"/{workflow}/invoke", body, {"content-type": "application/json"})


def _call(connection: HTTPConnection, workflow: str, **inputs: object) -> None:
    _send(connection, workflow, **inputs)
    answer = connection.getresponse()
    if (answer.status, msgspec.json.decode(answer.read())) != (200, inputs):
        raise MeasurementError(f"{workflow} answered {answer.status}")
