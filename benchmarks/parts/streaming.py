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
    cores = f"cores {machine.SERVER_CORE} and {machine.LOAD_CORE}" if machine.LOAD_CORE else "not pinned: one core"
    yield from _figures(
        [each[0] for each in rounds], [each[1] for each in rounds], f"{load.describe_generator(context)}, {cores}"
    )


def _figures(bare: Sequence[Round], palaver: Sequence[Round], setting: str) -> Iterator[Figure]:
    streamed = [[each.streams.events_per_second for each in side] for side in (bare, palaver)]
    busy = max(each.streams.busy for each in (*bare, *palaver))
    yield Figure(
        name="paced streams / bare ASGI",
        value=median(streamed[1]) / median(streamed[0]),
        spread=half_range([ours / theirs for theirs, ours in zip(*streamed, strict=True)]),
        goal=at_least(0.7, must=0.6),
        how=f"/invoke as SSE, {CLIENTS} clients, one event per loop tick, {median(streamed[1]):,.0f} of "
        f"{median(streamed[0]):,.0f} events/s, medians of {len(bare)} rounds each; {setting}, busy {busy:.0%}",
    )
    costs = [median(each.microseconds for each in side) for side in (bare, palaver)]
    other_load = max_other_load((*bare, *palaver))
    yield Figure(
        name="processor time per event",
        value=costs[1],
        spread=half_range([each.microseconds for each in palaver]),
        unit="µs",
        how=f"the server's own, same rounds; bare {costs[0]:.2f} µs, {costs[0] / costs[1]:.2f} of ours; "
        f"anybody else used {other_load:.0%} of a core"
        f"{'' if other_load < MAX_OTHER_LOAD else ': TOO MUCH, measure again'}",
    )
    echoed = [[each.echoes.requests_per_second for each in side] for side in (bare, palaver)]
    yield Figure(
        name="whole answers / bare ASGI",
        value=median(echoed[1]) / median(echoed[0]),
        spread=half_range([ours / theirs for theirs, ours in zip(*echoed, strict=True)]),
        how=f"/invoke as JSON of a workflow that returns its inputs, {CLIENTS} clients, {median(echoed[1]):,.0f} of "
        f"{median(echoed[0]):,.0f} requests/s (the bare one parses nothing)",
    )
