"""Streams at full speed, against a bare application that sends the same bytes: what all of Palaver costs per event.

One event per turn of the loop, as tokens arrive. A producer that never waits would only measure how writes merge.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from benchmarks import load, machine, raw, servers
from benchmarks.figures import Figure, at_least, half_range
from benchmarks.load import ASKED, SSE, Counted
from benchmarks.servers import Server
from benchmarks.stand import Stand

_CLIENTS = 64
_UNDISTURBED = 0.9
_ECHOED = '{"inputs":{"text":"Hello there","number":7}}'


class _Round(msgspec.Struct, frozen=True):
    """One server for one round."""

    streams: Counted
    alone: Counted
    """Streams, one client."""
    echoes: Counted
    microseconds: float
    """Processor time of the server per event."""
    share: float
    """Of its core, while it streamed: it asks for all of it, so that less means that others disturbed the round."""


def measure(stand: Stand) -> Iterator[Figure]:
    with servers.bare(stand) as bare, servers.palaver(stand) as palaver:
        rounds: dict[str, list[_Round]] = {"bare": [], "palaver": []}
        for _ in range(stand.choose(full=3, quick=1)):
            for server in (bare, palaver):  # Interleaved: what disturbs the machine disturbs both.
                rounds[server.name].append(_round(stand, server))
    apart = f"cores {machine.SERVER_CORE} and {machine.LOAD_CORE}" if machine.LOAD_CORE else "not pinned: one core"
    yield from _figures(rounds, f"{load.kind(stand)}, {apart}")


def _round(stand: Stand, server: Server) -> _Round:
    path, seconds = "/tokens/invoke", stand.choose(full=4.0, quick=0.5)
    asked = {"accept": SSE, "body": ASKED, "expected": raw.EVENTS}
    before, since = machine.processor_seconds(server.pid), time.perf_counter()
    streams = load.run(stand, server, path, connections=_CLIENTS, seconds=seconds, **asked)
    used, lasted = machine.processor_seconds(server.pid) - before, time.perf_counter() - since
    calls = stand.choose(full=300, quick=20)
    alone = load.run(stand, server, path, requests=calls, seconds=seconds, warm_up=0, **asked)
    echoes = load.run(
        stand, server, "/echo/invoke", connections=_CLIENTS, seconds=seconds / 2, body=_ECHOED, expected=0
    )
    return _Round(streams, alone, echoes, used / streams.events_all * 1e6, used / lasted)


def _figures(rounds: Mapping[str, Sequence[_Round]], setting: str) -> Iterator[Figure]:
    bare, palaver = rounds["bare"], rounds["palaver"]
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
    share = min(each.share for each in (*bare, *palaver))
    yield Figure(
        name="processor time per event",
        value=costs[1],
        spread=half_range([each.microseconds for each in palaver]),
        unit="µs",
        how=f"the server's own, same rounds; bare {costs[0]:.2f} µs, {costs[0] / costs[1]:.2f} of ours; "
        f"servers had {share:.0%} of their core{'' if share > _UNDISTURBED else ': others were busy, measure again'}",
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
