"""Handing runs over between processes: queued runs on shutdown, and runs that just started elsewhere."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Connection

from palaver.core.events import Event
from palaver.core.ids import sortable_id
from palaver.core.messages import Message
from palaver.engine import run_reader as records_module
from palaver.engine.engine import new_run_id, utc_now
from palaver.engine.run_reader import RunReader
from palaver.errors import Overloaded, RunNotFound
from palaver.storage import background_runs as kept
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, call, event_lines, wait_until
from tests.engine.test_background_runs import BACKGROUND_ORIGIN, EngineProcess, short


async def claim_queued_run(engine_process: EngineProcess, process_name: str) -> tuple[str, kept.QueuedRun]:
    """Return the id and the row of a queued run that a process has just claimed."""
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), BACKGROUND_ORIGIN)
    (queued,) = await engine_process.database.write(kept.dequeue_runs, process_name, ["short"], 1, NOW)
    return started.run_id, queued


async def test_a_run_claimed_by_a_draining_process_is_requeued_for_others(database: Database) -> None:
    ending, other = EngineProcess(database, "p1", short), EngineProcess(database, "p2", short)
    run, waiting = await claim_queued_run(ending, "p1")
    await ending.engine.drain(0)
    await ending.backlog._run(waiting)
    requeued = await database.read(runs.get_run, "theirs", run)
    other.backlog.start()
    stored = await other.ended(run)
    await other.close()

    assert requeued is not None
    assert (requeued.status, requeued.process, requeued.attempts, requeued.started_at) == ("queued", None, 0, None)
    assert (stored.row.status, stored.row.process, stored.row.attempts) == ("finished", "p2", 1)


async def test_a_run_claimed_by_a_stopped_queue_is_requeued(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    run, waiting = await claim_queued_run(engine_process, "p1")
    engine_process.backlog.start()
    await engine_process.backlog.stop()
    await engine_process.backlog._run(waiting)
    row = await database.read(runs.get_run, "theirs", run)

    assert row is not None
    assert row.status == "queued"


async def test_a_claimed_run_is_requeued_while_nothing_can_be_recorded(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    run, waiting = await claim_queued_run(engine_process, "p1")
    engine_process.recorder._fault = Overloaded("The database cannot be reached.")
    await engine_process.backlog._run(waiting)
    requeued = await database.read(runs.get_run, "theirs", run)
    engine_process.recorder._fault = None
    engine_process.backlog.start()
    stored = await engine_process.ended(run)
    await engine_process.close()

    assert requeued is not None
    assert (requeued.status, stored.row.status, stored.row.attempts) == ("queued", "finished", 1)


async def test_a_claimed_run_that_has_ended_is_not_requeued(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    run, waiting = await claim_queued_run(engine_process, "p1")
    await database.write(run_log.fail_queued_run, "theirs", run, ("overloaded", "No."), NOW)
    await database.write(kept.unclaim_run, waiting.stored.row)
    row = await database.read(runs.get_run, "theirs", run)

    assert row is not None
    assert (row.status, row.process) == ("failed", "p1")


async def test_a_run_just_started_by_another_process_is_awaited_on_postgresql(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_process, other = EngineProcess(database, "p1", short), EngineProcess(database, "p2", short)
    records = RunReader(other.engine, other.recorder, database, now=utc_now)
    get_run, was_missing = runs.get_run, threading.Event()

    def watch_get_run(db: Connection, project: str, run: str) -> runs.RunRow | None:
        row = get_run(db, project, run)
        if row is None:
            was_missing.set()
        return row

    monkeypatch.setattr(runs, "get_run", watch_get_run)
    run_id = new_run_id()
    lookup = asyncio.create_task(records.get_row("theirs", run_id))
    assert await asyncio.to_thread(was_missing.wait, 30)
    await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), BACKGROUND_ORIGIN, run_id)

    if database.kind == "postgresql":
        assert (await lookup).id == run_id
    else:  # There is only one server, and it knows its own runs.
        with pytest.raises(RunNotFound):
            await lookup


async def test_an_old_or_invalid_run_id_is_reported_as_not_found_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_process = EngineProcess(database, "p1", short)
    records = RunReader(engine_process.engine, engine_process.recorder, database, now=utc_now)
    monkeypatch.setattr(records_module, "_START_GRACE_S", 600)  # An id that is awaited would wait until the timeout.
    async with asyncio.timeout(60):
        for run_id in ("run_" + sortable_id(1, 1), "nonsense", "run_" + "u" * 26):
            with pytest.raises(RunNotFound):
                await records.get_row("theirs", run_id)


async def test_the_log_of_an_ended_run_contains_its_end(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), BACKGROUND_ORIGIN)
    queued_row = await engine_process.records.get_row("theirs", started.run_id)
    engine_process.backlog.start()
    ended_row = (await engine_process.ended(started.run_id)).row
    first_log = await engine_process.records.read_log_of(ended_row)
    async with asyncio.timeout(60):  # The end is recorded before local readers receive it.
        while engine_process.records.find_active("theirs", started.run_id) is not None:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)
    logs = [first_log, await engine_process.records.read_log_of(queued_row)]
    await engine_process.close()

    assert logs == [await database.read(runs.read_events, "theirs", started.run_id)] * 2
    assert event_lines(logs[0])[-1] == "RunFinished"


async def test_a_reader_of_a_queued_run_receives_all_events_when_it_starts_locally(database: Database) -> None:
    resume = asyncio.Event()

    @chat
    async def paused(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await resume.wait()
        yield "lo."

    engine_process = EngineProcess(database, "p1", paused)
    records = engine_process.records
    started = await engine_process.backlog.enqueue(paused, call(Message.user("Hi.")), BACKGROUND_ORIGIN)
    following = asyncio.create_task(_read_events(records, started.run_id))
    async with asyncio.timeout(60):  # The reader notes in the database that it waits.
        while await database.read(runs.get_read_at, "theirs", started.run_id) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    engine_process.backlog.start()
    await wait_until(lambda: records.find_active("theirs", started.run_id) is not None)
    run = records.find_active("theirs", started.run_id)
    assert run is not None
    await wait_until(lambda: records.unread_runs.count_readers(run) == 1)
    resume.set()
    events = await following
    await engine_process.close()

    assert event_lines(events) == [
        "RunStarted",
        "TextStarted",
        "TextDelta Hel",
        "TextDelta lo.",
        "TextEnded",
        "RunFinished",
    ]
    assert events == await database.read(runs.read_events, "theirs", started.run_id)


async def _read_events(records: RunReader, run: str) -> list[Event]:
    return [event async for batch in records.follow("theirs", run) for event in batch]
