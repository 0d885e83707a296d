"""The rules of online evaluation: which live traces are scored, by whom, and how many in a minute."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from palaver.errors import NotFound, TooLarge
from palaver.storage.notices import Change, touch
from palaver.storage.online.tables import online_cases, online_scores
from palaver.storage.online.tables import online_rules as table
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.spans import arrivals as span_arrivals
from palaver.storage.threads.nodes import held

MOST = 100
"""Of one project."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One."""

    id: str
    name: str
    sample: float
    """The share of traces that are scored."""
    per_minute: int
    session: bool
    """Are whole sessions scored, once they are idle?"""
    enabled: bool
    place: int = 0
    """Up to that span it has looked."""
    key: str | None
    created_at: datetime
    updated_at: datetime
    filter: Any
    """As it was given; None: all traces."""
    evaluators: Any
    """As JSON: what they mean is known above."""


class Ruling(msgspec.Struct, frozen=True):
    """A rule, and whose it is."""

    project: str
    rule: Rule


_FIELDS = [table.c[name] for name in Rule.__struct_fields__]


def get(db: Connection, project: str, rule: str) -> Rule:
    """One; NotFound for an unknown one, or another project's."""
    return _found(db, _one(select(*_FIELDS), project, rule), rule)


def hold(db: Connection, project: str, rule: str) -> Rule:
    """One that nobody else changes until this transaction ends."""
    return _found(db, _one(select(*_FIELDS), project, rule).with_for_update(), rule)


def list_page(db: Connection, project: str, window: Window = START) -> Page[Rule]:
    """A page of them, the newest first."""
    asked = select(*_FIELDS).where(table.c.project == project)
    return page(db, asked, _rule, project=project, by=(table.c.id,), window=window)


def enabled(db: Connection) -> list[Ruling]:
    """All that are at work, whoever's they are."""
    asked = select(*_FIELDS, table.c.project.label("of")).where(table.c.enabled.is_(True))
    return [Ruling(row.of, _rule(row)) for row in db.execute(asked.order_by(table.c.project, table.c.id))]


def create(db: Connection, project: str, rule: Rule) -> Rule:
    """Keep a new one: it looks at what comes from now on."""
    if len(db.execute(select(table.c.id).where(table.c.project == project).limit(MOST)).all()) >= MOST:
        raise TooLarge(f"There are {MOST} rules already: delete one first.")
    made = msgspec.structs.replace(rule, name=held(rule.name), place=span_arrivals.last(db))
    db.execute(insert(table).values(project=project, **msgspec.structs.asdict(made)))
    touch(db, Change(project, "rule", made.id))
    return made


def change(db: Connection, project: str, rule: str, at: datetime, **fields: Any) -> Rule:
    """Another name, filter and so on. What comes while it is off it does not look at, nor at what waited then."""
    found = hold(db, project, rule)
    new = msgspec.structs.replace(found, **fields, updated_at=at)
    if new.enabled and not found.enabled:
        new = msgspec.structs.replace(new, place=span_arrivals.last(db))
    values = {**msgspec.structs.asdict(new), "name": held(new.name)}
    db.execute(update(table).where(table.c.project == project, table.c.id == rule).values(values))
    if not new.enabled or new.session != found.session:
        _forget(db, project, rule)
    touch(db, Change(project, "rule", rule))
    return new


def delete_one(db: Connection, project: str, rule: str) -> None:
    """Let go of it, and of its scores."""
    hold(db, project, rule)
    for one in (online_cases, online_scores):
        db.execute(delete(one).where(one.c.project == project, one.c.rule == rule))
    db.execute(delete(table).where(table.c.project == project, table.c.id == rule))
    touch(db, Change(project, "rule", rule))


def _forget(db: Connection, project: str, rule: str) -> None:
    waiting = (online_cases.c.project == project, online_cases.c.rule == rule, online_cases.c.state != "done")
    db.execute(delete(online_cases).where(*waiting))


def _one(asked: Select[Any], project: str, rule: str) -> Select[Any]:
    return asked.where(table.c.project == project, table.c.id == held(rule))


def _found(db: Connection, asked: Select[Any], rule: str) -> Rule:
    row = db.execute(asked).one_or_none()
    if row is None:
        raise NotFound(f"There is no rule {rule[:80]!r}.")
    return _rule(row)


def _rule(row: Row[Any]) -> Rule:
    return Rule(**dict(zip(Rule.__struct_fields__, row, strict=False)))
