"""Evaluations as they are kept: made with all their slices, looked at, stopped, run again, deleted.

Who changes one holds its row first, and only then its slices and results: so the figures in the row are those of what
is recorded, and of two processes that end its last slices one sees that nothing is left.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Row, Select, and_, delete, insert, select, update

from palaver.errors import NotFound, StillRunning
from palaver.storage import notices
from palaver.storage.evaluations import ends
from palaver.storage.evaluations.tables import evaluation_results as results
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.evaluations.tables import evaluation_slices as slices
from palaver.storage.evaluations.tables import evaluations as table
from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.threads.nodes import folded, held

State = Literal["queued", "running", "succeeded", "partly", "failed", "cancelled"]
Which = Literal["failed", "errors", "all"]
"""Cells that failed; those, and all that an evaluator failed on; or every cell. What was never run is, always."""
NOBODY = "-"
"""Who is told of slices that no workflow runs."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One, without its plan."""

    id: str
    name: str
    state: State
    testset: str
    revision: int
    total: int
    done: int
    """Cells that have an answer."""
    failed: int
    """Cells that have none, and an error."""
    errors: int
    """Scores that an evaluator could not give."""
    recorded: int
    """The `seq` of the result that was recorded last."""
    cost: float | None
    """Of the calls, in US dollars, as far as it is known."""
    score_cost: float | None
    """Of the evaluators."""
    reason: dict[str, Any] | None
    """Why it ended early: `{"code", "message"}`."""
    key: str | None
    """The id of the key that it was made with."""
    version: int
    """Another one with every change."""
    cancel_asked_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime


class Planned(msgspec.Struct, frozen=True):
    """One, with all that it was made of."""

    evaluation: Evaluation
    plan: Any
    """As JSON: who knows what it means is above."""
    rows: bytes
    """For each row 16 bytes of its id and 16 of its hash."""


class NewSlice(msgspec.Struct, frozen=True):
    """Some cells of one workflow: `count` of its own, from `first` on."""

    workflow: str
    """Empty: nothing is called."""
    first: int
    count: int


