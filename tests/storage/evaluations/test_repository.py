"""Evaluations are created, ended, cancelled, rerun and deleted."""

from typing import Any

import pytest

from palaver.errors import NotFound, StillRunning
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results, slices
from palaver.storage.evaluations import results as result_pages
from palaver.storage.evaluations.repository import EvaluationFilters
from palaver.storage.evaluations.results import NewResult, RecordOutcome, StopConditions
from palaver.storage.evaluations.slices import Slice
from palaver.storage.pagination import FIRST_PAGE, Window
from tests.storage.evaluation_factory import (
    AT,
    load_score_rows,
    make_evaluation,
    make_result,
    make_score,
    register_processes,
)

NO_STOP_CONDITIONS = StopConditions()


async def claim(database: Database, process: str = "p1", free: int = 100) -> list[Slice]:
    return await database.write(slices.claim_slices, process, ["tutor"], free, AT)


async def run_slices(
    database: Database, outcomes: list[NewResult], stops: StopConditions = NO_STOP_CONDITIONS, process: str = "p1"
) -> None:
    """Record these results and end the slices that hold them."""
    remaining = {one.cell: one for one in outcomes}
    while result := await claim(database, process):
        for one in result:
            batch = [remaining[cell] for cell in range(one.first, one.first + one.count) if cell in remaining]
            await database.write(results.record_results, process, one, batch, stops, AT)
            await database.write(slices.end_slice, process, one, AT)


async def state(database: Database, id: str = "ev_1") -> tuple[Any, ...]:
    result = await database.read(evaluations.get_evaluation, "default", id)
    return result.state, result.done, result.failed, result.errors


async def test_new_evaluation_is_queued_and_stored_with_its_plan(database: Database) -> None:
    created = await database.write(
        evaluations.create_evaluation, "default", make_evaluation(plan={"a": [1]}, rows=b"x" * 32, key="k1"), AT
    )

    result = await database.read(evaluations.get_planned, "default", "ev_1")

    assert (created.state, created.total, created.done, created.key, created.version) == ("queued", 6, 0, "k1", 1)
    assert (result.evaluation, result.plan, result.rows) == (created, {"a": [1]}, b"x" * 32)
    for operation in (evaluations.get_evaluation, evaluations.get_planned, evaluations.delete_evaluation):
        with pytest.raises(NotFound):
            await database.write(operation, "other", "ev_1")


FINAL_STATES: list[tuple[list[NewResult], tuple[Any, ...]]] = [
    ([make_result(0), make_result(1)], ("succeeded", 2, 0, 0)),
    ([make_result(0), make_result(1, status="failed")], ("partly", 1, 1, 0)),
    ([make_result(0), make_result(1, scores=[make_score(None, status="error")])], ("partly", 2, 0, 1)),
    ([make_result(0, status="failed"), make_result(1, status="failed")], ("failed", 0, 2, 0)),
]


async def test_final_state_depends_on_the_results_of_the_cells(database: Database) -> None:
    result: list[tuple[Any, ...]] = []
    for number, (outcomes, _) in enumerate(FINAL_STATES):
        await database.write(
            evaluations.create_evaluation, "default", make_evaluation(2, size=1, id=f"ev_{number}"), AT
        )
        await run_slices(database, outcomes)
        result.append(await state(database, f"ev_{number}"))

    assert result == [expected for _, expected in FINAL_STATES]


async def test_evaluation_without_cells_succeeds_at_once(database: Database) -> None:
    created = await database.write(evaluations.create_evaluation, "default", make_evaluation(0), AT)

    assert (created.state, created.ended_at) == ("succeeded", AT)


async def test_queued_evaluation_is_cancelled_at_once(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(), AT)

    done = await database.write(evaluations.cancel_evaluation, "default", "ev_1", AT)

    assert (done.state, done.ended_at, await claim(database)) == ("cancelled", AT, [])


async def test_running_evaluation_is_cancelled_when_its_slices_are_released(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(), AT)
    [first, *others] = await claim(database, free=2)
    await database.write(results.record_results, "p1", first, [make_result(0)], NO_STOP_CONDITIONS, AT)

    cancelled = await database.write(evaluations.cancel_evaluation, "default", "ev_1", AT)
    stopped = await database.read(slices.find_stopped, [("default", "ev_1")])
    late = await database.write(results.record_results, "p1", first, [make_result(1)], NO_STOP_CONDITIONS, AT)
    for one in (first, *others):
        await database.write(slices.release_slice, "p1", one, AT)

    assert (cancelled.state, cancelled.ended_at, cancelled.cancel_asked_at, stopped) == (
        "running",
        None,
        AT,
        {("default", "ev_1")},
    )
    assert late == RecordOutcome(is_ours=True, is_stopped=True)
    assert await state(database) == ("cancelled", 2, 0, 0)
    second = await database.write(evaluations.cancel_evaluation, "default", "ev_1", AT)
    assert (second.state, second.reason) == ("cancelled", None)


async def test_too_many_failed_cells_end_the_evaluation(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(6, size=1), AT)

    await run_slices(database, [make_result(cell, status="failed") for cell in range(6)], StopConditions(max_failed=2))

    result = await database.read(evaluations.get_evaluation, "default", "ev_1")
    assert (result.state, result.failed, result.reason) == (
        "failed",
        4,
        {
            "code": "max_errors",
            "message": "3 cells failed, exceeding max_errors 2. The remaining cells were cancelled.",
        },
    )


