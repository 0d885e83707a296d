"""The recorder: the stored state of a run while it is active and after its end, on every database."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from palaver.core.events import Event, RunFailed, RunFinished
from palaver.core.messages import Message
from palaver.core.runs import Origin, RecordMode
from palaver.engine.engine import Engine
from palaver.engine.recorder import Recorder
from palaver.engine.run_reader import RunReader
from palaver.errors import DiskFull, Overloaded, RunNotFound
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from palaver.workflows.decorators import chat, workflow
from tests.engine.run_factory import NOW, call, event_lines, wait_until

pytestmark = pytest.mark.anyio
STORED_ORIGIN = Origin(project="theirs", key="abcd1234", protocol="responses", reading={"stream": True}, stored=True)


def new_engine(database: Database, *, delay: float = 0.01) -> tuple[Engine, Recorder, RunReader]:
    recorder = Recorder(database, process="p1", now=lambda: NOW, delay=delay)
    engine = Engine(store=recorder, now=lambda: NOW)
    return engine, recorder, RunReader(engine, recorder, database, now=lambda: NOW)


@chat
async def short(messages: Any) -> AsyncIterator[str]:
    yield "Hel"
    yield "lo."


async def test_a_run_is_stored_completely_when_its_end_is_delivered(database: Database) -> None:
    engine, _, _ = new_engine(database)
    stored_runs: list[Any] = []

    async def attend(batch: Sequence[Event]) -> None:
        if isinstance(batch[-1], RunFinished):
            stored_runs.append(await database.read(runs.get_stored_run, "theirs", run.id))

    run = engine.start(short, call(Message.user("Hi.")), consumer=attend, origin=STORED_ORIGIN)
    await run.wait_ended()

    (stored,) = stored_runs
    row = stored.row
    assert (row.status, row.finish, row.seq, row.workflow, row.session) == (
        "finished",
        "stop",
        5,
        "short",
        run.started.session,
    )
    assert (row.project, row.key, row.protocol, row.stored, row.process) == (
        "theirs",
        "abcd1234",
        "responses",
        True,
        "p1",
    )
    assert (row.created_at, row.started_at, row.ended_at) == (NOW, NOW, NOW)
    assert stored.reading == {"stream": True}
    assert [message.text for message in stored.reply.messages] == ["Hello."]
    assert runs.decode_call(stored) == run.call
    assert await database.read(runs.read_events, "theirs", run.id) == run.log


async def test_events_are_written_while_a_run_is_active(database: Database) -> None:
    engine, _, records = new_engine(database)
    resume = asyncio.Event()

    @chat
    async def slow(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await resume.wait()
        yield "lo."

    run = engine.start(slow, call(), origin=STORED_ORIGIN)
    seen: list[Event] = []
    async with asyncio.timeout(60):
        while len(seen) < 3:
            seen = await database.read(runs.read_events, "theirs", run.id)
    row = await records.get_row("theirs", run.id)
    resume.set()
    await run.wait_ended()

    assert event_lines(seen) == ["RunStarted", "TextStarted", "TextDelta Hel"]
    assert (row.status, row.ended_at) == ("running", None)
    assert await database.read(runs.read_events, "theirs", run.id, 2) == run.log[3:]


async def test_the_time_of_the_first_output_is_stored(database: Database) -> None:
    clock = iter(NOW + timedelta(seconds=second) for second in range(100))
    recorder = Recorder(database, process="p1", now=lambda: NOW, delay=0.01)
    engine = Engine(store=recorder, now=lambda: next(clock))
    start_output, resume = asyncio.Event(), asyncio.Event()

    @chat
    async def slow(messages: Any) -> AsyncIterator[str]:
        await start_output.wait()
        yield "Hel"
        await resume.wait()
        yield "lo."

    run = engine.start(slow, call(), origin=STORED_ORIGIN)
    rows: list[runs.RunRow | None] = []
    await wait_until(lambda: len(run.log) == 1)
    await recorder.flush()
    rows.append(await database.read(runs.get_run, "theirs", run.id))
    start_output.set()
    await wait_until(lambda: len(run.log) == 3)
    await recorder.flush()
    rows.append(await database.read(runs.get_run, "theirs", run.id))
    resume.set()
    await run.wait_ended()
    rows.append(await database.read(runs.get_run, "theirs", run.id))

    second = NOW + timedelta(seconds=1)
    assert [row and (row.first_output_at, row.ended_at) for row in rows] == [
        (None, None),
        (second, None),
        (second, NOW + timedelta(seconds=2)),
    ]


async def test_a_run_without_output_has_no_first_output_time_and_a_value_is_output(database: Database) -> None:
    engine, _, _ = new_engine(database)

    @chat
    async def failing(messages: Any) -> AsyncIterator[str]:
        raise ValueError
        yield ""

    def adding(a: int) -> int:
        return a + 1

    silent = engine.start(failing, call(), origin=STORED_ORIGIN)
    value = engine.start(workflow(adding), call(inputs={"a": 1}), origin=STORED_ORIGIN)
    await silent.wait_ended()
    await value.wait_ended()
    rows = [await database.read(runs.get_run, "theirs", run.id) for run in (silent, value)]

    assert [row and (row.status, row.first_output_at) for row in rows] == [("failed", None), ("finished", NOW)]


async def test_the_write_delay_is_counted_from_the_start_of_the_previous_write(database: Database) -> None:
    delay = 0.05
    steps: list[str] = []
    write_started = asyncio.Event()

    class Slow(FailingDatabase):
        async def write(self, work: Any, *args: Any) -> Any:
            steps.append("write")
            write_started.set()
            result = await super().write(work, *args)
            await asyncio.sleep(delay)  # What the chat yields during the write is due before the write ends.
            asyncio.get_running_loop().call_later(delay, steps.append, "delay after a write")
            return result

    engine, _, _ = new_engine(Slow(database, None), delay=delay)  # type: ignore[arg-type]

    @chat
    async def long_chat(messages: Any) -> AsyncIterator[str]:
        while steps.count("write") < 5:
            yield "on and "
            write_started.clear()
            await write_started.wait()

    async with asyncio.timeout(60):
        await engine.start(long_chat, call(), origin=STORED_ORIGIN).wait_ended()

    # Counted from the end of the write, each delay would pass before the next write.
    assert steps[:7] == ["write", *["write", "delay after a write"] * 3]


async def test_a_run_of_another_project_is_not_found(database: Database) -> None:
    engine, _, records = new_engine(database)
    run = engine.start(short, call(), origin=STORED_ORIGIN)
    with pytest.raises(RunNotFound) as while_active:
        await records.get_row("mine", run.id)
    await run.wait_ended()
    with pytest.raises(RunNotFound) as after_end:
        await records.get_row("mine", run.id)

    assert str(while_active.value) == str(after_end.value) == f"Run {run.id!r} not found."


async def test_a_run_is_followed_while_active_and_from_a_position_after_its_end(database: Database) -> None:
    engine, _, records = new_engine(database)
    run = engine.start(short, call(), origin=STORED_ORIGIN)
    live_events = [event async for batch in records.follow("theirs", run.id) for event in batch]
    await run.wait_ended()
    later_events = [event async for batch in records.follow("theirs", run.id, 2) for event in batch]

    assert live_events == run.log
    assert later_events == run.log[3:]


async def test_a_run_of_another_process_is_followed_and_cancelled_through_the_database(database: Database) -> None:
    engine, recorder, _ = new_engine(database)
    _, _, elsewhere = new_engine(database)

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    run = engine.start(endless, call(), origin=STORED_ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await recorder.flush()
    cancelling = asyncio.create_task(elsewhere.cancel("theirs", run.id))
    async with asyncio.timeout(60):
        while (row := await elsewhere.get_row("theirs", run.id)).cancel_asked_at is None:  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.01)
    run.cancel()  # As its process does when it sees the request.
    seen = [event async for batch in elsewhere.follow("theirs", run.id) for event in batch]

    assert row.cancel_asked_at == NOW
    assert (await cancelling).status == "cancelled"
    assert event_lines(seen) == ["RunStarted", "TextStarted", "TextDelta Hel", "TextEnded", "RunCancelled"]
    assert (await elsewhere.cancel("theirs", run.id)).status == "cancelled"


async def test_a_run_whose_process_died_is_interrupted_once_with_its_logged_events(database: Database) -> None:
    engine, recorder, records = new_engine(database)

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    run = engine.start(endless, call(), origin=STORED_ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await recorder.flush()
    recorder._states.clear()  # The process died.
    unfinished = await database.read(runs.list_unfinished_runs, ["p1"])
    ended = [await database.write(run_log.interrupt_run, "theirs", run.id, NOW) for _ in range(2)]
    stored = await database.read(runs.get_stored_run, "theirs", run.id)
    log = await database.read(runs.read_events, "theirs", run.id)

    assert [row.id for row in unfinished] == [run.id]
    assert ended == [True, False]
    assert stored is not None
    assert (stored.row.status, stored.row.finish, stored.row.seq) == ("interrupted", "interrupted", 4)
    assert stored.reply is not None
    assert [message.text for message in stored.reply.messages] == ["Hel"]
    assert event_lines(log) == ["RunStarted", "TextStarted", "TextDelta Hel", "TextEnded", "RunFinished"]
    assert [event.seq for event in log] == [0, 1, 2, 3, 4]
    with pytest.raises(RunNotFound):
        await records.get_row("mine", run.id)
    await engine.drain(0)


async def test_runs_are_recorded_only_as_their_record_mode_allows(database: Database) -> None:
    engine, _, _ = new_engine(database)
    off = engine.start(short, call(record="off"))
    bare = engine.start(short, call(Message.user("secret"), record="metadata"))
    await off.wait_ended()
    await bare.wait_ended()
    stored = await database.read(runs.get_stored_run, "default", bare.id)

    assert await database.read(runs.get_run, "default", off.id) is None
    assert stored is not None
    assert (stored.row.status, stored.row.seq, stored.call, stored.reply, stored.row.preview_in) == (
        "finished",
        5,
        None,
        None,
        None,
    )
    assert await database.read(runs.read_events, "default", bare.id) == []


@pytest.mark.parametrize("record", ["off", "metadata", "full"])
async def test_an_ended_run_is_garbage_collected(database: Database, record: RecordMode) -> None:
    engine, _, _ = new_engine(database, delay=60)
    run = engine.start(short, call(record=record))
    await run.wait_ended()
    run_reference = weakref.ref(run)
    del run
    await asyncio.sleep(0)  # Lets its task run its done callbacks.

    assert run_reference() is None


class FailingDatabase:
    """A database whose writes fail while `error` is set."""

    kind = "sqlite"
    path = None

    def __init__(self, database: Database, error: Exception | None) -> None:
        self._database = database
        self.error = error

    async def write(self, work: Any, *args: Any) -> Any:
        if self.error is not None:
            raise self.error
        return await self._database.write(work, *args)

    async def read(self, work: Any, *args: Any) -> Any:
        return await self._database.read(work, *args)

    async def close(self) -> None:
        await self._database.close()


@pytest.mark.parametrize("error", [Overloaded("gone"), DiskFull("full")])
async def test_while_the_database_fails_runs_end_with_an_error_and_no_new_run_starts(
    database: Database, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palaver.engine.recorder.RETRY_DELAY_S", 0.01)
    failing = FailingDatabase(database, error)
    engine, recorder, records = new_engine(failing)  # type: ignore[arg-type]
    run = engine.start(short, call(), origin=STORED_ORIGIN)
    await run.wait_ended()
    with pytest.raises(type(error)):
        engine.start(short, call(), origin=STORED_ORIGIN)
    failing.error = None
    async with asyncio.timeout(60):
        while await database.read(runs.get_run, "theirs", run.id) is None:  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.01)
    row = await records.get_row("theirs", run.id)
    second_run = engine.start(short, call(), origin=STORED_ORIGIN)
    await second_run.wait_ended()

    assert run.log[-1] == RunFailed(
        5, error.code, "The run ended, but its outcome could not be stored. Try again later.", at=NOW
    )
    assert (row.status, row.error) == (
        "failed",
        {"code": error.code, "message": "The run ended, but its outcome could not be stored. Try again later."},
    )
    assert await database.read(runs.read_events, "theirs", run.id) == run.log
    assert (await records.get_row("theirs", second_run.id)).status == "finished"
    recorder.check()
