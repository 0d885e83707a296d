"""Background runs: stored before they start, started once, requeued when their process dies; on every database."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from palaver.core.events import Event, RunFinished
from palaver.core.messages import Message
from palaver.core.runs import Origin
from palaver.engine.background_runs import RunQueue
from palaver.engine.engine import Engine
from palaver.engine.heartbeat import Heartbeat
from palaver.engine.recorder import Recorder
from palaver.engine.run_reader import RunReader
from palaver.errors import FaultyCall, ShuttingDown
from palaver.storage import background_runs as kept
from palaver.storage import run_log, runs
from palaver.storage.database import Database, open_database
from palaver.workflows.decorators import chat
from palaver.workflows.workflow import Workflow
from tests.engine.run_factory import NOW, call, event_lines

THEIRS = Origin(project="theirs", protocol="responses", reading={"background": True}, stored=True, background=True)


@chat
async def short(messages: list[Message]) -> str:
    return f"You said {messages[-1].text}"


class EngineProcess:
    """One process: its engine, and its share of the work."""

    def __init__(self, database: Database, name: str, *workflows: Workflow, most: int = 4) -> None:
        known = {workflow.description.name: workflow for workflow in workflows}
        self.database = database
        self.recorder = Recorder(database, process=name, now=lambda: NOW, delay=0.01)
        self.engine = Engine(store=self.recorder, now=lambda: NOW)
        self.records = RunReader(self.engine, self.recorder, database, now=lambda: NOW)
        self.presence = Heartbeat(
            name, database, self.engine, kind="server", version="1", now=lambda: NOW, monotonic=lambda: self.clock
        )
        self.clock = 0.0
        self.backlog = RunQueue(
            self.engine,
            database,
            process=name,
            find_workflow=lambda name: known[name],
            workflow_names=lambda: list(known),
            max_runs=most,
            now=lambda: NOW,
            poll_interval=0.02,
        )

    async def ended(self, run: str) -> runs.StoredRun:
        async with asyncio.timeout(10):
            while True:
                found = await self.database.read(runs.get_stored_run, "theirs", run)
                if found is not None and found.row.ended_at is not None:
                    return found
                await asyncio.sleep(0.01)

    async def notice_the_dead(self) -> None:
        for _ in range(6):
            self.clock += 5.0
            await self.presence.beat()

    async def close(self) -> None:
        await self.backlog.stop()
        await self.engine.drain(0)
        await self.presence.stop()


async def test_a_run_is_durable_when_it_is_put_and_begins_when_a_process_is_free(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi."), session="s"), THEIRS)
    waiting = await database.read(runs.get_stored_run, "theirs", started.run_id)
    engine_process.backlog.start()
    found = await engine_process.ended(started.run_id)
    await engine_process.close()

    assert waiting is not None
    assert (waiting.row.status, waiting.row.process, waiting.row.started_at) == ("queued", None, None)
    assert (found.row.status, found.row.process, found.row.session, found.row.trace_id) == (
        "finished",
        "p1",
        "s",
        started.trace_id,
    )
    assert found.reply is not None
    assert [message.text for message in found.reply.messages] == ["You said Hi."]
    assert event_lines(await database.read(runs.read_events, "theirs", started.run_id))[0] == "RunStarted"


async def test_what_a_workflow_cannot_take_is_said_at_once(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    with pytest.raises(FaultyCall):
        await engine_process.backlog.enqueue(short, call(Message.user("Hi."), inputs={"nope": 1}), THEIRS)
    await engine_process.engine.drain(0)
    with pytest.raises(ShuttingDown):
        await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), THEIRS)

    assert await database.read(runs.list_active_in_session, "theirs", "short", "s") == []


async def test_many_processes_begin_each_run_once(database: Database) -> None:
    begun: list[str] = []

    @chat
    async def counted(messages: list[Message]) -> str:
        begun.append(messages[-1].text)
        await asyncio.sleep(0)
        return "Done."

    houses = [EngineProcess(database, f"p{number}", counted, most=2) for number in range(3)]
    put = [await houses[0].backlog.enqueue(counted, call(Message.user(str(number))), THEIRS) for number in range(20)]
    for engine_process in houses:
        engine_process.backlog.start()
    ended = [await houses[0].ended(started.run_id) for started in put]
    for engine_process in houses:
        await engine_process.close()

    assert sorted(begun, key=int) == [str(number) for number in range(20)]
    assert {found.row.status for found in ended} == {"finished"}


async def test_a_run_that_waits_or_runs_elsewhere_is_cancelled(database: Database) -> None:
    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    here, there = EngineProcess(database, "p1", endless), EngineProcess(database, "p2", endless)
    waiting = await here.backlog.enqueue(endless, call(), THEIRS)
    first = await here.records.cancel("theirs", waiting.run_id)
    again = await here.records.cancel("theirs", waiting.run_id)
    running = await here.backlog.enqueue(endless, call(), THEIRS)
    there.backlog.start()
    async with asyncio.timeout(10):
        while (await here.records.get_row("theirs", running.run_id)).seq < 0 and not there.engine.active_count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    cancelling = asyncio.create_task(here.records.cancel("theirs", running.run_id))
    async with asyncio.timeout(10):
        while not cancelling.done():
            await there.presence.apply_cancel_requests()
            await asyncio.sleep(0.01)
    log = await database.read(runs.read_events, "theirs", waiting.run_id)
    await there.close()

    assert (first.status, again) == ("cancelled", first)
    assert event_lines(log) == ["RunStarted", "RunCancelled"]
    assert (await cancelling).status == "cancelled"


@pytest.mark.parametrize("idempotent", [True, False])
async def test_when_its_process_dies_it_begins_anew_or_is_interrupted_as_declared(
    database: Database, idempotent: bool
) -> None:
    attempts: list[int] = []

    @chat(idempotent=idempotent)
    async def fragile(messages: Any) -> AsyncIterator[str]:
        attempts.append(1)
        yield "Hel"
        if len(attempts) == 1:
            await asyncio.Event().wait()
        yield "lo."

    dying, other = EngineProcess(database, "p1", fragile), EngineProcess(database, "p2", fragile)
    await dying.presence.start(only_server=False)
    started = await dying.backlog.enqueue(fragile, call(), THEIRS)
    dying.backlog.start()
    async with asyncio.timeout(10):
        while len(await database.read(runs.read_events, "theirs", started.run_id)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    dying.backlog._poller._task.cancel()  # type: ignore[union-attr]
    for task in dying.presence._tasks:
        task.cancel()
    dying.recorder._states.clear()  # It is gone: nothing is written any more.
    other.backlog.start()
    await other.presence.beat()
    before = await database.read(runs.get_run, "theirs", started.run_id)
    await other.notice_the_dead()
    found = await other.ended(started.run_id)
    log = await database.read(runs.read_events, "theirs", started.run_id)
    await other.close()
    await dying.engine.drain(0)

    assert before is not None
    assert before.status == "running"
    assert found.reply is not None
    assert (found.row.status, [message.text for message in found.reply.messages], len(attempts)) == (
        ("finished", ["Hello."], 2) if idempotent else ("interrupted", ["Hel"], 1)
    )
    assert [event.seq for event in log] == list(range(len(log)))


@pytest.mark.parametrize("idempotent", [True, False])
async def test_when_its_process_has_to_go_it_begins_anew_elsewhere_or_is_interrupted_as_declared(
    database: Database, idempotent: bool
) -> None:
    attempts: list[int] = []

    @chat(idempotent=idempotent)
    async def long(messages: Any) -> AsyncIterator[str]:
        attempts.append(1)
        yield "Hel"
        if len(attempts) == 1:
            await asyncio.Event().wait()
        yield "lo."

    leaving, other = EngineProcess(database, "p1", long), EngineProcess(database, "p2", long)
    started = await leaving.backlog.enqueue(long, call(), THEIRS)
    leaving.backlog.start()
    async with asyncio.timeout(10):
        while len(await database.read(runs.read_events, "theirs", started.run_id)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    reading = asyncio.create_task(_read(leaving, started.run_id))
    await asyncio.sleep(0)
    await leaving.engine.drain(0)
    await leaving.close()
    between = await database.read(runs.get_run, "theirs", started.run_id)
    log = await database.read(runs.read_events, "theirs", started.run_id)
    other.backlog.start()
    found = await other.ended(started.run_id)
    await other.close()

    assert between is not None
    assert found.reply is not None
    assert (between.status, between.process, between.attempts, between.first_output_at, event_lines(log)) == (
        ("queued", None, 0, None, [])
        if idempotent
        else ("interrupted", "p1", 1, NOW, ["RunStarted", "TextStarted", "TextDelta Hel", "TextEnded", "RunFinished"])
    )
    assert (found.row.status, [message.text for message in found.reply.messages], len(attempts)) == (
        ("finished", ["Hello."], 2) if idempotent else ("interrupted", ["Hel"], 1)
    )
    assert event_lines(await reading) == ["RunStarted", "TextStarted", "TextDelta Hel"] + (
        [] if idempotent else ["TextEnded", "RunFinished"]
    )


async def _read(engine_process: EngineProcess, run: str) -> list[Event]:
    return [event async for batch in engine_process.records.follow("theirs", run) for event in batch]


async def test_a_run_that_somebody_else_interrupted_is_not_begun_anew(database: Database) -> None:
    @chat(idempotent=True)
    async def remote(messages: Any) -> AsyncIterator[Any]:
        yield "Hel"
        yield RunFinished(finish="interrupted")

    engine_process = EngineProcess(database, "p1", remote)
    started = await engine_process.backlog.enqueue(remote, call(), THEIRS)
    engine_process.backlog.start()
    found = await engine_process.ended(started.run_id)
    await engine_process.close()

    assert (found.row.status, found.row.attempts) == ("interrupted", 1)


async def test_a_run_that_kills_its_process_each_time_is_given_up(database: Database) -> None:
    @chat(idempotent=True)
    async def deadly(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    other = EngineProcess(database, "p9")
    starter = EngineProcess(database, "p0", deadly)
    started = await starter.backlog.enqueue(deadly, call(), THEIRS)
    for number in range(3):
        dying = EngineProcess(database, f"p{number}", deadly)
        taken = await database.write(kept.dequeue_runs, f"p{number}", ["deadly"], 1, NOW)
        assert [one.stored.row.id for one in taken] == [started.run_id]
        await dying.presence.start(only_server=False)
        for task in dying.presence._tasks:
            task.cancel()
        await other.notice_the_dead()
    row = await database.read(runs.get_run, "theirs", started.run_id)

    assert row is not None
    assert (row.status, row.attempts) == ("interrupted", 3)


async def test_a_run_that_cannot_begin_any_more_ends_and_says_why(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), THEIRS)

    @chat(name="short")
    async def changed(messages: list[Message], subject: str) -> str:
        return subject

    after = EngineProcess(database, "p2", changed)
    after.backlog.start()
    found = await after.ended(started.run_id)
    await after.close()

    assert (found.row.status, found.row.error) == (
        "failed",
        {"code": "missing_input", "message": "Input 'subject' is required."},
    )


async def test_a_process_that_was_taken_for_dead_and_comes_back_writes_nothing_of_what_it_lost(
    postgres_url: str,
) -> None:
    database = open_database(postgres_url)
    go_on = asyncio.Event()

    @chat
    async def slow(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await go_on.wait()
        yield "lo."

    frozen = EngineProcess(database, "p1", slow)
    run = frozen.engine.start(slow, call(), origin=THEIRS)
    async with asyncio.timeout(10):
        while len(await database.read(runs.read_events, "theirs", run.id)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await database.write(run_log.interrupt_run, "theirs", run.id, NOW)
    before = await database.read(runs.read_events, "theirs", run.id)
    go_on.set()
    await run.wait_ended()
    row = await database.read(runs.get_run, "theirs", run.id)
    after = await database.read(runs.read_events, "theirs", run.id)
    await database.close()

    assert event_lines(run.log)[-1] == "RunFinished"
    assert row is not None
    assert row.status == "interrupted"
    assert after == before
