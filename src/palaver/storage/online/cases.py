"""The cases of online rules: traces and sessions that were chosen, wait until they are quiet, and are scored once.

Who looks for new ones, or takes some, holds the rule's row: so each is found once and taken by one process.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, tuple_, update

from palaver.errors import NotFound
from palaver.storage.notices import Change, touch
from palaver.storage.online import rules as online_rules
from palaver.storage.online.tables import IS_LEFT, online_scores
from palaver.storage.online.tables import online_cases as table
from palaver.storage.online.tables import online_rules as rules
from palaver.storage.spans import arrivals as span_arrivals
from palaver.storage.spans import pages as span_pages
from palaver.storage.spans.arrivals import Arrived
from palaver.storage.spans.pages import Query
from palaver.storage.spans.tables import IS_HEAD, spans
from palaver.storage.tables import processes

QUIET = timedelta(seconds=10)
"""For so long nothing of a trace must have come."""
IDLE = timedelta(minutes=10)
"""And nothing of a session."""
MINUTES = 60
"""Of what waits, so many minutes' worth at most: where there is more than a rule may score, the oldest are dropped."""
AT_ONCE = 100
"""Traces that are looked at together."""
DROPPED = -1
"""The attempts of what was."""
LOST = 3
"""So many processes may die over one case: then nobody tries it any more."""


Key = tuple[str, str, str]
"""Project, rule and subject."""


class Case(NamedTuple):
    """One, by its names."""

    project: str
    rule: str
    subject: str
    trace: str


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A case that a process has."""

    project: str
    rule: str
    subject: str
    """The trace, or the session."""
    trace: str
    place: int
    attempts: int
    start_at: datetime
    """Not before then, so that there are not too many in a minute."""


class NewScore(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator makes of a case."""

    evaluator: int
    name: str
    status: str
    passed: bool | None
    score: float | None
    label: str | None
    reason: str
    details: Any
    seconds: float
    usage: Any
    cost: float | None


# Looking for new ones


def scan(
    db: Connection,
    project: str,
    rule: str,
    query: Query,
    now: datetime,
    *,
    is_meant: Callable[[Arrived], bool],
    settled: int | None = None,
    quiet: timedelta = QUIET,
    idle: timedelta = IDLE,
) -> bool:
    """Note the traces that came since it last looked; was that all it looks at at once?

    `settled`: whatever has a place up to that one is there for all to see; None: all is. On PostgreSQL somebody of
    another project may be quicker with what came later.
    """
    held = select(rules.c.place, rules.c.session).where(
        rules.c.project == project, rules.c.id == rule, rules.c.enabled.is_(True)
    )
    found = db.execute(held.with_for_update(skip_locked=True)).one_or_none()
    if found is None:
        return False
    last = span_arrivals.last(db) if settled is None else settled
    first = found.place if settled is not None else min(found.place, last)  # SQLite gives places of what went anew.
    arrived = span_arrivals.arrived(db, project, first, query, heads=True, limit=AT_ONCE)
    for one in arrived:
        if is_meant(one):
            waits = quiet if one.row.parent_id is None and not found.session else idle
            _note(db, project, rule, one, is_session=found.session, due=now + waits)
    is_full = len(arrived) == AT_ONCE
    seen = arrived[-1].place if arrived else first
    place = seen if is_full else max(seen, last)
    if place != found.place:
        db.execute(update(rules).where(rules.c.project == project, rules.c.id == rule).values(place=place))
    return is_full


def _note(db: Connection, project: str, rule: str, one: Arrived, *, is_session: bool, due: datetime) -> None:
    subject = one.row.session if is_session else one.row.trace_id
    if subject is None:
        return
    here = _here(project, rule, subject)
    state = db.scalar(select(table.c.state).where(*here))
    newest = _newest(db, project, subject, is_session=is_session)  # What came with it does not make it wait again.
    values: dict[str, Any] = {"trace": one.row.trace_id, "place": newest or one.place, "due": due, "attempts": 0}
    if state is None:
        named = {"project": project, "rule": rule, "subject": subject}
        db.execute(insert(table).values(**named, **values, state="waiting"))
    elif state == "running":
        if is_session:  # Whoever has it finds that there is more.
            db.execute(update(table).where(*here).values(trace=one.row.trace_id, place=values["place"]))
    elif state == "waiting" or is_session:
        db.execute(update(table).where(*here).values(**values, state="waiting"))


