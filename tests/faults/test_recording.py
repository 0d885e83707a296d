"""A database that rejects one run, or loses the confirmation of a write: every other run is stored, exactly once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from palaver.core.events import RunFailed, RunFinished
from palaver.core.messages import Message
from palaver.core.runs import Origin
from palaver.engine.engine import Engine
from palaver.engine.recorder import Recorder
from palaver.engine.run import Run
from palaver.errors import Overloaded
from palaver.storage import runs
from palaver.storage.database import Database
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, call, wait_until

pytestmark = pytest.mark.anyio
ORIGIN = Origin(project="theirs", protocol="responses", stored=True)


class UnreliableDatabase:
    """A database whose writes can be made to fail, before or after they are done."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.before: Callable[[tuple[Any, ...]], None] = lambda _: None
        self.after: Callable[[], None] = lambda: None

    async def write(self, work: Any, *args: Any) -> Any:
        self.before(args)
        done = await self.database.write(work, *args)
        self.after()
        return done


def new_engine(database: Any) -> tuple[Engine, Recorder]:
    recorder = Recorder(database, process="p1", now=lambda: NOW, delay=0.01)
    return Engine(store=recorder, now=lambda: NOW), recorder


def slow(resume: asyncio.Event) -> Any:
    @chat
    async def slow(messages: Any) -> AsyncIterator[str]:
        yield "one "
        await resume.wait()
        yield "two"

    return slow


async def stored_state(database: Database, run: Run) -> tuple[str, str | None]:
    stored = await database.read(runs.get_stored_run, "theirs", run.id)
    if stored is None:
        return "nothing", None
    return stored.row.status, None if stored.reply is None else stored.reply.messages[0].text


async def test_a_run_that_the_database_rejects_does_not_affect_other_runs(database: Database) -> None:
    unreliable, resume = UnreliableDatabase(database), asyncio.Event()
    engine, recorder = new_engine(unreliable)

    def refuse(args: tuple[Any, ...]) -> None:
        if any(getattr(one, "call", None) is bad.call for one in args[0]):
            raise ValueError("no such character")

    unreliable.before = refuse
    good = [engine.start(slow(resume), call(Message.user("Hi.")), origin=ORIGIN) for _ in range(3)]
    bad = engine.start(slow(resume), call(Message.user("Oh.")), origin=ORIGIN)
    await wait_until(lambda: all(len(run.log) == 3 for run in [*good, bad]))
    await recorder.flush()
    recorder.check()  # New runs are accepted.
    resume.set()
    await asyncio.gather(*(run.wait_ended() for run in [*good, bad]))
    recorder.check()

    assert [await stored_state(database, run) for run in good] == [("finished", "one two")] * 3
    assert [type(run.log[-1]) for run in good] == [RunFinished] * 3
    assert isinstance(bad.log[-1], RunFailed)
    assert (bad.log[-1].code, await stored_state(database, bad)) == ("overloaded", ("nothing", None))


async def test_a_run_rejected_midway_is_interrupted_with_its_stored_output(database: Database) -> None:
    unreliable, resume = UnreliableDatabase(database), asyncio.Event()
    engine, recorder = new_engine(unreliable)
    run = engine.start(slow(resume), call(Message.user("Hi.")), origin=ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await recorder.flush()

    def refuse(args: tuple[Any, ...]) -> None:
        if not isinstance(args[0], str):
            raise ValueError("no such character")

    unreliable.before = refuse
    resume.set()
    await run.wait_ended()

    assert await stored_state(database, run) == ("interrupted", "one ")


async def test_a_write_whose_confirmation_is_lost_is_stored_once_and_completed(database: Database) -> None:
    unreliable, resume, writes = UnreliableDatabase(database), asyncio.Event(), [0]
    engine, recorder = new_engine(unreliable)

    def lose() -> None:
        writes[0] += 1
        if writes[0] == 1:
            raise Overloaded("The connection broke before we were told.")

    unreliable.after = lose
    run = engine.start(slow(resume), call(Message.user("Hi.")), origin=ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await recorder.flush()
    with pytest.raises(Overloaded):
        recorder.check()
    resume.set()
    await run.wait_ended()
    log = await database.read(runs.read_events, "theirs", run.id)

    assert await stored_state(database, run) == ("finished", "one two")
    assert log == run.log


async def test_a_stored_end_whose_confirmation_is_lost_becomes_the_reported_failure(database: Database) -> None:
    unreliable, resume = UnreliableDatabase(database), asyncio.Event()
    engine, recorder = new_engine(unreliable)
    run = engine.start(slow(resume), call(Message.user("Hi.")), origin=ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await recorder.flush()

    def lose() -> None:
        unreliable.after = lambda: None
        raise Overloaded("The connection broke before we were told.")

    unreliable.after = lose
    resume.set()
    await run.wait_ended()
    await recorder.flush()
    log = await database.read(runs.read_events, "theirs", run.id)

    assert isinstance(run.log[-1], RunFailed)
    assert await stored_state(database, run) == ("failed", "one two")
    assert log == run.log


async def test_a_run_with_a_nul_character_is_stored(database: Database) -> None:
    engine, _ = new_engine(database)
    resume = asyncio.Event()
    resume.set()
    run = engine.start(slow(resume), call(Message.user("a\0b"), user="a\0b"), origin=ORIGIN)
    await run.wait_ended()
    row = await database.read(runs.get_run, "theirs", run.id)

    assert row is not None
    assert (row.status, row.user) == ("finished", "a\0b" if database.kind == "sqlite" else "a\ufffdb")
