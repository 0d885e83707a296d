"""An evaluation of a single process: other processes run its cells only if that process dies."""

from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import slices as evaluation_claims
from palaver.storage.evaluations import slices as evaluation_slices
from tests.storage.evaluation_factory import AT, make_evaluation, register_processes


async def test_creating_process_claims_all_slices_at_once(database: Database) -> None:
    await database.write(register_processes, "cli", "server")
    created, claimed = await database.write(
        evaluation_claims.create_claimed_evaluation, "default", make_evaluation(6, size=3), "cli", AT
    )

    assert (created.state, created.started_at, created.total) == ("running", AT, 6)
    assert [(one.place, one.workflow, one.first, one.count) for one in claimed] == [
        (0, "tutor", 0, 3),
        (1, "tutor", 3, 3),
    ]
    assert await database.write(evaluation_slices.claim_slices, "server", ["tutor"], 100, AT) == []


async def test_cancelled_evaluation_ends_when_its_slices_are_released(database: Database) -> None:
    await database.write(register_processes, "cli")
    _, claimed = await database.write(
        evaluation_claims.create_claimed_evaluation, "default", make_evaluation(6, size=3), "cli", AT
    )
    active = await database.write(evaluations.cancel_evaluation, "default", "ev_1", AT)
    for one in claimed:
        await database.write(evaluation_slices.release_slice, "cli", one, AT)

    assert active.state == "running"
    assert (await database.read(evaluations.get_evaluation, "default", "ev_1")).state == "cancelled"


async def test_slices_of_a_dead_process_are_claimed_by_others(database: Database) -> None:
    await database.write(register_processes, "cli", "server")
    await database.write(evaluation_claims.create_claimed_evaluation, "default", make_evaluation(6, size=3), "cli", AT)
    await database.write(evaluation_slices.requeue_lost_slices, ["cli"], AT)

    claimed = await database.write(evaluation_slices.claim_slices, "server", ["tutor"], 100, AT)
    assert [one.first for one in claimed] == [0, 3]


async def test_claimed_evaluation_without_cells_has_succeeded(database: Database) -> None:
    created, claimed = await database.write(
        evaluation_claims.create_claimed_evaluation, "default", make_evaluation(0), "cli", AT
    )

    assert (created.state, claimed) == ("succeeded", [])
