"""/invocations, streamed and whole, compared with a bare application that sends the same bytes and with MLflow.

All three run uvicorn with uvloop and httptools, on one core, one after the other in every round; MLflow's tracing is
off, and so is recording. Every stream has the same 200 pieces of text, each an event; around them MLflow sends two
more events and we send ten.
"""

from collections.abc import Callable, Iterator
from statistics import median

from benchmarks import bare_app, peers, servers
from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_least, at_most, half_range
from benchmarks.rounds import CLIENTS, MAX_OTHER_LOAD, RequestPlan, Round, max_other_load, undisturbed_rounds

_STREAM, _ECHO = '{"input":"Hello there","stream":true}', '{"input":"Hello there"}'
PALAVER_PLAN = RequestPlan(
    streams="/tokens/invocations",
    stream_body=_STREAM,
    events=bare_app.RESPONSES.events,
    echoes="/say/invocations",
    echo_body=_ECHO,
)
MLFLOW_PLAN = RequestPlan(
    streams="/invocations",
    stream_body='{"input":[{"role":"user","content":"Hello there"}],"stream":true}',
    events=peers.MLFLOW_EVENTS,
    echoes="/invocations",
    echo_body='{"input":[{"role":"user","content":"Hello there"}]}',
)


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    python = peers.install_peer()
    with (
        servers.run_bare_app(context) as bare,
        servers.run_palaver(context) as palaver,
        peers.run_mlflow(context, python) as mlflow,
    ):
        rounds = undisturbed_rounds(context, {bare: PALAVER_PLAN, palaver: PALAVER_PLAN, mlflow: MLFLOW_PLAN})
    sides = list(zip(*rounds, strict=True))
    other_load = max(map(max_other_load, rounds))
    warning = (
        ""
        if other_load < MAX_OTHER_LOAD
        else f"; other processes used {other_load:.0%} of a core: TOO MUCH, measure again"
    )

    def figure(name: str, rate: Callable[[Round], float], unit: str, baseline: int, **options: object) -> Figure:
        sample = [[rate(round_) for round_ in side] for side in sides]
        ours, theirs = sample[1], sample[baseline]
        peer = (
            f"; MLflow relative to the bare ASGI app {median(sample[2]) / median(theirs):.2f}" if baseline == 0 else ""
        )
        return Figure(
            name=name,
            value=median(ours) / median(theirs),
            spread=half_range([our / their for our, their in zip(ours, theirs, strict=True)]),
            how=f"{median(ours):,.0f} vs. {median(theirs):,.0f} {unit}, {CLIENTS} clients, "
            f"medians of {len(ours)} rounds{peer}{warning}",
            **options,  # type: ignore[arg-type]
        )

    events, responses = "events/s", "responses/s"
    yield figure(
        "/invocations: events/s relative to the bare ASGI app", _events, events, 0, goal=at_least(0.7, must=0.6)
    )
    yield figure("/invocations: events/s relative to MLflow", _events, events, 2, goal=at_least(2.5))
    yield figure(
        "/invocations: complete responses/s relative to the bare ASGI app", _echoes, responses, 0, goal=at_least(0.4)
    )
    yield figure("/invocations: complete responses/s relative to MLflow", _echoes, responses, 2)
    firsts = [[round_.single_client.first_event_ms for round_ in side] for side in sides]
    yield Figure(
        name="/invocations: time to the first event",
        value=median(firsts[1]),
        spread=half_range(firsts[1]),
        unit="ms",
        goal=at_most(0.3),
        how=f"one client, median; bare ASGI app {median(firsts[0]):.2f} ms, MLflow {median(firsts[2]):.2f} ms",
    )


def _events(round_: Round) -> float:
    return round_.streams.events_per_second


def _echoes(round_: Round) -> float:
    return round_.echoes.requests_per_second
