"""Recovery of evaluations: processes that stop or die keep recorded results, and others finish the rest."""

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
from tests.evaluation.runner.local_server import (
    plan,
    read_result_detail,
    results,
    rows,
    running_server,
    store_evaluation,
    variant,
    wait_for_end,
    wait_until,
)


class CountingChat:
    """A chat that counts its requests by text, and can be made to wait."""

    def __init__(self, *, waits_after: int = 1_000_000, seconds: float = 60) -> None:
        self.requests = Counter[str]()
        self.waiting = 0
        self.stopped = 0
        self.chat = self._made(waits_after, seconds)

    def _made(self, waits_after: int, seconds: float) -> Workflow:
        @chat
        async def counted(messages: Any) -> str:
            text = messages[-1]["content"]
            self.requests[text] += 1
            if self.requests.total() > waits_after:
                self.waiting += 1
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    self.stopped += 1
                    raise
            return text

        return counted

    async def waits(self, count: int) -> None:
        await wait_until(lambda: self.waiting >= count)


async def await_recorded_answers(database: Database, count: int) -> set[str]:
    """Return the answers of the recorded cells once there are `count` of them."""
    async with asyncio.timeout(60):
        while len(result := await results(database)) < count:  # noqa: ASYNC110 - the database has to be polled
            await asyncio.sleep(0.01)
    return {(await read_result_detail(database, one.cell)).body["text"] for one in result}


async def test_two_processes_share_one_evaluation(database: Database) -> None:
    mine, theirs = CountingChat(waits_after=0, seconds=0.05), CountingChat(waits_after=0, seconds=0.05)
    async with running_server(database, mine.chat) as server, running_server(database, theirs.chat) as second:
        await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=8), rows(60))
        server.runtime.evaluation_worker.wake()
        second.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    assert (finished.state, finished.done) == ("succeeded", 60)
    assert mine.requests + theirs.requests == Counter({f"Say {number}": 1 for number in range(60)})
    assert min(mine.requests.total(), theirs.requests.total()) > 0


async def test_cancelling_an_evaluation_stops_its_calls_and_keeps_recorded_results(database: Database) -> None:
    counted = CountingChat(waits_after=6)
    async with running_server(database, counted.chat) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=4), rows(40))
        server.runtime.evaluation_worker.wake()
        await counted.waits(4)
        before = await await_recorded_answers(database, 6)

        cancelled_at = time.monotonic()
        await database.write(evaluations.cancel_evaluation, "default", "ev_1", utc_now())
        finished = await wait_for_end(database)  # The runner is not woken: it polls.
        seconds = time.monotonic() - cancelled_at

    assert (finished.state, finished.done, finished.failed, finished.reason) == ("cancelled", 6, 0, None)
    assert seconds < 10  # benchmarks/ measures it; this only checks that the calls are not awaited.
    assert (counted.stopped, counted.requests.total()) == (4, 10)
    assert await await_recorded_answers(database, 6) == before


async def test_a_stopping_process_releases_its_slices_at_once(database: Database) -> None:
    first, second = CountingChat(waits_after=7), CountingChat()
    async with running_server(database, first.chat) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=3), rows(20))
        server.runtime.evaluation_worker.wake()
        await first.waits(3)
        before = await await_recorded_answers(database, 7)
        stopped_at = time.monotonic()
        draining = asyncio.create_task(server.engine.drain(20))
        await wait_until(lambda: not server.runtime.evaluation_worker.running)
        seconds = time.monotonic() - stopped_at
        evaluation = await database.read(evaluations.get_evaluation, "default", "ev_1")
        await draining
    async with running_server(database, second.chat) as other:
        other.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    assert seconds < 10
    assert (evaluation.state, evaluation.done, evaluation.ended_at) == ("running", 7, None)
    assert (finished.state, finished.done, finished.failed) == ("succeeded", 20, 0)
    assert set(second.requests) == {f"Say {number}" for number in range(20)} - before
    assert set(second.requests.values()) == {1}


async def test_slices_of_a_dead_process_are_run_by_another(database: Database) -> None:
    counted = CountingChat()
    await database.write(store_evaluation, "ev_1", plan(variant("counted")), rows(10))
    claimed = await database.write(slices.claim_slices, "the-dead", ["counted"], 100, utc_now())
    beats = Settings(trace_content="off", heartbeat_seconds=0.05)
    async with running_server(database, counted.chat, settings=beats) as server:
        if database.kind == "sqlite" and database.path is None:
            await server.runtime.evaluation_worker.release_slices_of(["the-dead"])
        finished = await wait_for_end(database)

    assert len(claimed) > 1
    assert (finished.state, finished.done) == ("succeeded", 10)
    assert set(counted.requests.values()) == {1}


