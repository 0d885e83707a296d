"""Query times of a server that holds many spans: the latest 50 of them, and a long trace."""

import http.client
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from statistics import median, quantiles
from typing import Any, NamedTuple

import msgspec

from benchmarks.context import MeasurementError
from benchmarks.figures import Figure, Goal, at_most
from benchmarks.servers import Server
from benchmarks.traces import chats

Query = tuple[str, Any]
"""A path, and a body for a POST; None for a GET."""


class _QueryKind(NamedTuple):
    name: str
    goal: Goal
    make_query: Callable[[int], Query]
    how: str


def measure_queries(
    server: Server, *, count: int, long_trace_spans: int, times: int, now: datetime, database_name: str
) -> Iterator[Figure]:
    """Measure every kind of query, each `times` times."""
    stored = f"{count:,} spans, {database_name}"
    for kind in _query_kinds(now):
        name = kind.name if "trace" in kind.name else f"latest 50 of {stored}: {kind.name}"
        milliseconds = _query_times_ms(server.port, [kind.make_query(number) for number in range(times)])
        yield Figure(
            name=name.format(long=f"{long_trace_spans:,}-span", of=database_name),
            value=_p95(milliseconds),
            unit="ms",
            goal=kind.goal,
            how=f"p95 of {times} requests over HTTP, {kind.how}; median {median(milliseconds):.1f} ms",
        )


def _query_kinds(now: datetime) -> Sequence[_QueryKind]:
    fields = "filtered by user, status, session, kind and model in turn"
    return [
        _QueryKind("indexed filter", at_most(50), _by_field, fields),
        _QueryKind("text search", at_most(300), _by_text, "for a common word, a rare one, both, and a phrase in turn"),
        _QueryKind(
            "attribute, within one day",
            at_most(1_000),
            lambda number: _by_attribute(number, now),
            "for a value that 1% or none of the spans have",
        ),
        _QueryKind(
            "{long} trace, {of}: page of the tree", at_most(100), _tree, "for 200 spans at the top or below the root"
        ),
        _QueryKind(
            "{long} trace, {of}: page of spans without content", at_most(150), _skeleton, "for the first 5,000 spans"
        ),
    ]


def _by_field(number: int) -> Query:
    fields = {
        "user": f"user-{number * 7 % chats.USERS}",
        "status": "error",
        "session": f"session-{number * 3}",
        "kind": "llm",
        "model": "gpt-4o-2024-08-06",
    }
    name = list(fields)[number % len(fields)]
    return _query(filter={"field": name, "op": "eq", "value": fields[name]})


def _by_text(number: int) -> Query:
    rare = f"word{4_000 + number * 13 % 1_000}"
    searches = (chats.COMMON_WORD, rare, f"{chats.COMMON_WORD} {rare}", f'"{chats.COMMON_WORD} the1"')
    return _query(search=searches[number % len(searches)])


def _by_attribute(number: int, now: datetime) -> Query:
    until = now - timedelta(days=2 + number % 10)
    value = f"/shop/{number % chats.ROUTES}" if number % 2 else "/nowhere"
    attribute_filter = {"attribute": "http.route", "op": "eq", "value": value}
    return _query(filter=attribute_filter, to=until.isoformat(), **{"from": (until - timedelta(days=1)).isoformat()})


def _query(**parameters: Any) -> Query:
    return "/api/spans/query", {"limit": 50, **parameters}


def _tree(number: int) -> Query:
    parent = f"&parent={1:016x}" if number % 2 else ""
    return f"/api/traces/{chats.LONG_TRACE_ID.hex()}/tree?limit=200{parent}", None


def _skeleton(_: int) -> Query:
    return f"/api/traces/{chats.LONG_TRACE_ID.hex()}/skeleton?limit=5000", None


def _query_times_ms(port: int, queries: Sequence[Query]) -> list[float]:
    """Milliseconds of each query, after warming up with the first ones."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    milliseconds: list[float] = []
    for path, body in [*queries[:4], *queries]:
        since = time.perf_counter()
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, msgspec.json.encode(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        milliseconds.append((time.perf_counter() - since) * 1000)
        if answer.status != 200:
            raise MeasurementError(f"{path} responded with {answer.status}: {content[:200]!r}")
    connection.close()
    return milliseconds[4:]


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
