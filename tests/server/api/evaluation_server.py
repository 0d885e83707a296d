"""A server with a test set, an evaluator registry and a planner, and helpers that insert results directly."""

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
from palaver.storage.evaluations.results import NewResult, NewScore, StopConditions
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


async def with_set(
    database: Database, rows: Sequence[dict[str, Any]] = ROWS, *, id: str = "ts_1", project: str = "default"
) -> str:
    prepared = await database.read(commits.prepare_rows, project, None, [SubmittedRow(row) for row in rows])
    testset = TestSet(id=id, name=f"questions {id}", created_at=NOON, updated_at=NOON)

    def make(db: Connection) -> None:
        commits.create_testset(db, project, testset, prepared, CommitInfo(at=NOON))

    await database.write(make)
    return id


def evaluation_dependencies(database: Database, settings: Settings | None = None) -> dict[str, Any]:
    """What the controllers of evaluations need, apart from `wake_runner`."""
    settings = settings or Settings()
    return {
        "database": database,
        "settings": settings,
        "planner": planning(database, settings),
        "figures": FigureCache(database),
        "rate_limits": RateLimits(settings),
    }


def registry() -> Registry:
    return Registry([tutor, shout], default="tutor")


def planning(database: Database, settings: Settings) -> EvaluationPlanner:
    return create_planner(registry(), database, settings, EvaluatorRegistry(), OfflineContext())


def moment(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


async def answer_all(database: Database, evaluation: str, *, stop_after: int | None = None) -> None:
    """Let every cell that waits have a result, as a worker would: exact, with the text that the workflow gives."""
    left = stop_after
    while taken := await database.write(slices.claim_slices, "p1", ["tutor", "shout"], 100, NOON):
        for one in taken:
            kept = await database.read(evaluations.get_planned, one.project, one.evaluation)
            plan = msgspec.convert(kept.plan, Plan)
            cells = slice_cells(plan, one)[: left if left is not None else None]
            some = [_result(kept.rows, plan, cell) for cell in cells]
            await database.write(evaluation_results.record_results, "p1", one, some, StopConditions(), NOON)
            if left is not None:
                return
            await database.write(slices.end_slice, "p1", one, NOON)


def _result(rows: bytes, plan: Plan, cell: int) -> NewResult:
    place = cell_position(plan, cell)
    asked = ROWS[place.row]
    failed = place.repeat == 1 and place.row == 1
    parameters = plan.variants[place.variant].parameters
    text = tutor(messages=[Message.user(asked["messages"][0]["content"])], **parameters)
    body = {
        "inputs": {"topic": asked["topic"]},
        "history": [Message.user(asked["messages"][0]["content"])],
        "messages": [Message.assistant(text)],
        "text": text,
        "notes": [],
        "tool_calls": [],
        "expected": asked["expected"],
    }
    passed = text == asked["expected"]
    score = NewScore(
        evaluator=0, name="exact_match", status="scored", passed=passed, score=float(passed), details={"why": text}
    )
    return NewResult(
        cell=cell,
        row=format_row_id(rows[place.row * 32 : place.row * 32 + 16]),
        variant=place.variant,
        repeat=place.repeat,
        status="failed" if failed else "done",
        error={"code": "timeout", "message": "It took too long."} if failed else None,
        latency=0.5,
        finish=None if failed else "stop",
        started_at=NOON,
        ended_at=moment(cell),
        preview_in={"renderer": "chat", "text": asked["messages"][0]["content"]},
        preview_out=None if failed else {"renderer": "chat", "text": text},
        words=f"{asked['messages'][0]['content']}\n{text}",
        body=evaluation_results.compress_result({} if failed else body),
        scores=[] if failed else [score],
    )
