"""How evaluations end: when nothing of one is left to run, its figures say how it went. The row must be held."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, update

from palaver.storage import notices
from palaver.storage.evaluations.tables import IS_LEFT
from palaver.storage.evaluations.tables import evaluation_results as results
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.evaluations.tables import evaluation_slices as slices
from palaver.storage.evaluations.tables import evaluations as table
from palaver.storage.notices import Change, touch


def settle(db: Connection, project: str, evaluation: str, at: datetime) -> None:
    """End it, if it has not ended and no slice is left."""
    left = select(slices.c.place).where(slices.c.project == project, slices.c.evaluation == evaluation, IS_LEFT)
    if db.execute(left.limit(1)).first() is not None:
        return
    columns = table.c
    figures = (columns.total, columns.done, columns.failed, columns.errors, columns.reason, columns.cancel_asked_at)
    asked = select(*figures).where(columns.project == project, columns.id == evaluation, columns.ended_at.is_(None))
    found = db.execute(asked).one_or_none()
    if found is None:
        return
    values: dict[str, Any] = {"ended_at": at}
    if found.cancel_asked_at is not None:
        values["state"] = "cancelled" if found.reason is None else "failed"
    elif found.total and not found.done:
        values["state"] = "failed"
        values["reason"] = {"code": "no_cell_done", "message": "No cell has an answer: look at the errors of some."}
    elif found.failed or found.errors or found.done < found.total:
        values["state"] = "partly"
    else:
        values["state"] = "succeeded"
    change(db, project, evaluation, at, **values)


def stop(db: Connection, project: str, evaluation: str, reason: dict[str, Any] | None, at: datetime) -> None:
    """Let it end early: no slice that waits is begun, and whoever runs some is told. The first reason counts."""
    columns = table.c
    first = (columns.project == project, columns.id == evaluation, columns.cancel_asked_at.is_(None))
    asked = update(table).where(*first).values(cancel_asked_at=at, reason=reason, version=columns.version + 1)
    db.execute(asked)
    waiting = (slices.c.project == project, slices.c.evaluation == evaluation, slices.c.state == "waiting")
    db.execute(update(slices).where(*waiting).values(state="done", process=None))
    notices.tell(db, "cancel", [evaluation])
    touch(db, Change(project, "evaluation", evaluation))


def counted(db: Connection, project: str, evaluation: str) -> dict[str, Any]:
    """What its row says of its results, counted anew."""
    mine = (results.c.project == project, results.c.evaluation == evaluation)
    failed = func.count().filter(results.c.status == "failed")
    of_cells = db.execute(select(func.count(), failed, func.sum(results.c.cost)).where(*mine)).one()
    theirs = (scores.c.project == project, scores.c.evaluation == evaluation)
    erred = func.count().filter(scores.c.status == "error")
    of_scores = db.execute(select(erred, func.sum(scores.c.cost)).where(*theirs)).one()
    return {
        "done": of_cells[0] - of_cells[1],
        "failed": of_cells[1],
        "cost": of_cells[2],
        "errors": of_scores[0],
        "score_cost": of_scores[1],
    }


def change(db: Connection, project: str, evaluation: str, at: datetime, **values: Any) -> None:
    """Change its row: pages and streams that look at it are told."""
    mine = update(table).where(table.c.project == project, table.c.id == evaluation)
    db.execute(mine.values(**values, version=table.c.version + 1, updated_at=at))
    touch(db, Change(project, "evaluation", evaluation))
