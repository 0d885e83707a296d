"""The cost of tracing a run: processor time of the server with and without tracing."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from benchmarks import load, machine, servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most, half_range
from benchmarks.servers import Server
from benchmarks.workflows import TOKENS

_CLIENTS = 16
_MAX_FIRST_DELTA_RATIO = 1.1
"""Largest ratio of the times to the first delta that counts as equal; within measurement error."""


class RunCost(NamedTuple):
    """One server in one round: microseconds of processor time per run, by workflow, and ms to the first delta."""

    say: float
    look: float
    tokens: float
    first: float


def measure_overhead(context: BenchmarkContext) -> Iterator[Figure]:
    """Compare two servers that record runs, one of them with tracing."""
    rounds = context.choose(full=15, quick=1)  # Short and alternating, because the machine's speed varies.
    with (
        servers.run_palaver(context, record="full", PALAVER_TRACE_CONTENT="off") as off,
        servers.run_palaver(context, record="full", PALAVER_TRACE_CONTENT="full") as on,
    ):
        pairs = [(_measure_costs(context, off), _measure_costs(context, on)) for _ in range(rounds)]
    yield from overhead_figures(pairs)


def overhead_figures(pairs: Sequence[tuple[RunCost, RunCost]]) -> Iterator[Figure]:
    """Figures of pairs of rounds without and with tracing."""
    setup = (
        f"/invoke over HTTP, {_CLIENTS} clients, runs recorded in SQLite in both cases; median of {len(pairs)} rounds"
    )
    for name, kind in (("say", "one-word output"), ("look", "one tool call, two spans")):
        increases = [getattr(on, name) - getattr(off, name) for off, on in pairs]
        without = median(getattr(off, name) for off, _ in pairs)
        yield Figure(
            name=f"CPU time for tracing a run: {kind}",
            value=median(increases),
            spread=half_range(increases),
            unit="µs",
            goal=at_most(300),
            how=f"in addition to the {without:,.0f} µs per run without tracing; {setup}",
        )
    per_event = [((on.tokens - off.tokens) - (on.say - off.say)) / len(TOKENS) for off, on in pairs]
    yield Figure(
        name="CPU time for tracing a run: each delta",
        value=median(per_event),
        spread=half_range(per_event),
        unit="µs",
        goal=at_most(2),
        how=f"additional CPU time per delta, from runs with {len(TOKENS)} deltas and runs with one",
    )
    ratios = [on.first / off.first for off, on in pairs]
    yield Figure(
        name="time to the first delta with tracing, relative to without",
        value=median(ratios),
        spread=half_range(ratios),
        goal=at_most(_MAX_FIRST_DELTA_RATIO),
        how=f"median, one client: {median(on.first for _, on in pairs):.2f} ms with tracing, "
        f"{median(off.first for off, _ in pairs):.2f} ms without",
    )


def _measure_costs(context: BenchmarkContext, server: Server) -> RunCost:
    say, look, tokens = (_microseconds_per_run(context, server, name) for name in ("say", "look", "tokens"))
    calls = context.choose(full=100, quick=20)
    options = {"accept": load.SSE, "body": load.CHAT_BODY, "requests": calls, "warm_up": 0}
    first = load.run_load(context, server, "/tokens/invoke", seconds=context.choose(full=1.0, quick=0.5), **options)
    return RunCost(say, look, tokens, first.first_event_ms)


def _microseconds_per_run(context: BenchmarkContext, server: Server, workflow: str) -> float:
    """Microseconds per run, including work after the last answer."""
    runs = context.choose(full=1_000 if workflow != "tokens" else 200, quick=100)
    body = msgspec.json.encode({"messages": [{"role": "user", "content": "Weather in Oslo?"}]}).decode()
    options = {"accept": load.SSE, "body": body, "connections": _CLIENTS, "requests": runs, "warm_up": 0}
    before = machine.processor_seconds(server.pid)
    result = load.run_load(context, server, f"/{workflow}/invoke", seconds=60, **options)
    machine.wait_until_idle(server.pid)
    return (machine.processor_seconds(server.pid) - before) / max(1, result.requests) * 1e6
