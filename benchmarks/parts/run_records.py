"""The cost of recording: the same streams with and without an SQLite file, compared with MLflow's tracing."""

from collections.abc import Iterator
from statistics import median

from benchmarks import peers, servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_least, at_most, half_range
from benchmarks.parts.invocations import MLFLOW_PLAN, PALAVER_PLAN
from benchmarks.rounds import CLIENTS, MAX_OTHER_LOAD, max_other_load, undisturbed_rounds


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    python = peers.install_peer()
    with servers.run_palaver(context, record="off") as off, servers.run_palaver(context, record="full") as on:
        ours = undisturbed_rounds(context, {off: PALAVER_PLAN, on: PALAVER_PLAN})
    with peers.run_mlflow(
        context, python, traces=True
    ) as mlflow:  # Separately: it keeps writing after it has answered.
        theirs = undisturbed_rounds(context, {mlflow: MLFLOW_PLAN})
    rounds = [[*palaver_rounds, *mlflow_round] for palaver_rounds, mlflow_round in zip(ours, theirs, strict=True)]
    other_load = max(map(max_other_load, ours))
    warning = (
        ""
        if other_load < MAX_OTHER_LOAD
        else f"; other processes used {other_load:.0%} of a core: TOO MUCH, measure again"
    )
    sides = list(zip(*rounds, strict=True))
    paced = [[round_.streams.events_per_second for round_ in side] for side in sides]
    whole = [[round_.echoes.requests_per_second for round_ in side] for side in sides]
    costs = [median(round_.microseconds for round_ in side) for side in sides]
    yield Figure(
        name="recording: reduction in events/s",
        value=1 - median(paced[1]) / median(paced[0]),
        spread=half_range([1 - recorded / reference for recorded, reference in zip(paced[1], paced[0], strict=True)]),
        unit="",
        goal=at_most(0.15),
        how=f"/invocations, {CLIENTS} clients, with and without recording in SQLite: {median(paced[1]):,.0f} vs. "
        f"{median(paced[0]):,.0f} events/s; {costs[1]:.1f} vs. {costs[0]:.1f} µs of CPU time per event{warning}",
    )
    if not all(paced[2]):  # It is sometimes busy with the traces of the round before.
        raise MeasurementError("MLflow completed no stream in one of the rounds: measure again")
    yield Figure(
        name="recording: events/s relative to MLflow with tracing",
        value=median(paced[1]) / median(paced[2]),
        spread=half_range([recorded / reference for recorded, reference in zip(paced[1], paced[2], strict=True)]),
        goal=at_least(6, must=5),
        how=f"{median(paced[1]):,.0f} vs. {median(paced[2]):,.0f} events/s, measured one after the other",
    )
    yield Figure(
        name="recording: complete responses/s relative to not recording",
        value=median(whole[1]) / median(whole[0]),
        spread=half_range([recorded / reference for recorded, reference in zip(whole[1], whole[0], strict=True)]),
        how=f"{median(whole[1]):,.0f} vs. {median(whole[0]):,.0f} responses/s; "
        f"MLflow with tracing {median(whole[2]):,.0f}",
    )
