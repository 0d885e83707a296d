"""Housekeeping: what is let go of by itself, and what is not; on every database."""

from datetime import timedelta

from palaver.core.boards import BoardColumn, BoardRow, Cell, Grid
from palaver.core.messages import Message
from palaver.core.origins import Origin
from palaver.engine.engine import Engine
from palaver.engine.housekeeping import Housekeeping
from palaver.engine.recorder import Recorder
from palaver.storage import boards, events, housekeeping, runs, threads
from palaver.storage.boards import Board
from palaver.storage.database import Database
from palaver.storage.threads import NewThread
from palaver.workflows.declare import chat
from tests.engine.running import NOW, call


@chat
async def short(messages: list[Message]) -> str:
    return "Hello."


async def told(database: Database, **origin: object) -> str:
    engine = Engine(store=Recorder(database, process="p", now=lambda: NOW), now=lambda: NOW)
    run = engine.start(short, call(Message.user("Hi.")), origin=Origin(**origin))  # type: ignore[arg-type]
    await run.ended()
    return run.id


async def test_runs_that_belong_to_nothing_go_when_they_are_old(database: Database) -> None:
    await database.write(threads.create, "default", NewThread(id="conv_1", at=NOW))
    loose, stored, talked = (
        await told(database),
        await told(database, stored=True),
        await told(database, thread="conv_1"),
    )
    keeping = Housekeeping(database, run_days=30, now=lambda: NOW + timedelta(days=29))
    await keeping.tidy()
    young = await database.read(runs.get, "default", loose)
    await Housekeeping(database, run_days=0, now=lambda: NOW + timedelta(days=31)).tidy()
    kept = await database.read(runs.get, "default", loose)
    await Housekeeping(database, run_days=30, now=lambda: NOW + timedelta(days=31)).tidy()

    assert young is not None
    assert kept == young
    assert [await database.read(runs.get, "default", run) is None for run in (loose, stored, talked)] == [
        True,
        False,
        False,
    ]
    assert await database.read(events.after, "default", loose) == []


async def test_the_last_run_of_a_cell_stays_and_those_before_it_go(database: Database) -> None:
    grid = Grid(mode="single", columns=(BoardColumn(id="c1", workflow="short"),), rows=(BoardRow(id="r1"),))
    await database.write(boards.create, "default", Board(id="brd_1", grid=grid, created_at=NOW, updated_at=NOW))
    ids = [await told(database, board="brd_1") for _ in range(2)]
    for run in ids:
        await database.write(boards.fill, "default", "brd_1", [Cell(row="r1", column="c1", run=run)])
    await Housekeeping(database, run_days=30, now=lambda: NOW + timedelta(days=31)).tidy()

    assert [await database.read(runs.get, "default", run) is None for run in ids] == [True, False]


async def test_of_more_runs_than_memory_should_hold_the_oldest_go(database: Database) -> None:
    ids = [await told(database) for _ in range(4)]
    gone = await database.write(housekeeping.forget_all_but, 2)

    assert gone == 2
    assert [await database.read(runs.get, "default", run) is None for run in sorted(ids)] == [True, True, False, False]
