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

BACKGROUND_ORIGIN = Origin(
    project="theirs", protocol="responses", reading={"background": True}, stored=True, background=True
)


@chat
async def short(messages: list[Message]) -> str:
    return f"You said {messages[-1].text}"


class EngineProcess:
    """One process with its engine, recorder, heartbeat and run queue."""

    def __init__(self, database: Database, name: str, *workflows: Workflow, most: int = 4) -> None:
        workflows_by_name = {workflow.description.name: workflow for workflow in workflows}
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
            find_workflow=lambda name: workflows_by_name[name],
            workflow_names=lambda: list(workflows_by_name),
            max_runs=most,
            now=lambda: NOW,
            poll_interval=0.02,
        )

    async def ended(self, run: str) -> runs.StoredRun:
        async with asyncio.timeout(60):
            while True:
                stored = await self.database.read(runs.get_stored_run, "theirs", run)
                if stored is not None and stored.row.ended_at is not None:
                    return stored
                await asyncio.sleep(0.01)

    async def notice_the_dead(self) -> None:
        for _ in range(6):
            self.clock += 5.0
            await self.presence.beat()

    async def close(self) -> None:
        await self.backlog.stop()
        await self.engine.drain(0)
        await self.presence.stop()


async def test_a_run_is_stored_when_enqueued_and_starts_when_a_process_takes_it(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi."), session="s"), BACKGROUND_ORIGIN)
    queued = await database.read(runs.get_stored_run, "theirs", started.run_id)
    engine_process.backlog.start()
    stored = await engine_process.ended(started.run_id)
    await engine_process.close()

    assert queued is not None
    assert (queued.row.status, queued.row.process, queued.row.started_at) == ("queued", None, None)
    assert (stored.row.status, stored.row.process, stored.row.session, stored.row.trace_id) == (
        "finished",
        "p1",
        "s",
        started.trace_id,
    )
    assert stored.reply is not None
    assert [message.text for message in stored.reply.messages] == ["You said Hi."]
    assert event_lines(await database.read(runs.read_events, "theirs", started.run_id))[0] == "RunStarted"


async def test_enqueue_rejects_an_invalid_call_and_any_call_while_draining(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    with pytest.raises(FaultyCall):
        await engine_process.backlog.enqueue(short, call(Message.user("Hi."), inputs={"nope": 1}), BACKGROUND_ORIGIN)
    await engine_process.engine.drain(0)
    with pytest.raises(ShuttingDown):
        await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), BACKGROUND_ORIGIN)

    assert await database.read(runs.list_active_in_session, "theirs", "short", "s") == []


async def test_several_processes_start_each_run_once(database: Database) -> None:
    executed: list[str] = []

    @chat
    async def counted(messages: list[Message]) -> str:
        executed.append(messages[-1].text)
        await asyncio.sleep(0)
        return "Done."

    processes = [EngineProcess(database, f"p{number}", counted, most=2) for number in range(3)]
    enqueued = [
        await processes[0].backlog.enqueue(counted, call(Message.user(str(number))), BACKGROUND_ORIGIN)
        for number in range(20)
    ]
    for engine_process in processes:
        engine_process.backlog.start()
    ended = [await processes[0].ended(started.run_id) for started in enqueued]
    for engine_process in processes:
        await engine_process.close()

    assert sorted(executed, key=int) == [str(number) for number in range(20)]
    assert {stored.row.status for stored in ended} == {"finished"}