# Taking


def is_any_due(db: Connection, now: datetime) -> bool:
    """Does anything wait to be scored now?"""
    asked = select(table.c.rule).where(IS_LEFT, table.c.state == "waiting", table.c.due <= now)
    return db.execute(asked.limit(1)).first() is not None


def take(
    db: Connection,
    process: str,
    now: datetime,
    room: int,
    *,
    ahead: timedelta,
    quiet: timedelta = QUIET,
    idle: timedelta = IDLE,
) -> list[Taken]:
    """Cases that nothing came of for long enough, as many as may begin until `ahead` of now, and there is room for."""
    taken: list[Taken] = []
    due = select(table.c.project, table.c.rule).where(IS_LEFT, table.c.state == "waiting", table.c.due <= now)
    for project, rule in db.execute(due.distinct().order_by(table.c.project, table.c.rule)).all():
        if len(taken) < room:
            taken += _take(db, process, project, rule, now, room - len(taken), ahead, quiet, idle)
    return taken


def _take(
    db: Connection,
    process: str,
    project: str,
    rule: str,
    now: datetime,
    room: int,
    ahead: timedelta,
    quiet: timedelta,
    idle: timedelta,
) -> list[Taken]:
    mine = (rules.c.project == project, rules.c.id == rule)
    held = select(rules.c.per_minute, rules.c.session, rules.c.paced_until).where(*mine, rules.c.enabled.is_(True))
    found = db.execute(held.with_for_update(skip_locked=True)).one_or_none()
    if found is None:
        return []
    between = timedelta(minutes=1) / found.per_minute
    first = now if found.paced_until is None else max(now, found.paced_until)
    most = min(room, (now + ahead - first) // between + 1)
    if most <= 0:
        return []
    columns = (table.c.subject, table.c.trace, table.c.place, table.c.attempts)
    due = (IS_LEFT, table.c.state == "waiting", table.c.project == project, table.c.rule == rule, table.c.due <= now)
    _drop(db, project, rule, due, MINUTES * found.per_minute)
    waiting = select(*columns).where(*due)
    taken: list[Taken] = []
    for row in db.execute(waiting.order_by(table.c.due, table.c.subject).limit(most)).all():
        here = _here(project, rule, row.subject)
        newest = _newest(db, project, row.subject, is_session=found.session)
        if newest is None:  # It is gone.
            db.execute(update(table).where(*here).values(state="done"))
        elif newest > row.place:
            waits = quiet if not found.session and _has_root(db, project, row.trace) else idle
            db.execute(update(table).where(*here).values(place=newest, due=now + waits))
        else:
            db.execute(update(table).where(*here).values(state="running", process=process))
            taken.append(_taken(row, project, rule, first + between * len(taken)))
    if taken:
        db.execute(update(rules).where(*mine).values(paced_until=first + between * len(taken)))
    return taken


def _drop(db: Connection, project: str, rule: str, due: tuple[Any, ...], most: int) -> None:
    """Drop the oldest of more than so many."""
    more = db.execute(select(func.count()).select_from(table).where(*due)).scalar_one() - most
    if more > 0:
        oldest = select(table.c.subject).where(*due).order_by(table.c.due, table.c.subject).limit(min(more, 1_000))
        mine = (table.c.project == project, table.c.rule == rule, table.c.subject.in_(db.scalars(oldest).all()))
        db.execute(update(table).where(*mine).values(state="done", attempts=DROPPED))


def _has_root(db: Connection, project: str, trace: str) -> bool:
    head = span_pages.head_of(db, project, trace)
    return head is not None and head.parent_id is None


def _newest(db: Connection, project: str, subject: str, *, is_session: bool) -> int | None:
    """The place of what came last of it."""
    column = spans.c.session if is_session else spans.c.trace_id
    return db.scalar(select(func.max(spans.c.id)).where(spans.c.project == project, column == subject))


# Ending


def end(
    db: Connection, process: str, taken: Taken, scores: Collection[NewScore], at: datetime, *, session: str | None
) -> bool:
    """Keep its scores; False if it is no longer this process's. What came meanwhile of a session is another case."""
    if not _is_held(db, process, taken):
        return False
    here = _here(taken.project, taken.rule, taken.subject)
    theirs = (online_scores.c.project == taken.project, online_scores.c.trace == taken.trace)
    db.execute(delete(online_scores).where(*theirs, online_scores.c.rule == taken.rule))
    common = {"project": taken.project, "trace": taken.trace, "rule": taken.rule, "session": session, "created_at": at}
    rows = [{**common, **msgspec.structs.asdict(score)} for score in scores]
    if rows:
        db.execute(insert(online_scores), rows)
    place = db.scalar(select(table.c.place).where(*here))
    values: dict[str, Any] = {"state": "done", "process": None, "attempts": 0}
    if session is not None and place != taken.place:
        values |= {"state": "waiting", "due": at + IDLE}
    db.execute(update(table).where(*here).values(values))
    touch(db, Change(taken.project, "rule", taken.rule))
    return True


def fail(db: Connection, process: str, taken: Taken, at: datetime) -> None:
    """Something broke: it is tried again in a while, and not for ever."""
    tried = taken.attempts + 1
    state = "done" if tried >= LOST else "waiting"
    mine = (*_here(taken.project, taken.rule, taken.subject), table.c.state == "running", table.c.process == process)
    due = at + timedelta(minutes=1)
    db.execute(update(table).where(*mine).values(state=state, process=None, attempts=tried, due=due))


def leave(db: Connection, process: str) -> int:
    """Let others have what a process has not ended."""
    mine = (IS_LEFT, table.c.state == "running", table.c.process == process)
    return db.execute(update(table).where(*mine).values(state="waiting", process=None)).rowcount


def is_any_lost(db: Connection, process: str) -> bool:
    """Does a process have any that nobody knows, and that is not this one?"""
    return db.execute(select(table.c.rule).where(*_lost(process)).limit(1)).first() is not None


def give_back(db: Connection, process: str) -> int:
    """Let others have what processes that died have not ended; what many died over is left alone."""
    tried = table.c.attempts + 1
    lost = update(table).where(*_lost(process))
    given_up = db.execute(lost.where(tried >= LOST).values(state="done", process=None, attempts=tried)).rowcount
    return given_up + db.execute(lost.values(state="waiting", process=None, attempts=tried)).rowcount


def _lost(process: str) -> tuple[ColumnElement[bool], ...]:
    unknown = table.c.process.not_in(select(processes.c.id))
    return IS_LEFT, table.c.state == "running", unknown, table.c.process != process  # type: ignore[return-value]


def _is_held(db: Connection, process: str, taken: Taken) -> bool:
    try:
        online_rules.hold(db, taken.project, taken.rule)
    except NotFound:
        return False
    mine = (*_here(taken.project, taken.rule, taken.subject), table.c.state == "running", table.c.process == process)
    return db.execute(select(table.c.rule).where(*mine)).first() is not None


# Letting go


def gone(db: Connection, after: Key | None, limit: int = 1_000) -> tuple[list[Case], Key | None]:
    """Among the next so many cases, those whose trace is gone; and where to go on, None at the end."""
    key = (table.c.project, table.c.rule, table.c.subject)
    asked = select(*key, table.c.trace).order_by(*key).limit(limit)
    rows = [Case(*row) for row in db.execute(asked if after is None else asked.where(tuple_(*key) > after))]
    there = set[tuple[str, str]]()
    for project in {row.project for row in rows}:
        named = {row.trace for row in rows if row.project == project}
        heads = select(spans.c.trace_id).where(spans.c.project == project, spans.c.head == IS_HEAD)
        there |= {(project, trace) for trace in db.scalars(heads.where(spans.c.trace_id.in_(named)))}
    lost = [row for row in rows if (row.project, row.trace) not in there]
    return lost, rows[-1][:3] if len(rows) == limit else None


def let_go(db: Connection, some: Collection[Case]) -> None:
    """Let go of cases, and of their scores."""
    for one in some:
        here = _here(one.project, one.rule, one.subject)
        db.execute(delete(table).where(*here, table.c.trace == one.trace))
        theirs = (online_scores.c.project == one.project, online_scores.c.trace == one.trace)
        db.execute(delete(online_scores).where(*theirs, online_scores.c.rule == one.rule))


def _here(project: str, rule: str, subject: str) -> tuple[ColumnElement[bool], ...]:
    return table.c.project == project, table.c.rule == rule, table.c.subject == subject


def _taken(row: Any, project: str, rule: str, start_at: datetime) -> Taken:
    return Taken(
        project=project,
        rule=rule,
        subject=row.subject,
        trace=row.trace,
        place=row.place,
        attempts=row.attempts,
        start_at=start_at,
    )
