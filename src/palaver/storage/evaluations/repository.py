"""Evaluations: create, look up, cancel, rerun, finish, delete.

A transaction locks the row of an evaluation before its slices and results. So the counts in the row match the recorded
results, and when two processes end the last slices, one of them sees that none is left.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, and_, delete, func, insert, select, update

from palaver.errors import StillRunning
from palaver.storage import notifications
from palaver.storage.evaluations.tables import IS_UNFINISHED
from palaver.storage.evaluations.tables import evaluation_results as results
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.evaluations.tables import evaluation_slices as slices
from palaver.storage.evaluations.tables import evaluations as table
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import folded_text, require_row, row_converter, storable_text


def finish_if_done(db: Connection, project: str, evaluation: str, at: datetime) -> None:
    """End an evaluation that has no slices left. Its row must be locked."""
    unfinished = select(slices.c.place).where(
        slices.c.project == project, slices.c.evaluation == evaluation, IS_UNFINISHED
    )
    if db.execute(unfinished.limit(1)).first() is not None:
        return
    columns = table.c
    selected = (columns.total, columns.done, columns.failed, columns.errors, columns.reason, columns.cancel_asked_at)
    query = select(*selected).where(columns.project == project, columns.id == evaluation, columns.ended_at.is_(None))
    row = db.execute(query).one_or_none()
    if row is None:
        return
    values: dict[str, Any] = {"ended_at": at}
    if row.cancel_asked_at is not None:
        values["state"] = "cancelled" if row.reason is None else "failed"
    elif row.total and not row.done:
        values["state"] = "failed"
        values["reason"] = {"code": "no_cell_done", "message": "All cells failed. See the errors in the results."}
    elif row.failed or row.errors or row.done < row.total:
        values["state"] = "partly"
    else:
        values["state"] = "succeeded"
    update_evaluation(db, project, evaluation, at, **values)


def stop_evaluation(db: Connection, project: str, evaluation: str, reason: dict[str, Any] | None, at: datetime) -> None:
    """Stop an evaluation early: cancel waiting slices and notify processes. The first reason counts."""
    columns = table.c
    not_stopped = (columns.project == project, columns.id == evaluation, columns.cancel_asked_at.is_(None))
    statement = update(table).where(*not_stopped).values(cancel_asked_at=at, reason=reason, version=columns.version + 1)
    db.execute(statement)
    waiting = (slices.c.project == project, slices.c.evaluation == evaluation, slices.c.state == "waiting")
    db.execute(update(slices).where(*waiting).values(state="done", process=None))
    notifications.notify(db, "cancel", [evaluation])
    mark_changed(db, Change(project, "evaluation", evaluation))


def count_results(db: Connection, project: str, evaluation: str) -> dict[str, Any]:
    """Return the counts and costs of an evaluation's row, computed from its results."""
    in_evaluation = (results.c.project == project, results.c.evaluation == evaluation)
    count_failed = func.count().filter(results.c.status == "failed")
    query = select(func.count(), count_failed, func.sum(results.c.cost)).where(*in_evaluation)
    total, failed, cost = db.execute(query).one()
    in_evaluation = (scores.c.project == project, scores.c.evaluation == evaluation)
    count_errors = func.count().filter(scores.c.status == "error")
    errors, score_cost = db.execute(select(count_errors, func.sum(scores.c.cost)).where(*in_evaluation)).one()
    return {"done": total - failed, "failed": failed, "cost": cost, "errors": errors, "score_cost": score_cost}


def update_evaluation(db: Connection, project: str, evaluation: str, at: datetime, **values: Any) -> None:
    statement = update(table).where(table.c.project == project, table.c.id == evaluation)
    db.execute(statement.values(**values, version=table.c.version + 1, updated_at=at))
    mark_changed(db, Change(project, "evaluation", evaluation))