async def test_a_queued_run_and_a_run_of_another_process_can_be_cancelled(database: Database) -> None:
    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    local, remote = EngineProcess(database, "p1", endless), EngineProcess(database, "p2", endless)
    queued = await local.backlog.enqueue(endless, call(), BACKGROUND_ORIGIN)
    first = await local.records.cancel("theirs", queued.run_id)
    second = await local.records.cancel("theirs", queued.run_id)
    running = await local.backlog.enqueue(endless, call(), BACKGROUND_ORIGIN)
    remote.backlog.start()
    async with asyncio.timeout(60):
        while (await local.records.get_row("theirs", running.run_id)).seq < 0 and not remote.engine.active_count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    cancelling = asyncio.create_task(local.records.cancel("theirs", running.run_id))
    async with asyncio.timeout(60):
        while not cancelling.done():
            await remote.presence.apply_cancel_requests()
            await asyncio.sleep(0.01)
    log = await database.read(runs.read_events, "theirs", queued.run_id)
    await remote.close()

    assert (first.status, second) == ("cancelled", first)
    assert event_lines(log) == ["RunStarted", "RunCancelled"]
    assert (await cancelling).status == "cancelled"


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_run_whose_process_dies_is_restarted_if_idempotent_or_else_interrupted(
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
    started = await dying.backlog.enqueue(fragile, call(), BACKGROUND_ORIGIN)
    dying.backlog.start()
    async with asyncio.timeout(60):
        while len(await database.read(runs.read_events, "theirs", started.run_id)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    dying.backlog._poller._task.cancel()  # type: ignore[union-attr]
    for task in dying.presence._tasks:
        task.cancel()
    dying.recorder._states.clear()  # The process is dead: it writes nothing more.
    other.backlog.start()
    await other.presence.beat()
    before = await database.read(runs.get_run, "theirs", started.run_id)
    await other.notice_the_dead()
    stored = await other.ended(started.run_id)
    log = await database.read(runs.read_events, "theirs", started.run_id)
    await other.close()
    await dying.engine.drain(0)

    assert before is not None
    assert before.status == "running"
    assert stored.reply is not None
    assert (stored.row.status, [message.text for message in stored.reply.messages], len(attempts)) == (
        ("finished", ["Hello."], 2) if idempotent else ("interrupted", ["Hel"], 1)
    )
    assert [event.seq for event in log] == list(range(len(log)))


@pytest.mark.parametrize("idempotent", [True, False])
async def test_on_shutdown_a_run_is_requeued_if_idempotent_or_else_interrupted(
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
    started = await leaving.backlog.enqueue(long, call(), BACKGROUND_ORIGIN)
    leaving.backlog.start()
    async with asyncio.timeout(60):
        while len(await database.read(runs.read_events, "theirs", started.run_id)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    reading = asyncio.create_task(_read_events(leaving, started.run_id))
    await asyncio.sleep(0)
    await leaving.engine.drain(0)
    await leaving.close()
    after_shutdown = await database.read(runs.get_run, "theirs", started.run_id)
    log = await database.read(runs.read_events, "theirs", started.run_id)
    other.backlog.start()
    stored = await other.ended(started.run_id)
    await other.close()

    assert after_shutdown is not None
    assert stored.reply is not None
    assert (
        after_shutdown.status,
        after_shutdown.process,
        after_shutdown.attempts,
        after_shutdown.first_output_at,
        event_lines(log),
    ) == (
        ("queued", None, 0, None, [])
        if idempotent
        else ("interrupted", "p1", 1, NOW, ["RunStarted", "TextStarted", "TextDelta Hel", "TextEnded", "RunFinished"])
    )
    assert (stored.row.status, [message.text for message in stored.reply.messages], len(attempts)) == (
        ("finished", ["Hello."], 2) if idempotent else ("interrupted", ["Hel"], 1)
    )
    assert event_lines(await reading) == ["RunStarted", "TextStarted", "TextDelta Hel"] + (
        [] if idempotent else ["TextEnded", "RunFinished"]
    )


async def _read_events(engine_process: EngineProcess, run: str) -> list[Event]:
    return [event async for batch in engine_process.records.follow("theirs", run) for event in batch]


async def test_a_run_whose_workflow_finishes_as_interrupted_is_not_restarted(database: Database) -> None:
    @chat(idempotent=True)
    async def remote(messages: Any) -> AsyncIterator[Any]:
        yield "Hel"
        yield RunFinished(finish="interrupted")

    engine_process = EngineProcess(database, "p1", remote)
    started = await engine_process.backlog.enqueue(remote, call(), BACKGROUND_ORIGIN)
    engine_process.backlog.start()
    stored = await engine_process.ended(started.run_id)
    await engine_process.close()

    assert (stored.row.status, stored.row.attempts) == ("interrupted", 1)


async def test_a_run_is_interrupted_after_its_process_has_died_three_times(database: Database) -> None:
    @chat(idempotent=True)
    async def deadly(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    other = EngineProcess(database, "p9")
    starter = EngineProcess(database, "p0", deadly)
    started = await starter.backlog.enqueue(deadly, call(), BACKGROUND_ORIGIN)
    for number in range(3):
        dying = EngineProcess(database, f"p{number}", deadly)
        dequeued = await database.write(kept.dequeue_runs, f"p{number}", ["deadly"], 1, NOW)
        assert [queued.stored.row.id for queued in dequeued] == [started.run_id]
        await dying.presence.start(only_server=False)
        for task in dying.presence._tasks:
            task.cancel()
        await other.notice_the_dead()
    row = await database.read(runs.get_run, "theirs", started.run_id)

    assert row is not None
    assert (row.status, row.attempts) == ("interrupted", 3)


async def test_a_queued_run_that_its_workflow_no_longer_accepts_fails_with_a_reason(database: Database) -> None:
    engine_process = EngineProcess(database, "p1", short)
    started = await engine_process.backlog.enqueue(short, call(Message.user("Hi.")), BACKGROUND_ORIGIN)

    @chat(name="short")
    async def changed(messages: list[Message], subject: str) -> str:
        return subject

    other = EngineProcess(database, "p2", changed)
    other.backlog.start()
    stored = await other.ended(started.run_id)
    await other.close()

    assert (stored.row.status, stored.row.error) == (
        "failed",
        {"code": "missing_input", "message": "Input 'subject' is required."},
    )


async def test_a_process_declared_dead_writes_no_more_events_of_its_lost_run(
    postgres_url: str,
) -> None:
    database = open_database(postgres_url)
    resume = asyncio.Event()

    @chat
    async def slow(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await resume.wait()
        yield "lo."

    frozen = EngineProcess(database, "p1", slow)
    run = frozen.engine.start(slow, call(), origin=BACKGROUND_ORIGIN)
    async with asyncio.timeout(60):
        while len(await database.read(runs.read_events, "theirs", run.id)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await database.write(run_log.interrupt_run, "theirs", run.id, NOW)
    before = await database.read(runs.read_events, "theirs", run.id)
    resume.set()
    await run.wait_ended()
    row = await database.read(runs.get_run, "theirs", run.id)
    after = await database.read(runs.read_events, "theirs", run.id)
    await database.close()

    assert event_lines(run.log)[-1] == "RunFinished"
    assert row is not None
    assert row.status == "interrupted"
    assert after == before