async def test_cost_limit_includes_scores_and_ends_the_evaluation(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(6, size=1, concurrency=1), AT)

    outcomes = [make_result(cell, cost=0.2, scores=[make_score(cost=0.3)]) for cell in range(6)]
    await run_slices(database, outcomes, StopConditions(max_cost=1.0))

    result = await database.read(evaluations.get_evaluation, "default", "ev_1")
    assert (result.state, result.done, result.cost, result.score_cost) == ("failed", 2, 0.4, 0.6)
    assert result.reason is not None
    assert result.reason["code"] == "max_cost"


async def test_rerun_of_failed_cells_or_errors_keeps_the_other_results(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(4, size=2), AT)
    error_scores = [make_score(None, status="error", reason="webhook_failed: away")]
    with pytest.raises(StillRunning):
        await database.write(evaluations.rerun_evaluation, "default", "ev_1", "failed", AT)
    await run_slices(
        database, [make_result(0), make_result(1, status="failed"), make_result(2, scores=error_scores), make_result(3)]
    )
    before = await state(database)

    await database.write(evaluations.rerun_evaluation, "default", "ev_1", "failed", AT)
    await run_slices(database, [make_result(1, words="Later")])
    failed_again = await state(database)
    await database.write(evaluations.rerun_evaluation, "default", "ev_1", "errors", AT)
    await run_slices(database, [make_result(2, scores=[make_score()]), make_result(0, words="Never")])

    assert (before, failed_again) == (("partly", 3, 1, 1), ("partly", 4, 0, 1))
    assert await state(database) == ("succeeded", 4, 0, 0)
    page = await database.read(result_pages.list_results, "default", "ev_1")
    assert [(one.cell, one.seq, len(one.scores)) for one in page.data] == [(0, 1, 0), (1, 5, 0), (2, 6, 1), (3, 4, 0)]


async def test_rerun_of_all_cells_resets_the_evaluation(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(2), AT)
    await run_slices(database, [make_result(0, cost=1.0, scores=[make_score()]), make_result(1, cost=1.0)])

    result = await database.write(evaluations.rerun_evaluation, "default", "ev_1", "all", AT)
    scores = await database.read(load_score_rows, "default", "ev_1")

    assert (result.state, result.done, result.cost, result.recorded, result.ended_at, scores) == (
        "queued",
        0,
        None,
        2,
        None,
        [],
    )


async def test_deleting_an_evaluation_deletes_its_scores_and_no_others(database: Database) -> None:
    for name in ("ev_1", "ev_2"):
        await database.write(evaluations.create_evaluation, "default", make_evaluation(2, id=name), AT)
    [one, other] = await claim(database, free=2)
    for claimed in (one, other):
        await database.write(
            results.record_results, "p1", claimed, [make_result(0, scores=[make_score()])], NO_STOP_CONDITIONS, AT
        )

    await database.write(evaluations.delete_evaluation, "default", "ev_1")

    mine, theirs = (one, other) if one.evaluation == "ev_1" else (other, one)
    assert await database.write(
        results.record_results, "p1", mine, [make_result(1)], NO_STOP_CONDITIONS, AT
    ) == RecordOutcome(is_ours=False)
    assert await database.write(slices.end_slice, "p1", mine, AT) is False
    assert await database.read(slices.find_stopped, [mine.evaluation_key, theirs.evaluation_key]) == {
        mine.evaluation_key
    }
    assert [await database.read(load_score_rows, *claimed.evaluation_key) for claimed in (mine, theirs)] == [
        [],
        [(0, "exact_match", 0, "scored", True, 1.0)],
    ]


async def test_evaluations_are_listed_newest_first_and_filtered(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(0, id="ev_1", name="100% ÄPFEL"), AT)
    await database.write(evaluations.create_evaluation, "default", make_evaluation(2, id="ev_2", testset="ts_2"), AT)
    await database.write(evaluations.create_evaluation, "default", make_evaluation(2, id="ev_3"), AT)
    await database.write(evaluations.create_evaluation, "other", make_evaluation(2, id="ev_4"), AT)

    async def list_names(window: Window = FIRST_PAGE, **filters: Any) -> list[str]:
        page = await database.read(evaluations.list_evaluations, "default", EvaluationFilters(**filters), window)
        return [one.id for one in page.data]

    assert await list_names() == ["ev_3", "ev_2", "ev_1"]
    assert await list_names(state="succeeded") == ["ev_1"]
    assert await list_names(testset="ts_2") == ["ev_2"]
    assert await list_names(search="0% äp") == ["ev_1"]
    assert await list_names(search="0_ äp") == []
    first = await database.read(evaluations.list_evaluations, "default", EvaluationFilters(), Window(limit=2))
    assert await list_names(Window(limit=2, after=first.next)) == ["ev_1"]
    assert await database.read(evaluations.get_plans, "default", ["ev_2", "ev_4"]) == {"ev_2": {"repeats": 1}}


async def test_cancelled_evaluation_of_a_dead_process_ends(database: Database) -> None:
    await database.write(register_processes, "p1")
    await database.write(evaluations.create_evaluation, "default", make_evaluation(2), AT)
    await claim(database)
    await database.write(evaluations.cancel_evaluation, "default", "ev_1", AT)

    assert await database.write(slices.requeue_lost_slices, ["p1"], AT) == 1
    assert await state(database) == ("cancelled", 0, 0, 0)