class New(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation as it is to be."""

    id: str
    name: str
    testset: str
    revision: int
    total: int
    plan: Any
    rows: bytes
    concurrency: int
    """Cells of one workflow at once, in all processes."""
    slices: Sequence[NewSlice]
    key: str | None = None


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which evaluations are wanted."""

    state: str | None = None
    testset: str | None = None
    search: str | None = None
    """In their names."""


_LIGHT = [table.c[name] for name in Evaluation.__struct_fields__]
ANY = Filters()


# Finding


def get(db: Connection, project: str, evaluation: str) -> Evaluation:
    """One; NotFound for an unknown one, or another project's."""
    row = db.execute(_one(select(*_LIGHT), project, evaluation)).one_or_none()
    if row is None:
        raise _unknown(evaluation)
    return _evaluation(row)


def planned(db: Connection, project: str, evaluation: str) -> Planned:
    """One, with its plan and rows."""
    row = db.execute(_one(select(*_LIGHT, table.c.plan, table.c.rows), project, evaluation)).one_or_none()
    if row is None:
        raise _unknown(evaluation)
    return Planned(_evaluation(row), row.plan, row.rows)


def plan_of(db: Connection, project: str, evaluation: str) -> tuple[Evaluation, Any]:
    """One, with its plan and without its rows."""
    row = db.execute(_one(select(*_LIGHT, table.c.plan), project, evaluation)).one_or_none()
    if row is None:
        raise _unknown(evaluation)
    return _evaluation(row), row.plan


def list_page(db: Connection, project: str, filters: Filters = ANY, window: Window = START) -> Page[Evaluation]:
    """A page of them, the newest first."""
    asked = select(*_LIGHT).where(table.c.project == project)
    if filters.state is not None:
        asked = asked.where(table.c.state == held(filters.state))
    if filters.testset is not None:
        asked = asked.where(table.c.testset == held(filters.testset))
    if needle := folded(filters.search or ""):
        asked = asked.where(table.c.name_folded.contains(needle, autoescape=True))
    kept = msgspec.structs.asdict(filters)
    return page(db, asked, _evaluation, project=project, by=(table.c.id,), window=window, filters=kept)


def plans(db: Connection, project: str, named: Iterable[str]) -> dict[str, Any]:
    """The plans of some, by their ids: what a list shows of them."""
    asked = select(table.c.id, table.c.plan).where(table.c.project == project, table.c.id.in_(list(named)))
    return {row.id: row.plan for row in db.execute(asked)}


# Changing


def create(db: Connection, project: str, new: New, at: datetime) -> Evaluation:
    """A new one, with all its slices: it waits for a process, or has ended if there is nothing to do."""
    row = {
        "project": project,
        "id": new.id,
        "name": held(new.name),
        "name_folded": folded(new.name),
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
    made = [
        {**common, "place": place, "state": "waiting", **msgspec.structs.asdict(one)}
        for place, one in enumerate(new.slices)
    ]
    if made:
        db.execute(insert(slices), made)
    notices.tell(db, "waiting", sorted({one.workflow or NOBODY for one in new.slices}))
    touch(db, Change(project, "evaluation", new.id))
    ends.settle(db, project, new.id, at)
    return get(db, project, new.id)


def cancel(db: Connection, project: str, evaluation: str, at: datetime) -> Evaluation:
    """Let it end: what runs is stopped by whoever runs it. One that has ended stays as it is."""
    found = hold(db, project, evaluation)
    if found.ended_at is None:
        ends.stop(db, project, evaluation, None, at)
        ends.settle(db, project, evaluation, at)
    return get(db, project, evaluation)


def rerun(db: Connection, project: str, evaluation: str, which: Which, at: datetime) -> Evaluation:
    """Run again what failed, or all of it, into the same evaluation; what was never run is run as well."""
    if hold(db, project, evaluation).ended_at is None:
        raise StillRunning(f"The evaluation {evaluation!r} has not ended: cancel it first, or wait.")
    mine = and_(results.c.project == project, results.c.evaluation == evaluation)
    theirs = and_(scores.c.project == project, scores.c.evaluation == evaluation)
    if which != "all":
        bad = select(results.c.cell).where(mine, results.c.status == "failed")
        erred = select(scores.c.cell).where(theirs, scores.c.status == "error")
        gone = bad if which == "failed" else bad.union(erred)
        # The scores last: they say which results go.
        db.execute(delete(results).where(mine, results.c.cell.in_(gone)))
        theirs = and_(theirs, scores.c.cell.not_in(select(results.c.cell).where(mine)))
    else:
        db.execute(delete(results).where(mine))
    db.execute(delete(scores).where(theirs))
    _begin_anew(db, project, evaluation, at)
    return get(db, project, evaluation)


def delete_one(db: Connection, project: str, evaluation: str) -> None:
    """Let go of it and of all that it has; a process that runs it finds that it is gone."""
    hold(db, project, evaluation)
    for one in (scores, results, slices):
        db.execute(delete(one).where(one.c.project == project, one.c.evaluation == evaluation))
    db.execute(delete(table).where(table.c.project == project, table.c.id == evaluation))
    touch(db, Change(project, "evaluation", evaluation))


def hold(db: Connection, project: str, evaluation: str) -> Evaluation:
    """One that nobody else changes until this transaction ends."""
    row = db.execute(_one(select(*_LIGHT), project, evaluation).with_for_update()).one_or_none()
    if row is None:
        raise _unknown(evaluation)
    return _evaluation(row)


def _begin_anew(db: Connection, project: str, evaluation: str, at: datetime) -> None:
    """Count what is left of its results, and let the slices wait that have cells without one."""
    values = {**ends.counted(db, project, evaluation), "state": "queued", "reason": None}
    values |= {"cancel_asked_at": None, "ended_at": None, "paced_until": None}
    ends.change(db, project, evaluation, at, **values)
    again = update(slices).where(slices.c.project == project, slices.c.evaluation == evaluation)
    db.execute(again.values(state="waiting", process=None, width=0, attempts=0))
    asked = select(slices.c.workflow).where(slices.c.project == project, slices.c.evaluation == evaluation).distinct()
    notices.tell(db, "waiting", sorted(name or NOBODY for name in db.scalars(asked)))
    ends.settle(db, project, evaluation, at)


def _one(asked: Select[Any], project: str, evaluation: str) -> Select[Any]:
    return asked.where(table.c.project == project, table.c.id == held(evaluation))


def _evaluation(row: Row[Any]) -> Evaluation:
    return Evaluation(**dict(zip(Evaluation.__struct_fields__, row, strict=False)))


def _unknown(evaluation: str) -> NotFound:
    return NotFound(f"There is no evaluation {evaluation[:80]!r}.")