async def test_a_process_presumed_dead_records_nothing_when_it_comes_back(database: Database) -> None:
    slow, quick = CountingChat(waits_after=0, seconds=1.5), CountingChat()
    full = Settings(trace_content="off", threads=4)  # No capacity to claim the lost slices again.
    async with running_server(database, slow.chat, settings=full) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=2), rows(2))
        server.runtime.evaluation_worker.wake()
        await slow.waits(2)
        await database.write(lambda db: db.execute(update(evaluation_slices).values(process="the-dead")))
        async with running_server(database, quick.chat) as second:
            await second.runtime.evaluation_worker.release_slices_of(["the-dead"])
            finished = await wait_for_end(database)
        await wait_until(lambda: not server.runtime.evaluation_worker.running)

    assert (finished.state, finished.done, finished.recorded, quick.requests.total()) == ("succeeded", 2, 2, 2)


async def test_a_cell_that_kills_every_process_fails_with_process_died(database: Database) -> None:
    counted = CountingChat()
    await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=8), rows(2))
    await database.write(lambda db: db.execute(update(evaluation_slices).values(attempts=5)))
    async with running_server(database, counted.chat) as server:
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    result = await results(database)
    assert (finished.state, finished.done, finished.failed) == ("partly", 1, 1)
    assert result[0].error == {"code": "process_died", "message": "Every process that ran this cell crashed."}
    assert set(counted.requests) == {"Say 1"}


async def test_failed_cells_are_rerun_in_the_same_evaluation(database: Database) -> None:
    is_broken = True
    requests = Counter[str]()

    @chat
    async def mended(messages: Any) -> str:
        text = messages[-1]["content"]
        requests[text] += 1
        if is_broken and text in ("Say 1", "Say 3"):
            raise ValueError(text)
        return text

    async with running_server(database, mended) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("mended")), rows(5))
        server.runtime.evaluation_worker.wake()
        before = await wait_for_end(database)
        is_broken = False
        await database.write(evaluations.rerun_evaluation, "default", "ev_1", "failed", utc_now())
        server.runtime.evaluation_worker.wake()
        after = await wait_for_end(database)

    assert [(one.state, one.done, one.failed) for one in (before, after)] == [("partly", 3, 2), ("succeeded", 5, 0)]
    assert requests == {"Say 0": 1, "Say 1": 2, "Say 2": 1, "Say 3": 2, "Say 4": 1}


async def test_deleting_an_evaluation_stops_its_calls(database: Database) -> None:
    counted = CountingChat(waits_after=0)
    async with running_server(database, counted.chat) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=2), rows(8))
        server.runtime.evaluation_worker.wake()
        await counted.waits(2)
        await database.write(evaluations.delete_evaluation, "default", "ev_1")
        server.runtime.evaluation_worker.wake()
        await wait_until(lambda: not server.runtime.evaluation_worker.running)

    assert (counted.stopped, counted.requests.total()) == (2, 2)


async def test_slices_are_left_to_other_processes_if_the_runner_cannot_be_created(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted = CountingChat()

    def broken() -> Any:
        raise ImportError("not here")

    async with running_server(database, counted.chat) as server:
        monkeypatch.setattr(server.runtime.evaluation_worker, "_make_runner", broken)
        await database.write(store_evaluation, "ev_1", plan(variant("counted")), rows(2))
        server.runtime.evaluation_worker.wake()
        await wait_until(lambda: "Failed to poll for queued evaluations" in caplog.messages)
        has_waiting = await database.read(slices.has_waiting_slices)
        async with running_server(database, counted.chat) as second:
            second.runtime.evaluation_worker.wake()
            finished = await wait_for_end(database)

    assert (has_waiting, finished.state, counted.requests.total()) == (True, "succeeded", 2)


async def test_a_slice_whose_plan_cannot_be_read_is_retried(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted = CountingChat()
    monkeypatch.setattr(slice_runner, "RETRY_INTERVAL_S", 0.05)
    async with running_server(database, counted.chat) as server:
        good = plan(variant("counted"))
        await database.write(store_evaluation, "ev_1", good, rows(2))
        await database.write(lambda db: db.execute(update(evaluations_table).values(plan={"of": "another version"})))
        server.runtime.evaluation_worker.wake()
        await wait_until(lambda: len(caplog.messages) > 1)
        await database.write(lambda db: db.execute(update(evaluations_table).values(plan=good)))
        finished = await wait_for_end(database)

    assert (finished.state, counted.requests.total()) == ("succeeded", 2)
    assert set(caplog.messages) == {"Failed to run a slice of ev_1, retrying"}


async def test_an_evaluation_runs_in_a_memory_database() -> None:
    counted = CountingChat()
    server = Server(Registry([counted.chat]), Settings(trace_content="off"))
    await server.runtime.start()
    try:
        await server.runtime.database.write(store_evaluation, "ev_1", plan(variant("counted")), rows(3))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(server.runtime.database)
    finally:
        await server.engine.drain(0)
        await server.close()

    assert (finished.state, finished.done) == ("succeeded", 3)
