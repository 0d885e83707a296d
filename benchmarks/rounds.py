"""Rounds of load on several servers in turn, so that their figures are from the same minutes."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks import load, machine
from benchmarks.context import BenchmarkContext
from benchmarks.load import LoadResult
from benchmarks.servers import Server

CLIENTS = 64
MAX_OTHER_LOAD = 0.15
"""Share of a core; with more load by other processes a round is repeated."""


class RequestPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The requests to one server."""

    streams: str
    """Path of a stream of 200 deltas."""
    stream_body: str
    events: int
    """Number of events of the stream."""
    echoes: str
    """Path of a short answer that is not streamed."""
    echo_body: str
    accept: str = "*/*"


class Round(msgspec.Struct, frozen=True):
    """Results of one server in one round."""

    streams: LoadResult
    single_client: LoadResult
    """Streams of a single client."""
    echoes: LoadResult
    microseconds: float
    """Processor time of the server per event."""
    other_load: float
    """Share of a core used by other processes during the streams."""


def undisturbed_rounds(context: BenchmarkContext, plans: Mapping[Server, RequestPlan]) -> list[list[Round]]:
    """Run rounds of all servers in turn; rounds disturbed by other processes are repeated, up to a limit."""
    target, limit = context.choose(full=(3, 7), quick=(1, 1))
    calm: list[list[Round]] = []
    disturbed: list[list[Round]] = []
    while len(calm) < target and len(calm) + len(disturbed) < limit:
        rounds = [_run_round(context, server, plan) for server, plan in plans.items()]
        (calm if max_other_load(rounds) < MAX_OTHER_LOAD else disturbed).append(rounds)
    return (calm + sorted(disturbed, key=max_other_load))[:target]


def max_other_load(rounds: Sequence[Round]) -> float:
    """Return the largest share of a core used by other processes."""
    return max(round_.other_load for round_ in rounds)


def _run_round(context: BenchmarkContext, server: Server, plan: RequestPlan) -> Round:
    seconds = context.choose(full=3.0, quick=0.5)
    options = {"accept": plan.accept, "body": plan.stream_body, "expected": plan.events}
    started_at, busy, before = time.perf_counter(), machine.busy_seconds(), machine.processor_seconds(server.pid)
    streams = load.run_load(context, server, plan.streams, connections=CLIENTS, seconds=seconds, **options)
    processor = machine.processor_seconds(server.pid) - before
    other_load = (machine.busy_seconds() - busy - processor) / (time.perf_counter() - started_at) - streams.busy
    calls = context.choose(full=300, quick=20)
    single_client = load.run_load(context, server, plan.streams, requests=calls, seconds=seconds, warm_up=0, **options)
    options = {"body": plan.echo_body, "expected": 0}
    echoes = load.run_load(context, server, plan.echoes, connections=CLIENTS, seconds=seconds / 2, **options)
    return Round(streams, single_client, echoes, processor / streams.events_all * 1e6, max(0.0, other_load))
