"""Workflows, a test set and dependencies for tests of the evaluation API, and helpers that insert results directly."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from sqlalchemy import Connection

from palaver import Message, Parameter, chat, workflow
from palaver.discovery.registry import Registry
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.plan.plan import Plan, cell_position, slice_cells
from palaver.evaluation.plan.planner import EvaluationPlanner
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.server.api.evaluation_results import FigureCache
from palaver.server.evaluation import create_planner
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations import slices
from palaver.storage.evaluations.results import CellScore, NewResult, StopConditions
from palaver.storage.testsets.repository import TestSet
from palaver.testsets import commits
from palaver.testsets.commits import CommitInfo, SubmittedRow
from palaver.testsets.rows import format_row_id

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "2 + 2?"}], "expected": "4", "topic": "maths"},
    {"messages": [{"role": "user", "content": "3 + 3?"}], "expected": "6", "topic": "maths"},
    {"messages": [{"role": "user", "content": "Capital of France?"}], "expected": "Paris", "topic": "cities"},
]


@chat
def tutor(messages: list[Message], style: Annotated[str, Parameter()] = "long") -> str:
    return {"2 + 2?": "4", "3 + 3?": "7"}.get(messages[-1].text, "Paris" if style == "short" else "I think Paris")


@workflow
def shout(topic: str) -> str:
    return topic.upper()


async def create_test_set(
    database: Database, rows: Sequence[dict[str, Any]] = ROWS, *, id: str = "ts_1", project: str = "default"
) -> str:
    prepared = await database.read(commits.prepare_rows, project, None, [SubmittedRow(row) for row in rows])
    testset = TestSet(id=id, name=f"questions {id}", created_at=NOON, updated_at=NOON)

    def make(db: Connection) -> None:
        commits.create_testset(db, project, testset, prepared, CommitInfo(at=NOON))

    await database.write(make)
    return id


def evaluation_dependencies(database: Database, settings: Settings | None = None) -> dict[str, Any]:
    """Return the dependencies of the evaluation controllers, except `wake_runner`."""
    settings = settings or Settings()
    return {
        "database": database,
        "settings": settings,
        "planner": make_planner(database, settings),
        "figures": FigureCache(database),
        "rate_limits": RateLimits(settings),
    }


def registry() -> Registry:
    return Registry([tutor, shout], default="tutor")


def make_planner(database: Database, settings: Settings) -> EvaluationPlanner:
    return create_planner(registry(), database, settings, EvaluatorRegistry(), OfflineContext())


def moment(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


async def answer_all(database: Database, evaluation: str, *, stop_after: int | None = None) -> None:
    """Record a result for every pending cell, as a worker would, scored by exact match.

    With `stop_after`, record that many cells of the first slice and leave it unfinished.
    """
    while claimed := await database.write(slices.claim_slices, "p1", ["tutor", "shout"], 100, NOON):
        for claimed_slice in claimed:
            planned = await database.read(evaluations.get_planned, claimed_slice.project, claimed_slice.evaluation)
            plan = msgspec.convert(planned.plan, Plan)
            cells = slice_cells(plan, claimed_slice)[:stop_after]
            results = [_result(planned.rows, plan, cell) for cell in cells]
            await database.write(
                evaluation_results.record_results, "p1", claimed_slice, results, StopConditions(), NOON
            )
            if stop_after is not None:
                return
            await database.write(slices.end_slice, "p1", claimed_slice, NOON)


def _result(rows: bytes, plan: Plan, cell: int) -> NewResult:
    position = cell_position(plan, cell)
    row = ROWS[position.row]
    failed = position.repeat == 1 and position.row == 1
    parameters = plan.variants[position.variant].parameters
    text = tutor(messages=[Message.user(row["messages"][0]["content"])], **parameters)
    body = {
        "inputs": {"topic": row["topic"]},
        "history": [Message.user(row["messages"][0]["content"])],
        "messages": [Message.assistant(text)],
        "text": text,
        "notes": [],
        "tool_calls": [],
        "expected": row["expected"],
    }
    passed = text == row["expected"]
    score = CellScore(
        evaluator=0, name="exact_match", status="scored", passed=passed, score=float(passed), details={"why": text}
    )
    return NewResult(
        cell=cell,
        row=format_row_id(rows[position.row * 32 : position.row * 32 + 16]),
        variant=position.variant,
        repeat=position.repeat,
        status="failed" if failed else "done",
        error={"code": "timeout", "message": "It took too long."} if failed else None,
        latency=0.5,
        finish=None if failed else "stop",
        started_at=NOON,
        ended_at=moment(cell),
        preview_in={"renderer": "chat", "text": row["messages"][0]["content"]},
        preview_out=None if failed else {"renderer": "chat", "text": text},
        words=f"{row['messages'][0]['content']}\n{text}",
        body=evaluation_results.compress_result({} if failed else body),
        scores=[] if failed else [score],
    )