EvaluationState = Literal["queued", "running", "succeeded", "partly", "failed", "cancelled"]
RerunScope = Literal["failed", "errors", "all"]
"""Which cells to repeat: failed ones, also ones with evaluator errors, or all. Cells without a result always run."""
NO_WORKFLOW_NAME = "-"
"""The name in notifications about slices that call no workflow."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation without its plan."""

    id: str
    name: str
    state: EvaluationState
    testset: str
    revision: int
    total: int
    done: int
    """Cells with an answer."""
    failed: int
    """Cells with an error."""
    errors: int
    """Scores that failed with an error."""
    recorded: int
    """The seq of the last recorded result."""
    cost: float | None
    """Cost of the calls in US dollars, as far as known."""
    score_cost: float | None
    """Cost of the evaluators."""
    reason: dict[str, Any] | None
    """Why it ended early: `{"code", "message"}`."""
    key: str | None
    """The id of the API key that created it."""
    version: int
    """Increases with every change."""
    cancel_asked_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime


class PlannedEvaluation(msgspec.Struct, frozen=True):
    evaluation: Evaluation
    plan: Any
    """JSON that the evaluation package interprets."""
    rows: bytes
    """For each row 16 bytes of its id and 16 bytes of its hash."""


class NewSlice(msgspec.Struct, frozen=True):
    """`count` cells of a workflow, starting with its cell `first`."""

    workflow: str
    """Empty if no workflow is called."""
    first: int
    count: int


class NewEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    testset: str
    revision: int
    total: int
    plan: Any
    rows: bytes
    concurrency: int
    """Concurrent cells per workflow, over all processes."""
    slices: Sequence[NewSlice]
    key: str | None = None


class EvaluationFilters(msgspec.Struct, frozen=True, kw_only=True):
    state: str | None = None
    testset: str | None = None
    search: str | None = None
    """Text in the name."""


_EVALUATION_COLUMNS = [table.c[name] for name in Evaluation.__struct_fields__]
_row_to_evaluation = row_converter(Evaluation)
ALL_EVALUATIONS = EvaluationFilters()


# Queries


def get_evaluation(db: Connection, project: str, evaluation: str) -> Evaluation:
    """Return an evaluation. Raises NotFound for an unknown one, or one of another project."""
    row = require_row(db, select(*_EVALUATION_COLUMNS), table, project, evaluation, "Evaluation")
    return _row_to_evaluation(row)


def get_planned(db: Connection, project: str, evaluation: str) -> PlannedEvaluation:
    query = select(*_EVALUATION_COLUMNS, table.c.plan, table.c.rows)
    row = require_row(db, query, table, project, evaluation, "Evaluation")
    return PlannedEvaluation(_row_to_evaluation(row), row.plan, row.rows)


def get_plan(db: Connection, project: str, evaluation: str) -> tuple[Evaluation, Any]:
    row = require_row(db, select(*_EVALUATION_COLUMNS, table.c.plan), table, project, evaluation, "Evaluation")
    return _row_to_evaluation(row), row.plan


def list_evaluations(
    db: Connection, project: str, filters: EvaluationFilters = ALL_EVALUATIONS, window: Window = FIRST_PAGE
) -> Page[Evaluation]:
    """List evaluations, newest first."""
    query = select(*_EVALUATION_COLUMNS).where(table.c.project == project)
    if filters.state is not None:
        query = query.where(table.c.state == storable_text(filters.state))
    if filters.testset is not None:
        query = query.where(table.c.testset == storable_text(filters.testset))
    if needle := folded_text(filters.search or ""):
        query = query.where(table.c.name_folded.contains(needle, autoescape=True))
    scope = msgspec.structs.asdict(filters)
    return fetch_page(db, query, _row_to_evaluation, project=project, by=(table.c.id,), window=window, filters=scope)


def get_plans(db: Connection, project: str, ids: Iterable[str]) -> dict[str, Any]:
    query = select(table.c.id, table.c.plan).where(table.c.project == project, table.c.id.in_(list(ids)))
    return {row.id: row.plan for row in db.execute(query)}


# Changes


