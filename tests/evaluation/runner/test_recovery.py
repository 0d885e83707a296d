"""Whatever happens to those who run an evaluation, what is recorded stays, and the rest goes on elsewhere."""

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import update

from palaver import chat
from palaver.discovery.registry import Registry
from palaver.engine.engine import utc_now
from palaver.evaluation.runner import slice_runner
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import slices
from palaver.storage.evaluations.tables import evaluation_slices
from palaver.storage.evaluations.tables import evaluations as evaluations_table
from palaver.workflows.workflow import Workflow
from tests.evaluation.runner.local_server import ended, plan, put, results, rows, serving, until, variant, whole


class Counted:
    """A chat that counts how often it was asked what, and may be made to wait."""

    def __init__(self, *, waits_after: int = 1_000_000, seconds: float = 60) -> None:
        self.asked = Counter[str]()
        self.waiting = 0
        self.stopped = 0
        self.chat = self._made(waits_after, seconds)

    def _made(self, waits_after: int, seconds: float) -> Workflow:
        @chat
        async def counted(messages: Any) -> str:
            text = messages[-1]["content"]
            self.asked[text] += 1
            if self.asked.total() > waits_after:
                self.waiting += 1
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    self.stopped += 1
                    raise
            return text

        return counted

    async def waits(self, count: int) -> None:
        await until(lambda: self.waiting >= count)


async def recorded(database: Database, count: int) -> set[str]:
    """What was answered in the cells that are recorded, once they are so many."""
    async with asyncio.timeout(20):
        while len(found := await results(database)) < count:  # noqa: ASYNC110 - a database tells nobody
            await asyncio.sleep(0.01)
    return {(await whole(database, one.cell)).body["text"] for one in found}


async def test_two_processes_share_one_evaluation(database: Database) -> None:
    mine, theirs = Counted(waits_after=0, seconds=0.05), Counted(waits_after=0, seconds=0.05)
    async with serving(database, mine.chat) as server, serving(database, theirs.chat) as other:
        await database.write(put, "ev_1", plan(variant("counted"), concurrency=8), rows(60))
        server.runtime.evaluation_worker.wake()
        other.runtime.evaluation_worker.wake()
        done = await ended(database)

    assert (done.state, done.done) == ("succeeded", 60)
    assert mine.asked + theirs.asked == Counter({f"Say {number}": 1 for number in range(60)})
    assert min(mine.asked.total(), theirs.asked.total()) > 0


async def test_a_cancelled_evaluation_stops_its_calls_and_keeps_what_it_has(database: Database) -> None:
    counted = Counted(waits_after=6)
    async with serving(database, counted.chat) as server:
        await database.write(put, "ev_1", plan(variant("counted"), concurrency=4), rows(40))
        server.runtime.evaluation_worker.wake()
        await counted.waits(4)
        before = await recorded(database, 6)

        began = time.monotonic()
        await database.write(evaluations.cancel_evaluation, "default", "ev_1", utc_now())
        done = await ended(database)  # Nobody wakes the runner: it looks by itself.
        seconds = time.monotonic() - began

    assert (done.state, done.done, done.failed, done.reason) == ("cancelled", 6, 0, None)
    assert seconds < 10  # The figure is in benchmarks/; this only sees that nobody waits for the calls.
    assert (counted.stopped, counted.asked.total()) == (4, 10)
    assert await recorded(database, 6) == before


async def test_a_process_that_stops_gives_back_what_it_has_at_once(database: Database) -> None:
    first, second = Counted(waits_after=7), Counted()
    async with serving(database, first.chat) as server:
        await database.write(put, "ev_1", plan(variant("counted"), concurrency=3), rows(20))
        server.runtime.evaluation_worker.wake()
        await first.waits(3)
        before = await recorded(database, 7)
        began = time.monotonic()
        draining = asyncio.create_task(server.engine.drain(20))
        await until(lambda: not server.runtime.evaluation_worker.running)
        seconds = time.monotonic() - began
        left = await database.read(evaluations.get_evaluation, "default", "ev_1")
        await draining
    async with serving(database, second.chat) as other:
        other.runtime.evaluation_worker.wake()
        done = await ended(database)

    assert seconds < 10
    assert (left.state, left.done, left.ended_at) == ("running", 7, None)
    assert (done.state, done.done, done.failed) == ("succeeded", 20, 0)
    assert set(second.asked) == {f"Say {number}" for number in range(20)} - before
    assert set(second.asked.values()) == {1}


async def test_slices_of_a_process_that_died_go_on(database: Database) -> None:
    counted = Counted()
    await database.write(put, "ev_1", plan(variant("counted")), rows(10))
    taken = await database.write(slices.claim_slices, "the-dead", ["counted"], 100, utc_now())
    beats = Settings(trace_content="off", heartbeat_seconds=0.05)
    async with serving(database, counted.chat, settings=beats) as server:
        if database.kind == "sqlite" and database.path is None:
            await server.runtime.evaluation_worker.release_slices_of(["the-dead"])
        done = await ended(database)

    assert len(taken) > 1
    assert (done.state, done.done) == ("succeeded", 10)
    assert set(counted.asked.values()) == {1}


