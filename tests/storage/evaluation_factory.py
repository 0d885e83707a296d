"""Evaluations, results and scores for storage tests."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert

from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.repository import NewEvaluation, NewSlice
from palaver.storage.evaluations.results import CellScore, NewResult, compress_result
from palaver.storage.tables import processes

AT = datetime(2026, 11, 16, 12, tzinfo=UTC)


def make_evaluation(
    cells: int = 6, *, size: int = 3, id: str = "ev_1", workflow: str = "tutor", concurrency: int = 4, **more: Any
) -> NewEvaluation:
    slices = [NewSlice(workflow, first, min(size, cells - first)) for first in range(0, cells, size)]
    values: dict[str, Any] = {
        "id": id,
        "name": "Prompt v3",
        "testset": "ts_1",
        "revision": 4,
        "total": cells,
        "plan": {"repeats": 1},
        "rows": b"r" * 32 * cells,
        "concurrency": concurrency,
        "slices": slices,
    }
    return NewEvaluation(**values | more)


def make_result(
    cell: int, *, status: Any = "done", cost: float | None = None, scores: Sequence[CellScore] = (), **more: Any
) -> NewResult:
    values: dict[str, Any] = {
        "cell": cell,
        "row": f"row_{cell}",
        "variant": 0,
        "repeat": 0,
        "status": status,
        "error": None if status == "done" else {"code": "workflow_failed", "message": "It broke."},
        "latency": 0.5,
        "cost": cost,
        "finish": "stop" if status == "done" else None,
        "started_at": AT,
        "ended_at": AT + timedelta(seconds=cell),
        "words": f"Answer {cell}",
        "body": compress_result({"text": f"Answer {cell}"}),
        "scores": scores,
    }
    return NewResult(**values | more)


def make_score(passed: bool | None = True, *, name: str = "exact_match", **more: Any) -> CellScore:
    values: dict[str, Any] = {"evaluator": 0, "name": name, "status": "scored", "passed": passed}
    if passed is not None:
        values["score"] = float(passed)
    return CellScore(**values | more)


def register_processes(db: Connection, *names: str) -> None:
    """Insert processes with a heartbeat."""
    rows = [
        {"id": name, "kind": "worker", "host": "h", "pid": 1, "version": "1", "started_at": AT, "seen_at": AT}
        for name in names
    ]
    db.execute(insert(processes), rows)


def load_score_rows(db: Connection, project: str, evaluation: str) -> list[evaluation_results.ScoreRow]:
    """Return all rows at once, for use after the connection is closed."""
    return list(evaluation_results.score_rows(db, project, evaluation))


def load_cell_rows(db: Connection, project: str, evaluation: str) -> list[evaluation_results.CellRow]:
    return list(evaluation_results.cell_rows(db, project, evaluation))
