"""Rounds: several servers asked the same in turn, so that each figure stands beside the others of the same minute."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks import load, machine
from benchmarks.context import BenchmarkContext
from benchmarks.load import LoadResult
from benchmarks.servers import Server

CLIENTS = 64
MAX_OTHER_LOAD = 0.15
"""Of a core: more than that for others, and a round says little."""


class RequestPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one server."""

    streams: str
    """The path of a stream of 200 pieces of text,"""
    stream_body: str
    events: int
    """and how many events it has."""
    echoes: str
    """The path of a short answer that is not streamed."""
    echo_body: str
    accept: str = "*/*"


class Round(msgspec.Struct, frozen=True):
    """One server for one round."""

    streams: LoadResult
    alone: LoadResult
    """Streams, one client."""
    echoes: LoadResult
    microseconds: float
    """Processor time of the server per event."""
    others: float
    """How much of a core anybody else worked while it streamed."""


def undisturbed_rounds(stand: BenchmarkContext, asked: Mapping[Server, RequestPlan]) -> list[list[Round]]:
    """Rounds of all servers in turn, as many as wanted; those that others disturbed are done again, for a while."""
    wanted, most = stand.choose(full=(3, 7), quick=(1, 1))
    calm: list[list[Round]] = []
    disturbed: list[list[Round]] = []
    while len(calm) < wanted and len(calm) + len(disturbed) < most:
        rounds = [_run_round(stand, server, what) for server, what in asked.items()]
        (calm if max_other_load(rounds) < MAX_OTHER_LOAD else disturbed).append(rounds)
    return (calm + sorted(disturbed, key=max_other_load))[:wanted]


def max_other_load(rounds: Sequence[Round]) -> float:
    """How much of a core anybody else worked, at most."""
    return max(each.others for each in rounds)


def _run_round(stand: BenchmarkContext, server: Server, asked: RequestPlan) -> Round:
    seconds = stand.choose(full=3.0, quick=0.5)
    words = {"accept": asked.accept, "body": asked.stream_body, "expected": asked.events}
    since, busy, before = time.perf_counter(), machine.busy_seconds(), machine.processor_seconds(server.pid)
    streams = load.run_load(stand, server, asked.streams, connections=CLIENTS, seconds=seconds, **words)
    used = machine.processor_seconds(server.pid) - before
    disturbed = (machine.busy_seconds() - busy - used) / (time.perf_counter() - since) - streams.busy
    calls = stand.choose(full=300, quick=20)
    alone = load.run_load(stand, server, asked.streams, requests=calls, seconds=seconds, warm_up=0, **words)
    words = {"body": asked.echo_body, "expected": 0}
    echoes = load.run_load(stand, server, asked.echoes, connections=CLIENTS, seconds=seconds / 2, **words)
    return Round(streams, alone, echoes, used / streams.events_all * 1e6, max(0.0, disturbed))