async def test_a_process_that_was_taken_for_dead_and_comes_back_records_nothing(database: Database) -> None:
    slow, quick = Counted(waits_after=0, seconds=1.5), Counted()
    full = Settings(trace_content="off", threads=4)  # It has no room for what it loses.
    async with serving(database, slow.chat, settings=full) as server:
        await database.write(put, "ev_1", plan(variant("counted"), concurrency=2), rows(2))
        server.runtime.evaluation_worker.wake()
        await slow.waits(2)
        await database.write(lambda db: db.execute(update(evaluation_slices).values(process="the-dead")))
        async with serving(database, quick.chat) as other:
            await other.runtime.evaluation_worker.release_slices_of(["the-dead"])
            done = await ended(database)
        await until(lambda: not server.runtime.evaluation_worker.running)

    assert (done.state, done.done, done.recorded, quick.asked.total()) == ("succeeded", 2, 2, 2)


async def test_a_cell_that_takes_every_process_with_it_is_found(database: Database) -> None:
    counted = Counted()
    await database.write(put, "ev_1", plan(variant("counted"), concurrency=8), rows(2))
    await database.write(lambda db: db.execute(update(evaluation_slices).values(attempts=5)))
    async with serving(database, counted.chat) as server:
        server.runtime.evaluation_worker.wake()
        done = await ended(database)

    found = await results(database)
    assert (done.state, done.done, done.failed) == ("partly", 1, 1)
    assert found[0].error == {"code": "process_died", "message": "Every process that ran this cell died with it."}
    assert set(counted.asked) == {"Say 1"}


async def test_what_failed_is_run_again_into_the_same_evaluation(database: Database) -> None:
    is_broken = True
    asked = Counter[str]()

    @chat
    async def mended(messages: Any) -> str:
        text = messages[-1]["content"]
        asked[text] += 1
        if is_broken and text in ("Say 1", "Say 3"):
            raise ValueError(text)
        return text

    async with serving(database, mended) as server:
        await database.write(put, "ev_1", plan(variant("mended")), rows(5))
        server.runtime.evaluation_worker.wake()
        before = await ended(database)
        is_broken = False
        await database.write(evaluations.rerun_evaluation, "default", "ev_1", "failed", utc_now())
        server.runtime.evaluation_worker.wake()
        after = await ended(database)

    assert [(one.state, one.done, one.failed) for one in (before, after)] == [("partly", 3, 2), ("succeeded", 5, 0)]
    assert asked == {"Say 0": 1, "Say 1": 2, "Say 2": 1, "Say 3": 2, "Say 4": 1}


async def test_an_evaluation_that_is_deleted_is_left(database: Database) -> None:
    counted = Counted(waits_after=0)
    async with serving(database, counted.chat) as server:
        await database.write(put, "ev_1", plan(variant("counted"), concurrency=2), rows(8))
        server.runtime.evaluation_worker.wake()
        await counted.waits(2)
        await database.write(evaluations.delete_evaluation, "default", "ev_1")
        server.runtime.evaluation_worker.wake()
        await until(lambda: not server.runtime.evaluation_worker.running)

    assert (counted.stopped, counted.asked.total()) == (2, 2)


async def test_what_cannot_be_loaded_is_left_to_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted = Counted()

    def broken() -> Any:
        raise ImportError("not here")

    async with serving(database, counted.chat) as server:
        monkeypatch.setattr(server.runtime.evaluation_worker, "_make", broken)
        await database.write(put, "ev_1", plan(variant("counted")), rows(2))
        server.runtime.evaluation_worker.wake()
        await until(lambda: "Evaluations that wait could not be looked for" in caplog.messages)
        left = await database.read(slices.has_waiting_slices)
        async with serving(database, counted.chat) as other:
            other.runtime.evaluation_worker.wake()
            done = await ended(database)

    assert (left, done.state, counted.asked.total()) == (True, "succeeded", 2)


async def test_a_plan_that_cannot_be_read_is_left_to_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted = Counted()
    monkeypatch.setattr(slice_runner, "RETRY_INTERVAL_S", 0.05)
    async with serving(database, counted.chat) as server:
        good = plan(variant("counted"))
        await database.write(put, "ev_1", good, rows(2))
        await database.write(lambda db: db.execute(update(evaluations_table).values(plan={"of": "another version"})))
        server.runtime.evaluation_worker.wake()
        await until(lambda: len(caplog.messages) > 1)
        await database.write(lambda db: db.execute(update(evaluations_table).values(plan=good)))
        done = await ended(database)

    assert (done.state, counted.asked.total()) == ("succeeded", 2)
    assert set(caplog.messages) == {"A slice of ev_1 cannot be run, which is tried again"}


async def test_an_evaluation_in_memory_needs_nobody_who_looks() -> None:
    counted = Counted()
    server = Server(Registry([counted.chat]), Settings(trace_content="off"))
    await server.runtime.start()
    try:
        await server.runtime.database.write(put, "ev_1", plan(variant("counted")), rows(3))
        server.runtime.evaluation_worker.wake()
        done = await ended(server.runtime.database)
    finally:
        await server.engine.drain(0)
        await server.close()

    assert (done.state, done.done) == ("succeeded", 3)