def create_evaluation(db: Connection, project: str, new: NewEvaluation, at: datetime) -> Evaluation:
    """Create an evaluation with its slices. It is queued, or ends at once if there is nothing to do."""
    row = {
        "project": project,
        "id": new.id,
        "name": storable_text(new.name),
        "name_folded": folded_text(new.name),
        "state": "queued",
        "testset": new.testset,
        "revision": new.revision,
        "total": new.total,
        "done": 0,
        "failed": 0,
        "errors": 0,
        "recorded": 0,
        "key": new.key,
        "version": 1,
        "created_at": at,
        "updated_at": at,
        "plan": new.plan,
        "rows": new.rows,
    }
    db.execute(insert(table).values(row))
    common = {"project": project, "evaluation": new.id, "concurrency": new.concurrency, "width": 0, "attempts": 0}
    slice_rows = [
        {**common, "place": index, "state": "waiting", **msgspec.structs.asdict(new_slice)}
        for index, new_slice in enumerate(new.slices)
    ]
    if slice_rows:
        db.execute(insert(slices), slice_rows)
    notifications.notify(db, "waiting", sorted({new_slice.workflow or NO_WORKFLOW_NAME for new_slice in new.slices}))
    mark_changed(db, Change(project, "evaluation", new.id))
    finish_if_done(db, project, new.id, at)
    return get_evaluation(db, project, new.id)


def cancel_evaluation(db: Connection, project: str, evaluation: str, at: datetime) -> Evaluation:
    """Stop an evaluation. Processes that run its cells stop them. Has no effect if it has ended."""
    current = lock_evaluation(db, project, evaluation)
    if current.ended_at is None:
        stop_evaluation(db, project, evaluation, None, at)
        finish_if_done(db, project, evaluation, at)
    return get_evaluation(db, project, evaluation)


def rerun_evaluation(db: Connection, project: str, evaluation: str, scope: RerunScope, at: datetime) -> Evaluation:
    """Repeat cells of an ended evaluation. Raises StillRunning if it has not ended."""
    if lock_evaluation(db, project, evaluation).ended_at is None:
        raise StillRunning(f"Evaluation {evaluation!r} is still running. Cancel it, or wait until it has finished.")
    is_result = and_(results.c.project == project, results.c.evaluation == evaluation)
    is_score = and_(scores.c.project == project, scores.c.evaluation == evaluation)
    if scope != "all":
        failed_cells = select(results.c.cell).where(is_result, results.c.status == "failed")
        error_cells = select(scores.c.cell).where(is_score, scores.c.status == "error")
        repeated_cells = failed_cells if scope == "failed" else failed_cells.union(error_cells)
        # The scores last, since they determine which results are deleted.
        db.execute(delete(results).where(is_result, results.c.cell.in_(repeated_cells)))
        is_score = and_(is_score, scores.c.cell.not_in(select(results.c.cell).where(is_result)))
    else:
        db.execute(delete(results).where(is_result))
    db.execute(delete(scores).where(is_score))
    _requeue(db, project, evaluation, at)
    return get_evaluation(db, project, evaluation)


def delete_evaluation(db: Connection, project: str, evaluation: str) -> None:
    """Delete an evaluation with everything it has. Processes that run it notice."""
    lock_evaluation(db, project, evaluation)
    for dependent in (scores, results, slices):
        db.execute(delete(dependent).where(dependent.c.project == project, dependent.c.evaluation == evaluation))
    db.execute(delete(table).where(table.c.project == project, table.c.id == evaluation))
    mark_changed(db, Change(project, "evaluation", evaluation))


def lock_evaluation(db: Connection, project: str, evaluation: str) -> Evaluation:
    """Return an evaluation, locked until the transaction ends."""
    query = select(*_EVALUATION_COLUMNS).with_for_update()
    return _row_to_evaluation(require_row(db, query, table, project, evaluation, "Evaluation"))


def _requeue(db: Connection, project: str, evaluation: str, at: datetime) -> None:
    """Recount the results and requeue all slices."""
    values = {**count_results(db, project, evaluation), "state": "queued", "reason": None}
    values |= {"cancel_asked_at": None, "ended_at": None, "paced_until": None}
    update_evaluation(db, project, evaluation, at, **values)
    statement = update(slices).where(slices.c.project == project, slices.c.evaluation == evaluation)
    db.execute(statement.values(state="waiting", process=None, width=0, attempts=0))
    query = select(slices.c.workflow).where(slices.c.project == project, slices.c.evaluation == evaluation).distinct()
    notifications.notify(db, "waiting", sorted(name or NO_WORKFLOW_NAME for name in db.scalars(query)))
    finish_if_done(db, project, evaluation, at)
