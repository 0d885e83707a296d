"""Streams at full speed, against a bare application that sends the same bytes: what all of Palaver costs per event.

One event per turn of the loop, as tokens arrive. A producer that never waits would only measure how writes merge.
"""

import time
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from benchmarks import load, machine, raw, servers
from benchmarks.figures import Figure, at_least, half_range
from benchmarks.load import ASKED, SSE, Counted
from benchmarks.servers import Server
from benchmarks.stand import Stand

_CLIENTS = 64
_CALM = 0.15  # Of a core: more than that for others, and a round says little.
_ECHOED = '{"inputs":{"text":"Hello there","number":7}}'


class _Round(msgspec.Struct, frozen=True):
    """One server for one round."""

    streams: Counted
    alone: Counted
    """Streams, one client."""
    echoes: Counted
    microseconds: float
    """Processor time of the server per event."""
    others: float
    """How much of a core anybody else worked while it streamed."""


def measure(stand: Stand) -> Iterator[Figure]:
    with servers.bare(stand) as bare, servers.palaver(stand) as palaver:
        rounds = _calm_rounds(stand, bare, palaver)
    apart = f"cores {machine.SERVER_CORE} and {machine.LOAD_CORE}" if machine.LOAD_CORE else "not pinned: one core"
    yield from _figures([pair[0] for pair in rounds], [pair[1] for pair in rounds], f"{load.kind(stand)}, {apart}")


def _calm_rounds(stand: Stand, bare: Server, palaver: Server) -> list[tuple[_Round, _Round]]:
    """Rounds of both servers in turn, as many as wanted; those that others disturbed are done again, for a while."""
    wanted, most = stand.choose(full=(3, 7), quick=(1, 1))
    calm: list[tuple[_Round, _Round]] = []
    disturbed: list[tuple[_Round, _Round]] = []
    while len(calm) < wanted and len(calm) + len(disturbed) < most:
        pair = _round(stand, bare), _round(stand, palaver)
        (calm if _others(pair) < _CALM else disturbed).append(pair)
    return (calm + sorted(disturbed, key=_others))[:wanted]


def _others(rounds: Sequence[_Round]) -> float:
    return max(each.others for each in rounds)


def _round(stand: Stand, server: Server) -> _Round:
    path, seconds = "/tokens/invoke", stand.choose(full=3.0, quick=0.5)
    asked = {"accept": SSE, "body": ASKED, "expected": raw.EVENTS}
    since, busy, before = time.perf_counter(), machine.busy_seconds(), machine.processor_seconds(server.pid)
    streams = load.run(stand, server, path, connections=_CLIENTS, seconds=seconds, **asked)
    used = machine.processor_seconds(server.pid) - before
    others = (machine.busy_seconds() - busy - used) / (time.perf_counter() - since) - streams.busy
    calls = stand.choose(full=300, quick=20)
    alone = load.run(stand, server, path, requests=calls, seconds=seconds, warm_up=0, **asked)
    echoes = load.run(
        stand, server, "/echo/invoke", connections=_CLIENTS, seconds=seconds / 2, body=_ECHOED, expected=0
    )
    return _Round(streams, alone, echoes, used / streams.events_all * 1e6, max(0.0, others))


def _figures(bare: Sequence[_Round], palaver: Sequence[_Round], setting: str) -> Iterator[Figure]:
    streamed = [[each.streams.events_per_second for each in side] for side in (bare, palaver)]
    busy = max(each.streams.busy for each in (*bare, *palaver))
    yield Figure(
        name="paced streams / bare ASGI",
        value=median(streamed[1]) / median(streamed[0]),
        spread=half_range([ours / theirs for theirs, ours in zip(*streamed, strict=True)]),
        goal=at_least(0.7, must=0.6),
        how=f"/invoke as SSE, {_CLIENTS} clients, one event per loop tick, {median(streamed[1]):,.0f} of "
        f"{median(streamed[0]):,.0f} events/s, medians of {len(bare)} rounds each; {setting}, busy {busy:.0%}",
    )
    costs = [median(each.microseconds for each in side) for side in (bare, palaver)]
    others = _others((*bare, *palaver))
    yield Figure(
        name="processor time per event",
        value=costs[1],
        spread=half_range([each.microseconds for each in palaver]),
        unit="µs",
        how=f"the server's own, same rounds; bare {costs[0]:.2f} µs, {costs[0] / costs[1]:.2f} of ours; "
        f"anybody else used {others:.0%} of a core{'' if others < _CALM else ': TOO MUCH, measure again'}",
    )
    firsts = [median(each.alone.first_event_ms for each in side) for side in (bare, palaver)]
    yield Figure(
        name="first event, one client",
        value=firsts[1],
        spread=half_range([each.alone.first_event_ms for each in palaver]),
        unit="ms",
        how=f"from the request, median; bare {firsts[0]:.2f} ms",
    )
    echoed = [[each.echoes.requests_per_second for each in side] for side in (bare, palaver)]
    yield Figure(
        name="whole answers / bare ASGI",
        value=median(echoed[1]) / median(echoed[0]),
        spread=half_range([ours / theirs for theirs, ours in zip(*echoed, strict=True)]),
        how=f"/invoke as JSON of a workflow that returns its inputs, {_CLIENTS} clients, {median(echoed[1]):,.0f} of "
        f"{median(echoed[0]):,.0f} requests/s (the bare one parses nothing)",
    )
