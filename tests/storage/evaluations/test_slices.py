"""Each slice is claimed by one process, within the concurrency of its workflow, and released."""

import asyncio
from datetime import timedelta

from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results, slices
from palaver.storage.evaluations.repository import NewSlice
from palaver.storage.evaluations.results import RecordOutcome, StopConditions
from palaver.storage.evaluations.slices import Slice
from tests.storage.evaluation_factory import AT, load_cell_rows, make_evaluation, make_result, register_processes

WORKFLOWS = ["tutor", "other"]


async def claim(database: Database, process: str = "p1", free: int = 100, names: list[str] = WORKFLOWS) -> list[Slice]:
    return await database.write(slices.claim_slices, process, names, free, AT)


def claim_keys(claimed: list[Slice]) -> list[tuple[str, int, int]]:
    return [(one.evaluation, one.place, one.width) for one in claimed]


async def test_claims_of_all_processes_stay_within_the_concurrency_limit(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(100, size=5, concurrency=10), AT)

    first, second = await claim(database, "p1", free=5), await claim(database, "p2")
    third = await claim(database, "p3")
    await database.write(slices.end_slice, "p2", second[0], AT)

    assert (claim_keys(first), claim_keys(second), third) == (
        [("ev_1", 0, 3), ("ev_1", 1, 2)],
        [("ev_1", 2, 3), ("ev_1", 3, 2)],
        [],
    )
    assert claim_keys(await claim(database, "p3")) == [("ev_1", 4, 3)]


async def test_concurrent_claims_never_get_the_same_slice(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(60, size=3, concurrency=40), AT)

    claimed = await asyncio.gather(*(claim(database, f"p{number}", free=4) for number in range(12)))

    positions = [one.place for batch in claimed for one in batch]
    assert sorted(positions) == list(range(len(set(positions))))
    assert sum(one.width for batch in claimed for one in batch) == 40


async def test_a_short_evaluation_does_not_wait_for_a_long_one(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(100, size=1, concurrency=2), AT)
    claimed = await claim(database)
    await database.write(
        evaluations.create_evaluation, "default", make_evaluation(2, id="ev_2", size=1, concurrency=2), AT
    )
    await database.write(slices.end_slice, "p1", claimed[0], AT)

    assert claim_keys(claimed) == [("ev_1", 0, 1), ("ev_1", 1, 1)]
    assert claim_keys(await claim(database)) == [("ev_2", 0, 1)]


async def test_process_claims_only_slices_of_workflows_it_serves(database: Database) -> None:
    new_slices = [NewSlice("tutor", 0, 1), NewSlice("", 0, 1), NewSlice("other", 0, 1)]
    await database.write(evaluations.create_evaluation, "default", make_evaluation(3, slices=new_slices), AT)

    assert [one.workflow for one in await claim(database, names=["other"])] == ["", "other"]
    assert [one.workflow for one in await claim(database, names=[])] == []


async def test_released_slice_is_claimed_by_another_process(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(3), AT)
    [mine] = await claim(database)

    assert await database.write(slices.release_slice, "p1", mine, AT) is True
    [theirs] = await claim(database, "p2")

    assert (theirs.place, theirs.attempts) == (mine.place, 0)
    assert await database.write(slices.release_slice, "p1", mine, AT) is False
    assert await database.write(
        results.record_results, "p1", mine, [make_result(0)], StopConditions(), AT
    ) == RecordOutcome(is_ours=False)
    assert await database.write(
        results.record_results, "p2", theirs, [make_result(0)], StopConditions(), AT
    ) == RecordOutcome(is_ours=True)


async def test_slices_of_dead_and_unknown_processes_are_requeued(database: Database) -> None:
    await database.write(register_processes, "p1", "p2")
    await database.write(evaluations.create_evaluation, "default", make_evaluation(6, size=1, concurrency=6), AT)
    for process in ("p1", "p2", "gone"):
        await claim(database, process, free=2)

    assert await database.write(slices.requeue_lost_slices, ["p1"], AT) == 2
    assert [(one.place, one.attempts) for one in await claim(database, "p2")] == [(0, 1), (2, 1)]
    assert await database.write(slices.requeue_lost_slices, [], AT) == 0


async def test_attempts_are_counted_until_a_cell_is_recorded(database: Database) -> None:
    await database.write(register_processes, "p1")
    await database.write(evaluations.create_evaluation, "default", make_evaluation(3), AT)
    attempts: list[int] = []
    for _ in range(3):
        [one] = await claim(database)
        attempts.append(one.attempts)
        await database.write(slices.requeue_lost_slices, ["p1"], AT)
    [one] = await claim(database)
    await database.write(results.record_results, "p1", one, [make_result(0)], StopConditions(), AT)
    await database.write(slices.requeue_lost_slices, ["p1"], AT)

    assert attempts == [0, 1, 2]
    assert [one.attempts for one in await claim(database)] == [1]


async def test_calls_are_reserved_at_the_rate_limit_of_the_evaluation(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(3), AT)
    later = AT + timedelta(seconds=60)

    due = [await database.write(slices.reserve_calls, "default", "ev_1", 0.5, 10, at) for at in (AT, AT, later)]

    assert due == [AT, AT + timedelta(seconds=5), later]
    assert await database.write(slices.reserve_calls, "other", "ev_1", 0.5, 10, AT) is None


async def test_a_cell_that_is_recorded_never_changes(database: Database) -> None:
    await database.write(evaluations.create_evaluation, "default", make_evaluation(3), AT)
    [one] = await claim(database)
    first = await database.write(
        results.record_results, "p1", one, [make_result(0), make_result(1)], StopConditions(), AT
    )
    second = await database.write(
        results.record_results, "p1", one, [make_result(1, status="failed"), make_result(2)], StopConditions(), AT
    )

    result = await database.read(evaluations.get_evaluation, "default", "ev_1")
    rows = await database.read(load_cell_rows, "default", "ev_1")
    assert (first, second, result.done, result.failed, result.recorded) == (
        RecordOutcome(True),
        RecordOutcome(True),
        3,
        0,
        3,
    )
    assert rows == [(0, "done", 0.5, None), (1, "done", 0.5, None), (2, "done", 0.5, None)]
    assert await database.read(results.find_recorded_cells, "default", "ev_1", [0, 2, 7]) == {0, 2}
