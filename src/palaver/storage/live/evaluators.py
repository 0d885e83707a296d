"""Live evaluators: which traces are scored, by which evaluators, and how many per minute."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from palaver.errors import NotFound, TooLarge
from palaver.storage.live.tables import online_cases as cases
from palaver.storage.live.tables import online_rules as rules
from palaver.storage.live.tables import online_scores as scores
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import storable_text
from palaver.storage.spans import queries as span_arrivals

MAX_LIVE_EVALUATORS = 100
"""Per project."""


class LiveEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    sample: float
    """The fraction of traces that are scored."""
    per_minute: int
    session: bool
    """Whether whole sessions are scored, once they are idle."""
    enabled: bool
    place: int = 0
    """The arrival position up to which it has scanned."""
    key: str | None
    created_at: datetime
    updated_at: datetime
    filter: Any
    """None for all traces."""
    evaluators: Any
    """JSON that the evaluation package interprets."""


class EnabledEvaluator(msgspec.Struct, frozen=True):
    """A live evaluator and its project."""

    project: str
    rule: LiveEvaluator


_FIELDS = [rules.c[name] for name in LiveEvaluator.__struct_fields__]


def get_live_evaluator(db: Connection, project: str, rule: str) -> LiveEvaluator:
    """Return a live evaluator. Raises NotFound for an unknown one, or one of another project."""
    return _fetch_evaluator(db, _where_evaluator(select(*_FIELDS), project, rule), rule)


def lock_live_evaluator(db: Connection, project: str, rule: str) -> LiveEvaluator:
    """Return a live evaluator, locked until the transaction ends."""
    return _fetch_evaluator(db, _where_evaluator(select(*_FIELDS), project, rule).with_for_update(), rule)


def list_live_evaluators(db: Connection, project: str, window: Window = FIRST_PAGE) -> Page[LiveEvaluator]:
    """List live evaluators, newest first."""
    asked = select(*_FIELDS).where(rules.c.project == project)
    return fetch_page(db, asked, _row_to_evaluator, project=project, by=(rules.c.id,), window=window)


def list_enabled(db: Connection) -> list[EnabledEvaluator]:
    """List the enabled ones of all projects."""
    asked = select(*_FIELDS, rules.c.project.label("of")).where(rules.c.enabled.is_(True))
    return [
        EnabledEvaluator(row.of, _row_to_evaluator(row))
        for row in db.execute(asked.order_by(rules.c.project, rules.c.id))
    ]


def create_live_evaluator(db: Connection, project: str, rule: LiveEvaluator) -> LiveEvaluator:
    """Insert a live evaluator, which scores traces that arrive from now on."""
    if (
        len(db.execute(select(rules.c.id).where(rules.c.project == project).limit(MAX_LIVE_EVALUATORS)).all())
        >= MAX_LIVE_EVALUATORS
    ):
        raise TooLarge(f"There are {MAX_LIVE_EVALUATORS} rules already: delete one first.")
    made = msgspec.structs.replace(rule, name=storable_text(rule.name), place=span_arrivals.last_position(db))
    db.execute(insert(rules).values(project=project, **msgspec.structs.asdict(made)))
    mark_changed(db, Change(project, "rule", made.id))
    return made


def update_live_evaluator(db: Connection, project: str, rule: str, at: datetime, **fields: Any) -> LiveEvaluator:
    """Change fields. Traces that arrive while it is disabled are skipped, and waiting cases are deleted."""
    found = lock_live_evaluator(db, project, rule)
    new = msgspec.structs.replace(found, **fields, updated_at=at)
    if new.enabled and not found.enabled:
        new = msgspec.structs.replace(new, place=span_arrivals.last_position(db))
    values = {**msgspec.structs.asdict(new), "name": storable_text(new.name)}
    db.execute(update(rules).where(rules.c.project == project, rules.c.id == rule).values(values))
    if not new.enabled or new.session != found.session:
        _delete_waiting_cases(db, project, rule)
    mark_changed(db, Change(project, "rule", rule))
    return new


def delete_live_evaluator(db: Connection, project: str, rule: str) -> None:
    """Delete a live evaluator with its cases and scores."""
    lock_live_evaluator(db, project, rule)
    for one in (cases, scores):
        db.execute(delete(one).where(one.c.project == project, one.c.rule == rule))
    db.execute(delete(rules).where(rules.c.project == project, rules.c.id == rule))
    mark_changed(db, Change(project, "rule", rule))


def _delete_waiting_cases(db: Connection, project: str, rule: str) -> None:
    waiting = (cases.c.project == project, cases.c.rule == rule, cases.c.state != "done")
    db.execute(delete(cases).where(*waiting))


def _where_evaluator(asked: Select[Any], project: str, rule: str) -> Select[Any]:
    return asked.where(rules.c.project == project, rules.c.id == storable_text(rule))


def _fetch_evaluator(db: Connection, asked: Select[Any], rule: str) -> LiveEvaluator:
    row = db.execute(asked).one_or_none()
    if row is None:
        raise NotFound(f"There is no rule {rule[:80]!r}.")
    return _row_to_evaluator(row)


def _row_to_evaluator(row: Row[Any]) -> LiveEvaluator:
    return LiveEvaluator(**dict(zip(LiveEvaluator.__struct_fields__, row, strict=False)))
