"""Streams at full speed, compared with a bare application that sends the same bytes: Palaver's cost per event.

One event per turn of the loop, as tokens arrive. A producer that never waits would only measure how writes merge.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks import bare_app, load, machine, servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_least, half_range
from benchmarks.load import CHAT_BODY, SSE
from benchmarks.rounds import CLIENTS, MAX_OTHER_LOAD, RequestPlan, Round, max_other_load, undisturbed_rounds

_PLAN = RequestPlan(
    streams="/tokens/invoke",
    stream_body=CHAT_BODY,
    events=bare_app.RECORDS.events,
    accept=SSE,
    echoes="/echo/invoke",
    echo_body='{"inputs":{"text":"Hello there","number":7}}',
)


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    with servers.run_bare_app(context) as bare, servers.run_palaver(context) as palaver:
        rounds = undisturbed_rounds(context, {bare: _PLAN, palaver: _PLAN})
    cores = f"cores {machine.SERVER_CORE} and {machine.LOAD_CORE}" if machine.LOAD_CORE else "the only core"
    yield from _figures(
        [pair[0] for pair in rounds],
        [pair[1] for pair in rounds],
        f"server and generator on {cores}; {load.describe_generator(context)}",
    )


def _figures(bare: Sequence[Round], palaver: Sequence[Round], setup: str) -> Iterator[Figure]:
    streamed = [[round_.streams.events_per_second for round_ in side] for side in (bare, palaver)]
    busy = max(round_.streams.busy for round_ in (*bare, *palaver))
    yield Figure(
        name="/invoke: events/s relative to the bare ASGI app",
        value=median(streamed[1]) / median(streamed[0]),
        spread=half_range([ours / theirs for theirs, ours in zip(*streamed, strict=True)]),
        goal=at_least(0.7, must=0.6),
        how=f"server-sent events, {CLIENTS} clients, one event per tick of the event loop: {median(streamed[1]):,.0f} "
        f"vs. {median(streamed[0]):,.0f} events/s, medians of {len(bare)} rounds each; {setup}, {busy:.0%} busy",
    )
    costs = [median(round_.microseconds for round_ in side) for side in (bare, palaver)]
    other_load = max_other_load((*bare, *palaver))
    yield Figure(
        name="/invoke: CPU time per event",
        value=costs[1],
        spread=half_range([round_.microseconds for round_ in palaver]),
        unit="µs",
        how=f"of the server process, in the same rounds; bare ASGI app {costs[0]:.2f} µs "
        f"({costs[0] / costs[1]:.0%} of Palaver's); "
        f"other processes used {other_load:.0%} of a core"
        f"{'' if other_load < MAX_OTHER_LOAD else ': TOO MUCH, measure again'}",
    )
    echoed = [[round_.echoes.requests_per_second for round_ in side] for side in (bare, palaver)]
    yield Figure(
        name="/invoke: complete responses/s relative to the bare ASGI app",
        value=median(echoed[1]) / median(echoed[0]),
        spread=half_range([ours / theirs for theirs, ours in zip(*echoed, strict=True)]),
        how=f"JSON, a workflow that returns its inputs, {CLIENTS} clients: {median(echoed[1]):,.0f} vs. "
        f"{median(echoed[0]):,.0f} responses/s (the bare app doesn't parse the requests)",
    )
