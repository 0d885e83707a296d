"""Slices of evaluations: batches of cells that processes claim, finish, and return when they stop or die.

A cell is one repeat of a variant on a row. Claims are serialized, on PostgreSQL by an advisory lock and on SQLite by
its single writer, so that no two processes count the running cells of a workflow at the same time.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, func, or_, select, tuple_, update

from palaver.storage import notifications
from palaver.storage.evaluations import repository
from palaver.storage.evaluations.repository import Evaluation, NewEvaluation
from palaver.storage.evaluations.tables import IS_UNFINISHED, evaluations
from palaver.storage.evaluations.tables import evaluation_slices as table
from palaver.storage.tables import processes

SLICES_PER_WORKFLOW = 4
"""The concurrency of a workflow is divided among this many slices, so that several processes get a share."""
NO_CALL_WORKFLOW = ""
"""The workflow of slices that call no workflow."""
_CLAIM_LOCK_ID = 6_157_842_604
"""PostgreSQL advisory lock held while slices are claimed."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    evaluation: str
    place: int
    workflow: str
    first: int
    count: int
    width: int
    """How many of the slice's cells may run concurrently."""
    attempts: int = 0
    """How many processes in a row died without recording another cell of the slice."""

    @property
    def evaluation_key(self) -> tuple[str, str]:
        return self.project, self.evaluation


class _WaitingGroup(msgspec.Struct, kw_only=True):
    """The waiting slices of an evaluation and workflow."""

    project: str
    evaluation: str
    workflow: str
    concurrency: int
    next_place: int

    @property
    def workflow_key(self) -> tuple[str, str]:
        return self.project, self.workflow


# Claims


