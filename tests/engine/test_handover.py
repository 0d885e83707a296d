"""Handing runs over between processes: queued runs on shutdown, and runs that just started elsewhere."""

import asyncio

import pytest

from palaver.core.ids import sortable_id
from palaver.core.messages import Message
from palaver.engine import run_reader as records_module
from palaver.engine.engine import new_run_id, utc_now
from palaver.engine.run_reader import RunReader
from palaver.errors import Overloaded, RunNotFound
from palaver.storage import background_runs as kept
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from tests.engine.run_factory import NOW, call, event_lines
from tests.engine.test_background_runs import THEIRS, EngineProcess, short


async def taken(engine_process: EngineProcess, name: str) -> tuple[str, kept.QueuedRun]:
    """A run that waited, and that a process has just taken."""
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), THEIRS)
    (waiting,) = await engine_process.database.write(kept.dequeue_runs, name, ["short"], 1, NOW)
    return started.run_id, waiting


async def test_what_a_process_that_ends_had_taken_is_left_to_others(database: Database) -> None:
    ending, other = EngineProcess(database, "p1", short), EngineProcess(database, "p2", short)
    run, waiting = await taken(ending, "p1")
    await ending.engine.drain(0)
    await ending.backlog._run(waiting)
    left = await database.read(runs.get_run, "theirs", run)
    other.backlog.start()
    found = await other.ended(run)
    await other.close()

    assert left is not None
    assert (left.status, left.process, left.attempts, left.started_at) == ("queued", None, 0, None)
    assert (found.row.status, found.row.process, found.row.attempts) == ("finished", "p2", 1)


async def test_nothing_is_begun_once_the_backlog_ends(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    run, waiting = await taken(engine_process, "p1")
    engine_process.backlog.start()
    await engine_process.backlog.stop()
    await engine_process.backlog._run(waiting)
    row = await database.read(runs.get_run, "theirs", run)

    assert row is not None
    assert row.status == "queued"


async def test_a_run_waits_while_nothing_can_be_recorded_here(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    run, waiting = await taken(engine_process, "p1")
    engine_process.recorder._fault = Overloaded("The database cannot be reached.")
    await engine_process.backlog._run(waiting)
    left = await database.read(runs.get_run, "theirs", run)
    engine_process.recorder._fault = None
    engine_process.backlog.start()
    found = await engine_process.ended(run)
    await engine_process.close()

    assert left is not None
    assert (left.status, found.row.status, found.row.attempts) == ("queued", "finished", 1)


async def test_one_that_ended_meanwhile_is_not_put_back(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    run, waiting = await taken(engine_process, "p1")
    await database.write(run_log.fail_queued_run, "theirs", run, ("overloaded", "No."), NOW)
    await database.write(kept.unclaim_run, waiting.stored.row)
    row = await database.read(runs.get_run, "theirs", run)

    assert row is not None
    assert (row.status, row.process) == ("failed", "p1")


async def test_a_run_that_began_elsewhere_a_moment_ago_is_awaited(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    records = RunReader(engine_process.engine, engine_process.recorder, database, now=utc_now)
    young = new_run_id()
    seeking = asyncio.create_task(records.get_row("theirs", young))
    await asyncio.sleep(0.05)
    await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), THEIRS, young)

    if database.kind == "postgresql":
        assert (await seeking).id == young
    else:  # There is but one server, and what it began it knows.
        with pytest.raises(RunNotFound):
            await seeking


async def test_any_other_name_is_answered_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_process = EngineProcess(database, "p1", short)
    records = RunReader(engine_process.engine, engine_process.recorder, database, now=utc_now)
    monkeypatch.setattr(records_module, "_START_GRACE_S", 600)  # One that is awaited would wait until the timeout.
    async with asyncio.timeout(30):
        for name in ("run_" + sortable_id(1, 1), "nonsense", "run_" + "u" * 26):
            with pytest.raises(RunNotFound):
                await records.get_row("theirs", name)


async def test_the_log_of_a_run_that_has_ended_has_its_end(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), THEIRS)
    waits = await engine_process.records.get_row("theirs", started.run_id)
    engine_process.backlog.start()
    ended = (await engine_process.ended(started.run_id)).row
    at_once = await engine_process.records.read_log_of(ended)
    async with asyncio.timeout(30):  # The end is recorded before readers here are told of it.
        while engine_process.records.find_active("theirs", started.run_id) is not None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    logs = [at_once, await engine_process.records.read_log_of(waits)]
    await engine_process.close()

    assert logs == [await database.read(runs.read_events, "theirs", started.run_id)] * 2
    assert event_lines(logs[0])[-1] == "RunFinished"


async def test_whoever_follows_what_waits_goes_on_here_when_it_begins_here(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), THEIRS)
    following = asyncio.create_task(_all(engine_process.records, started.run_id))
    await asyncio.sleep(0.02)
    engine_process.backlog.start()
    told = await following
    await engine_process.close()

    assert told == await database.read(runs.read_events, "theirs", started.run_id)


async def _all(records: RunReader, run: str) -> list[object]:
    return [event async for batch in records.follow("theirs", run) for event in batch]
