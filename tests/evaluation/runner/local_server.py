"""Evaluations in a server of this process, for tests of what runs them."""

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
from palaver.testsets.rows import new_row_id, pack_row_id, row_hash

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


def put(db: Connection, id: str, planned: Plan, data: Sequence[dict[str, Any]]) -> Evaluation:
    """Keep an evaluation of these rows."""
    contents = {row_hash(one): json.encode(one) for one in data}
    testset_rows.insert_contents(db, "default", TESTSET, contents)
    packed = b"".join(pack_row_id(new_row_id(number, number)) + row_hash(one) for number, one in enumerate(data))
    return evaluations.create_evaluation(
        db, "default", new_evaluation(id, PlannedEvaluation(planned, packed)), utc_now()
    )


@asynccontextmanager
async def serving(
    database: Database, *workflows: Any, settings: Settings = QUIET, evaluators: Sequence[Any] = ()
) -> AsyncIterator[Server]:
    """A server at work on that database, which stays open."""
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


async def ended(database: Database, id: str = "ev_1", *, seconds: float = 20) -> Evaluation:
    """The evaluation, when it has ended."""
    async with asyncio.timeout(seconds):
        while (found := await database.read(evaluations.get_evaluation, "default", id)).ended_at is None:  # noqa: ASYNC110 - a database tells nobody
            await asyncio.sleep(0.02)
    return found


async def until(is_so: Callable[[], bool], *, seconds: float = 20) -> None:
    """Wait for what nobody tells."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - as was said
            await asyncio.sleep(0.01)


async def results(database: Database, id: str = "ev_1") -> list[StoredResult]:
    return (await database.read(evaluation_pages.list_results, "default", id)).data


async def whole(database: Database, cell: int = 0, id: str = "ev_1") -> ResultDetail:
    return await database.read(evaluation_pages.get_result, "default", id, cell)