def claim_slices(
    db: Connection, process: str, workflows: Collection[str], free: int, at: datetime, *, limit: int = 1_000
) -> list[Slice]:
    """Claim slices for a process with capacity for `free` cells, within the concurrency limits of their workflows.

    The evaluation with the least progress comes first, so that a short one does not wait for a long one.
    """
    if not has_waiting_slices(db):
        return []
    if db.dialect.name == "postgresql":
        db.execute(select(func.pg_advisory_xact_lock(_CLAIM_LOCK_ID)))
    groups = _waiting_groups(db, [*workflows, NO_CALL_WORKFLOW])
    running = _running_cells(db)
    claimed: list[Slice] = []
    while free > 0 and len(claimed) < limit:
        eligible = [group for group in groups if running.get(group.workflow_key, 0) < group.concurrency]
        if not eligible:
            break
        group = min(eligible, key=lambda group: (group.next_place, group.evaluation))
        room = group.concurrency - running.get(group.workflow_key, 0)
        width = min(-(-group.concurrency // SLICES_PER_WORKFLOW), room, free)
        slice_ = _claim_slice(db, group, process, width)
        if slice_ is None:
            groups.remove(group)
            continue
        free -= width
        running[group.workflow_key] = running.get(group.workflow_key, 0) + width
        group.next_place = slice_.place + 1
        claimed.append(slice_)
    _mark_running(db, {slice_.evaluation_key for slice_ in claimed}, at)
    return claimed


def has_waiting_slices(db: Connection) -> bool:
    query = select(table.c.place).where(IS_UNFINISHED, table.c.state == "waiting")
    return db.execute(query.limit(1)).first() is not None


def _waiting_groups(db: Connection, workflows: Sequence[str]) -> list[_WaitingGroup]:
    by = (table.c.project, table.c.evaluation, table.c.workflow)
    query = (
        select(*by, func.max(table.c.concurrency), func.min(table.c.place))
        .where(IS_UNFINISHED, table.c.state == "waiting", table.c.workflow.in_(workflows))
        .group_by(*by)
    )
    groups = [
        _WaitingGroup(
            project=project, evaluation=evaluation, workflow=workflow, concurrency=concurrency, next_place=place
        )
        for project, evaluation, workflow, concurrency, place in db.execute(query)
    ]
    active = _lock_active(db, {(group.project, group.evaluation) for group in groups})
    return [group for group in groups if (group.project, group.evaluation) in active]


def _lock_active(db: Connection, keys: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Lock these evaluations and return the ones that are not stopped."""
    if not keys:
        return set()
    key = tuple_(evaluations.c.project, evaluations.c.id)
    query = select(evaluations.c.project, evaluations.c.id, evaluations.c.cancel_asked_at).where(key.in_(sorted(keys)))
    rows = db.execute(query.order_by(evaluations.c.project, evaluations.c.id).with_for_update()).all()
    return {(project, evaluation) for project, evaluation, cancel_asked_at in rows if cancel_asked_at is None}


def _running_cells(db: Connection) -> dict[tuple[str, str], int]:
    """Return the number of running cells by project and workflow."""
    by = (table.c.project, table.c.workflow)
    query = select(*by, func.sum(table.c.width)).where(IS_UNFINISHED, table.c.state == "running").group_by(*by)
    return {(project, workflow): width for project, workflow, width in db.execute(query)}


def _claim_slice(db: Connection, group: _WaitingGroup, process: str, width: int) -> Slice | None:
    query = select(*(table.c[name] for name in Slice.__struct_fields__)).where(
        IS_UNFINISHED,
        table.c.state == "waiting",
        table.c.project == group.project,
        table.c.evaluation == group.evaluation,
        table.c.workflow == group.workflow,
        table.c.place >= group.next_place,
    )
    query = query.order_by(table.c.place).limit(1).with_for_update(skip_locked=True)
    row = db.execute(query).mappings().one_or_none()
    if row is None:
        return None
    fields: dict[str, Any] = {**row, "width": width}
    claimed = Slice(**fields)
    _update_slice(db, claimed, state="running", process=process, width=width)
    return claimed


def _mark_running(db: Connection, keys: Iterable[tuple[str, str]], at: datetime) -> None:
    for project, evaluation in sorted(keys):
        conditions = (evaluations.c.project == project, evaluations.c.id == evaluation, evaluations.c.state == "queued")
        queued = db.execute(select(evaluations.c.started_at).where(*conditions)).one_or_none()
        if queued is not None:
            repository.update_evaluation(db, project, evaluation, at, state="running", started_at=queued[0] or at)


# Release


def end_slice(db: Connection, process: str, slice_: Slice, at: datetime) -> bool:
    """End a slice whose cells are all recorded; False if the process no longer holds it."""
    return _release(db, process, slice_, "done", at)


def release_slice(db: Connection, process: str, slice_: Slice, at: datetime) -> bool:
    """Return a slice to the queue; False if the process no longer holds it."""
    return _release(db, process, slice_, "waiting", at)


def _release(db: Connection, process: str, slice_: Slice, state: str, at: datetime) -> bool:
    stopped = _is_stopped(db, slice_.project, slice_.evaluation)
    if stopped is None or not holds_slice(db, process, slice_):
        return False
    _update_slice(db, slice_, state="done" if stopped else state, process=None, width=0)
    if state == "waiting" and not stopped:
        notifications.notify(db, "waiting", [slice_.workflow or repository.NO_WORKFLOW_NAME])
    repository.finish_if_done(db, slice_.project, slice_.evaluation, at)
    return True


def holds_slice(db: Connection, process: str, slice_: Slice) -> bool:
    """Whether the process still holds a slice of a locked evaluation: others may have considered it dead."""
    conditions = (*_slice_conditions(slice_), table.c.state == "running", table.c.process == process)
    return db.execute(select(table.c.place).where(*conditions)).first() is not None


def reset_attempts(db: Connection, slice_: Slice) -> None:
    if slice_.attempts:
        _update_slice(db, slice_, attempts=0)


def _update_slice(db: Connection, slice_: Slice, **values: Any) -> None:
    db.execute(update(table).where(*_slice_conditions(slice_)).values(**values))


def _slice_conditions(slice_: Slice) -> tuple[Any, Any, Any]:
    return table.c.project == slice_.project, table.c.evaluation == slice_.evaluation, table.c.place == slice_.place


def _is_stopped(db: Connection, project: str, evaluation: str) -> bool | None:
    """Lock an evaluation and return whether it is stopped; None if it is deleted."""
    conditions = (evaluations.c.project == project, evaluations.c.id == evaluation)
    row = db.execute(select(evaluations.c.cancel_asked_at).where(*conditions).with_for_update()).one_or_none()
    return None if row is None else row[0] is not None


# Stopped evaluations and dead processes


def find_stopped(db: Connection, keys: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the evaluations among `keys` that are stopped or deleted."""
    key = tuple_(evaluations.c.project, evaluations.c.id)
    active = select(evaluations.c.project, evaluations.c.id).where(
        key.in_(sorted(keys)), evaluations.c.cancel_asked_at.is_(None)
    )
    return set(keys) - {(project, evaluation) for project, evaluation in db.execute(active)}


def has_lost_slices(db: Connection) -> bool:
    """Whether an unregistered process holds a slice."""
    unknown = table.c.process.not_in(select(processes.c.id))
    query = select(table.c.place).where(IS_UNFINISHED, table.c.state == "running", unknown)
    return db.execute(query.limit(1)).first() is not None


def requeue_lost_slices(db: Connection, dead: Collection[str], at: datetime) -> int:
    """Requeue the slices of dead or unregistered processes; returns their number."""
    unknown = table.c.process.not_in(select(processes.c.id))
    holder = or_(table.c.process.in_(list(dead)), unknown) if dead else unknown
    columns = (table.c.project, table.c.evaluation, table.c.place, table.c.workflow, table.c.process)
    query = select(*columns).where(IS_UNFINISHED, table.c.state == "running", holder)
    lost = db.execute(query.order_by(table.c.project, table.c.evaluation, table.c.place)).all()
    for project, evaluation, place, workflow, process in lost:
        lost_slice = Slice(
            project=project, evaluation=evaluation, place=place, workflow=workflow, first=0, count=0, width=0
        )
        if _release(db, process, lost_slice, "waiting", at):
            _update_slice(db, lost_slice, attempts=table.c.attempts + 1)
    return len(lost)


# Rate limit


def reserve_calls(
    db: Connection, project: str, evaluation: str, interval: float, count: int, at: datetime
) -> datetime | None:
    """Reserve the next `count` calls of a rate-limited evaluation; returns when the first is due.

    The others follow at the interval. None if the evaluation is deleted.
    """
    conditions = (evaluations.c.project == project, evaluations.c.id == evaluation)
    row = db.execute(select(evaluations.c.paced_until).where(*conditions).with_for_update()).one_or_none()
    if row is None:
        return None
    first = at if row[0] is None else max(at, row[0])
    db.execute(update(evaluations).where(*conditions).values(paced_until=first + timedelta(seconds=interval * count)))
    return first


def create_claimed_evaluation(
    db: Connection, project: str, new: NewEvaluation, process: str, at: datetime
) -> tuple[Evaluation, list[Slice]]:
    """Create an evaluation whose slices all belong to one process, so that no other process runs its cells.

    If the process dies, its slices are requeued like others.
    """
    repository.create_evaluation(db, project, new, at)
    conditions = (table.c.project == project, table.c.evaluation == new.id)
    db.execute(update(table).where(*conditions, table.c.state == "waiting").values(state="running", process=process))
    columns = (table.c.place, table.c.workflow, table.c.first, table.c.count)
    rows = db.execute(select(*columns).where(*conditions, table.c.state == "running").order_by(table.c.place)).all()
    claimed = [
        Slice(project=project, evaluation=new.id, place=place, workflow=workflow, first=first, count=count, width=1)
        for place, workflow, first, count in rows
    ]
    if claimed:
        repository.update_evaluation(db, project, new.id, at, state="running", started_at=at)
    return repository.get_evaluation(db, project, new.id), claimed
