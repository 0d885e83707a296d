"""Evaluations in a server of this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection

from palaver.core import json
from palaver.discovery.registry import Registry
from palaver.engine.engine import utc_now
from palaver.evaluation.plan.plan import (
    ColumnMap,
    Plan,
    PlannedEvaluation,
    PlannedEvaluator,
    PlannedTestset,
    PlannedVariant,
    new_evaluation,
)
from palaver.evaluation.plan.request import Limits
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultDetail, StoredResult
from palaver.storage.testsets import rows as testset_rows
from palaver.testsets.rows import new_packed_id, row_hash

TESTSET = "ts_1"
QUIET = Settings(trace_content="off")


def variant(workflow: str | None = "answer", **more: Any) -> PlannedVariant:
    values: dict[str, Any] = {
        "name": workflow or "column",
        "workflow": workflow,
        "is_chat": True,
        "map": ColumnMap(messages="messages", expected="expected"),
    }
    return PlannedVariant(**values | more)


def plan(
    *variants: PlannedVariant,
    evaluators: Sequence[PlannedEvaluator] = (PlannedEvaluator(key="exact_match", name="exact_match"),),
    repeats: int = 1,
    **limits: Any,
) -> Plan:
    return Plan(
        name="A run",
        testset=PlannedTestset(id=TESTSET, name="Some", revision=1),
        variants=variants or [variant()],
        evaluators=evaluators,
        repeats=repeats,
        limits=Limits(**limits),
    )


def rows(count: int) -> list[dict[str, Any]]:
    return [{"messages": f"Say {number}", "expected": f"Say {number}"} for number in range(count)]


def store_evaluation(db: Connection, id: str, planned: Plan, data: Sequence[dict[str, Any]]) -> Evaluation:
    """Store an evaluation of these rows."""
    contents = {row_hash(row): json.encode(row) for row in data}
    testset_rows.insert_contents(db, "default", TESTSET, contents)
    packed = b"".join(new_packed_id(number, number) + row_hash(row) for number, row in enumerate(data))
    return evaluations.create_evaluation(
        db, "default", new_evaluation(id, PlannedEvaluation(planned, packed)), utc_now()
    )


@asynccontextmanager
async def running_server(
    database: Database, *workflows: Any, settings: Settings = QUIET, evaluators: Sequence[Any] = ()
) -> AsyncIterator[Server]:
    """Run a server on the database, and leave the database open."""
    server = Server(Registry(workflows, evaluators=evaluators), settings, database=database)
    await server.runtime.start()
    try:
        yield server
    finally:
        await server.engine.drain(0)
        await server.runtime.evaluation_worker.stop()
        await server.runtime.run_queue.stop()
        await server.runtime.retention.stop()
        await server.runtime.connection_sync.stop()
        await server.runtime.heartbeat.stop()
        await server.runtime.change_feed.stop()
        await server.runtime.recorder.flush()
        await server.runtime.telemetry.close()


async def wait_for_end(database: Database, id: str = "ev_1", *, seconds: float = 20) -> Evaluation:
    """Wait for the evaluation to end, and return it."""
    async with asyncio.timeout(seconds):
        while (result := await database.read(evaluations.get_evaluation, "default", id)).ended_at is None:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
    return result


async def wait_until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    """Poll a condition."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def results(database: Database, id: str = "ev_1") -> list[StoredResult]:
    return (await database.read(evaluation_pages.list_results, "default", id)).data


async def read_result_detail(database: Database, cell: int = 0, id: str = "ev_1") -> ResultDetail:
    return await database.read(evaluation_pages.get_result, "default", id, cell)
