"""System clock changes of an hour back or a day forward do not affect order, durations, leases or keys."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from palaver.core.messages import Message
from palaver.core.runs import Origin
from palaver.engine.engine import Engine
from palaver.engine.heartbeat import DEAD_AFTER_BEATS, HEARTBEAT_INTERVAL_S, Heartbeat
from palaver.engine.recorder import Recorder
from palaver.engine.run_reader import RunReader
from palaver.server.auth import Authenticator
from palaver.server.settings import Settings
from palaver.storage import api_keys, background_runs, run_log, runs
from palaver.storage.database import Database
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, call, wait_until

pytestmark = pytest.mark.anyio
BACK, FORWARD = timedelta(hours=-1), timedelta(days=1)
JUMPS = [BACK, timedelta(), FORWARD]
ORIGIN = Origin(project="theirs", protocol="responses", stored=True)


class RunnerProcess:
    """One process, whose clocks are set by hand."""

    def __init__(self, database: Database, name: str) -> None:
        self.wall, self.seconds = NOW, 0.0
        self.database = database
        self.recorder = Recorder(database, process=name, now=self.now, delay=0.01)
        self.engine = Engine(store=self.recorder, now=self.now)
        self.records = RunReader(self.engine, self.recorder, database, now=self.now)
        self.presence = Heartbeat(
            name,
            database,
            self.engine,
            kind="server",
            version="1",
            now=self.now,
            monotonic=lambda: self.seconds,
        )

    def now(self) -> datetime:
        return self.wall

    async def arrive(self) -> None:
        """Register the process without starting its heartbeat."""
        await self.database.write(background_runs.register_process, self.presence._process)

    async def beat(self, *, seconds: float = HEARTBEAT_INTERVAL_S) -> None:
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)
        await self.presence.beat()


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_run_keeps_its_event_order_and_never_ends_before_it_started(
    database: Database, jump: timedelta
) -> None:
    process, resume = RunnerProcess(database, "p1"), asyncio.Event()

    @chat
    async def slow(messages: Any) -> AsyncIterator[str]:
        yield "one "
        await resume.wait()
        yield "two"

    run = process.engine.start(slow, call(Message.user("Hi.")), origin=ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await process.recorder.flush()
    process.wall += jump
    resume.set()
    await run.wait_ended()
    row = await process.records.get_row("theirs", run.id)
    log = await database.read(runs.read_events, "theirs", run.id)

    assert [event.seq for event in log] == list(range(6))
    assert log == run.log
    assert (row.started_at, row.ended_at) == (NOW, NOW + max(jump, timedelta()))


@pytest.mark.parametrize("jump", JUMPS)
async def test_an_interrupted_run_never_ends_before_it_started(database: Database, jump: timedelta) -> None:
    process = RunnerProcess(database, "p1")

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "one"
        await asyncio.Event().wait()

    run = process.engine.start(endless, call(Message.user("Hi.")), origin=ORIGIN)
    await wait_until(lambda: len(run.log) == 3)
    await process.recorder.flush()
    await database.write(run_log.interrupt_run, "theirs", run.id, NOW + jump)
    row = await database.read(runs.get_run, "theirs", run.id)
    log = await database.read(runs.read_events, "theirs", run.id)
    process.recorder._states.clear()  # The process is dead: it writes nothing more.
    await process.engine.drain(0)

    assert row is not None
    assert (row.status, row.started_at, row.ended_at) == ("interrupted", NOW, NOW + max(jump, timedelta()))
    assert [event.seq for event in log] == list(range(5))


@pytest.mark.parametrize("jump", [BACK, FORWARD])
async def test_a_process_with_a_heartbeat_stays_alive_despite_clock_jumps(database: Database, jump: timedelta) -> None:
    first, second = RunnerProcess(database, "p1"), RunnerProcess(database, "p2")
    await first.arrive()
    await second.arrive()
    second.wall += jump  # Its clock always differs,
    for number in range(3 * DEAD_AFTER_BEATS):
        await first.beat()
        await second.beat()
        if number == DEAD_AFTER_BEATS:
            first.wall += jump  # and now the first clock jumps, too.
    both = [one.id for one in await database.read(background_runs.list_processes)]
    for _ in range(DEAD_AFTER_BEATS + 1):
        await first.beat()
    remaining = [one.id for one in await database.read(background_runs.list_processes)]

    assert (both, remaining) == (["p1", "p2"], ["p1"])


async def test_a_process_does_not_declare_others_dead_right_after_its_own_outage(database: Database) -> None:
    first, second = RunnerProcess(database, "p1"), RunnerProcess(database, "p2")
    await first.arrive()
    await second.arrive()
    await first.beat()
    await first.beat(seconds=100 * HEARTBEAT_INTERVAL_S)  # The database was unreachable, or this machine was asleep.
    for _ in range(DEAD_AFTER_BEATS - 1):
        await first.beat()
    current = [one.id for one in await database.read(background_runs.list_processes)]
    await first.beat()
    remaining = [one.id for one in await database.read(background_runs.list_processes)]

    assert (current, remaining) == (["p1", "p2"], ["p1"])


@pytest.mark.parametrize("jump", [BACK, FORWARD])
async def test_a_thread_claimed_for_a_run_that_never_started_is_released_after_a_while(
    database: Database, jump: timedelta
) -> None:
    process = RunnerProcess(database, "p1")
    await process.arrive()
    await database.write(threads.create_thread, "theirs", NewThread(id="thr_1", at=NOW, origin="api"), ())
    await database.write(threads.claim_thread, "theirs", "thr_1", "run_that_never_began")
    for _ in range(DEAD_AFTER_BEATS):
        await process.beat()
    process.wall += jump
    before = await database.read(threads.require_thread, "theirs", "thr_1")
    await process.beat()
    after = await database.read(threads.require_thread, "theirs", "thr_1")

    assert (before.run, after.run) == ("run_that_never_began", None)


async def test_the_only_server_of_a_database_releases_claimed_threads_when_it_starts(database: Database) -> None:
    process = RunnerProcess(database, "p1")
    await database.write(threads.create_thread, "theirs", NewThread(id="thr_1", at=NOW, origin="api"), ())
    await database.write(threads.claim_thread, "theirs", "thr_1", "run_that_never_began")
    await process.presence.start(only_server=True)
    after = await database.read(threads.require_thread, "theirs", "thr_1")
    await process.presence.stop()

    assert after.run is None


async def test_a_thread_with_an_active_run_is_not_released(database: Database) -> None:
    process = RunnerProcess(database, "p1")
    await process.arrive()
    await database.write(threads.create_thread, "theirs", NewThread(id="thr_1", at=NOW, origin="api"), ())

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "one"
        await asyncio.Event().wait()

    origin = Origin(project="theirs", protocol="responses", stored=True, thread="thr_1")
    run = process.engine.start(endless, call(Message.user("Hi.")), origin=origin)
    await database.write(threads.claim_thread, "theirs", "thr_1", run.id)
    await process.recorder.flush()
    for _ in range(3 * DEAD_AFTER_BEATS):
        await process.beat()
    stored_thread = await database.read(threads.require_thread, "theirs", "thr_1")
    run.cancel()
    await run.wait_ended()
    released = await database.read(threads.require_thread, "theirs", "thr_1")

    assert (stored_thread.run, released.run) == (run.id, None)


async def test_an_expired_key_stays_expired_when_the_clock_goes_back(database: Database) -> None:
    wall, seconds = [NOW], [0.0]
    authenticator = Authenticator(database, Settings(), clock=lambda: wall[0], monotonic=lambda: seconds[0])
    key, text = api_keys.new_api_key(
        project="team", name="", scopes=frozenset({"invoke"}), now=NOW, expires_at=NOW + timedelta(minutes=1)
    )
    await database.write(api_keys.insert_key, key)
    good = await authenticator.caller_of_key(text)
    wall[0], seconds[0] = NOW + timedelta(minutes=2), 120.0
    expired = await authenticator.caller_of_key(text)
    wall[0] += BACK
    after_jump = await authenticator.caller_of_key(text)
    await authenticator.close()

    assert (good is not None, expired, after_jump) == (True, None, None)
