"""Runs without readers are ended after a delay, unless a client reads them in any process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest

from palaver.core.runs import Origin
from palaver.engine.engine import Engine, utc_now
from palaver.engine.recorder import Recorder
from palaver.engine.run import Run
from palaver.engine.run_reader import RunReader
from palaver.engine.unread_runs import UnreadRuns
from palaver.errors import Overloaded
from palaver.storage import runs
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.workflows.decorators import chat
from palaver.workflows.workflow import Workflow
from tests.engine.run_factory import call, wait_until

pytestmark = pytest.mark.anyio
STORED_ORIGIN = Origin(project="mine", stored=True)


async def endless(messages: Any) -> AsyncIterator[str]:
    yield "Hel"
    await asyncio.Event().wait()


DEFAULT_CHAT = chat(endless, name="left")
CANCEL_CHAT = chat(endless, name="cancel", on_disconnect="cancel")
FINISH_CHAT = chat(endless, name="finish", on_disconnect="finish")


@pytest.fixture
async def memory_database() -> AsyncIterator[Database]:
    database = open_database(MEMORY_URL)
    yield database
    await database.close()


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Process:
    """One of several processes that share a database."""

    def __init__(self, database: Database, seconds: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.recorder = Recorder(database, process="p", now=utc_now, delay=0.01)
        self.engine = Engine(store=self.recorder)
        self.orphans = UnreadRuns(database, seconds=seconds, monotonic=monotonic)
        self.records = RunReader(self.engine, self.recorder, database, now=utc_now, unread_runs=self.orphans)

    async def left(self, workflow: Workflow, origin: Origin = STORED_ORIGIN) -> Run:
        run = self.engine.start(workflow, call(), origin=origin)
        await self.recorder.flush()
        self.orphans.add(run)
        return run

    async def is_ended(self, run: Run, *, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                await run.wait_ended()
        except TimeoutError:
            return False
        return True

    async def end(self) -> None:
        await self.engine.drain(0)
        await self.recorder.flush()


async def test_an_unread_run_is_cancelled_after_the_delay(memory_database: Database) -> None:
    process = Process(memory_database, seconds=0.1)
    run = await process.left(DEFAULT_CHAT)

    assert process.orphans.count_readers(run) == 0
    assert await process.is_ended(run, within=5)
    assert (await process.records.get_row("mine", run.id)).status == "cancelled"
    await process.end()


@pytest.mark.parametrize(
    ("workflow", "origin"),
    [(FINISH_CHAT, STORED_ORIGIN), (DEFAULT_CHAT, Origin(project="mine", background=True))],
    ids=["finish", "background"],
)
async def test_background_runs_and_runs_that_finish_on_disconnect_need_no_reader(
    memory_database: Database, workflow: Workflow, origin: Origin
) -> None:
    process = Process(memory_database, seconds=0.02)
    run = await process.left(workflow, origin)
    other_run = await process.left(DEFAULT_CHAT)  # Due later.

    assert await process.is_ended(other_run, within=30)
    assert not run.context.cancelled
    await process.end()


async def test_an_unread_run_that_cancels_on_disconnect_is_ended_soon(memory_database: Database) -> None:
    process = Process(memory_database, seconds=300)
    run = await process.left(CANCEL_CHAT)

    assert await process.is_ended(run, within=5)
    await process.end()


async def test_readers_are_counted_and_keep_a_run_active(memory_database: Database) -> None:
    process = Process(memory_database, seconds=0.1)
    run = await process.left(DEFAULT_CHAT)

    with process.orphans.reader(run.id), process.orphans.reader(run.id):
        assert process.orphans.count_readers(run) == 2
        other_run = await process.left(DEFAULT_CHAT)  # Due later.
        assert await process.is_ended(other_run, within=30)
        assert not run.context.cancelled
    assert await process.is_ended(run, within=5)
    await process.end()


async def test_the_client_that_started_a_run_counts_as_a_reader_until_it_disconnects(memory_database: Database) -> None:
    process = Process(memory_database, seconds=300)
    run = process.engine.start(DEFAULT_CHAT, call(), consumer=lambda _: None, origin=STORED_ORIGIN)
    before = process.orphans.count_readers(run)

    process.orphans.add(run)

    assert (before, process.orphans.count_readers(run)) == (1, 0)
    await process.end()


@pytest.mark.parametrize("workflow", [DEFAULT_CHAT, CANCEL_CHAT], ids=["left", "cancel"])
async def test_a_reader_in_another_process_keeps_a_run_active(memory_database: Database, workflow: Workflow) -> None:
    clock = Clock()
    process = Process(memory_database, seconds=0.8, monotonic=clock)
    other_process = Process(memory_database, seconds=0.8)
    run = await process.left(workflow)

    async def read() -> None:
        async for _ in other_process.records.follow("mine", run.id):
            pass

    async def wait_for_note(last: datetime | None) -> None:
        """Wait until the reader notes again that it reads."""
        async with asyncio.timeout(60):
            while await memory_database.read(runs.get_read_at, "mine", run.id) in (None, last):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    reading = asyncio.create_task(read())
    for _ in range(3):
        last_note = process.orphans._last_notes.get(run)
        await wait_for_note(last_note)
        clock.seconds += 10
        await wait_until(lambda last=last_note: process.orphans._last_notes.get(run) != last or run.context.cancelled)
    cancelled_while_read = run.context.cancelled
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    async with asyncio.timeout(60):
        while not run.is_over:
            clock.seconds += 10
            await asyncio.sleep(0.01)

    assert not cancelled_while_read
    await process.end()


async def test_no_run_is_ended_while_the_database_is_unavailable(
    memory_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(memory_database, seconds=0.05)
    check_count = 0

    def unavailable(*_: Any) -> None:
        nonlocal check_count
        check_count += 1
        raise Overloaded("gone")

    with monkeypatch.context() as patched:
        patched.setattr(runs, "get_read_at", unavailable)
        run = await process.left(DEFAULT_CHAT)
        await wait_until(lambda: check_count > 3)
        assert not run.context.cancelled
    assert await process.is_ended(run, within=5)
    await process.end()
