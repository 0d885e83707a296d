"""Live evaluators, which score traces as they arrive; the cases that they score, and the scores."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    case,
    delete,
    func,
    insert,
    select,
    tuple_,
    type_coerce,
    update,
)

from palaver.errors import NotFound, TooLarge
from palaver.storage.evaluations.tables import IS_UNFINISHED
from palaver.storage.evaluations.tables import online_cases as cases
from palaver.storage.evaluations.tables import online_rules as rules
from palaver.storage.evaluations.tables import online_scores as scores
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import storable_text
from palaver.storage.spans import queries as span_arrivals
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.queries import SpanArrival, SpanQuery
from palaver.storage.spans.tables import IS_HEAD, spans
from palaver.storage.tables import processes

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


_EVALUATOR_FIELDS = [rules.c[name] for name in LiveEvaluator.__struct_fields__]


def get_live_evaluator(db: Connection, project: str, rule: str) -> LiveEvaluator:
    """Return a live evaluator. Raises NotFound for an unknown one, or one of another project."""
    return _fetch_evaluator(db, _where_evaluator(select(*_EVALUATOR_FIELDS), project, rule), rule)


def lock_live_evaluator(db: Connection, project: str, rule: str) -> LiveEvaluator:
    """Return a live evaluator, locked until the transaction ends."""
    return _fetch_evaluator(db, _where_evaluator(select(*_EVALUATOR_FIELDS), project, rule).with_for_update(), rule)


def list_live_evaluators(db: Connection, project: str, window: Window = FIRST_PAGE) -> Page[LiveEvaluator]:
    """List live evaluators, newest first."""
    asked = select(*_EVALUATOR_FIELDS).where(rules.c.project == project)
    return fetch_page(db, asked, _row_to_evaluator, project=project, by=(rules.c.id,), window=window)


def list_enabled(db: Connection) -> list[EnabledEvaluator]:
    """List the enabled ones of all projects."""
    asked = select(*_EVALUATOR_FIELDS, rules.c.project.label("of")).where(rules.c.enabled.is_(True))
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


TRACE_QUIET_TIME = timedelta(seconds=10)
"""How long no span of a trace must have arrived before it is scored."""
SESSION_IDLE_TIME = timedelta(minutes=10)
"""The same for a session, or a trace without a root."""
MAX_BACKLOG_MINUTES = 60
"""The backlog is limited to this many minutes of scoring; older cases are dropped."""
SCAN_BATCH = 100
"""Traces per scan."""
DROPPED_ATTEMPTS = -1
"""The value of `attempts` for a dropped case."""
MAX_ATTEMPTS = 3
"""A case with which this many processes died is given up."""


CaseKey = tuple[str, str, str]
"""Project, rule and subject."""


class CaseRef(NamedTuple):
    project: str
    rule: str
    subject: str
    trace: str


class ClaimedCase(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    rule: str
    subject: str
    """The trace or session."""
    trace: str
    place: int
    attempts: int
    start_at: datetime
    """When to start, to stay within the rate limit."""


class NewLiveScore(msgspec.Struct, frozen=True, kw_only=True):
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


# Scans


def scan_arrivals(
    db: Connection,
    project: str,
    rule: str,
    query: SpanQuery,
    now: datetime,
    *,
    is_meant: Callable[[SpanArrival], bool],
    settled: int | None = None,
    quiet: timedelta = TRACE_QUIET_TIME,
    idle: timedelta = SESSION_IDLE_TIME,
) -> bool:
    """Create cases for traces that arrived since the last scan; returns whether the batch was full.

    `settled` is the arrival position up to which all transactions are visible; None for all. On PostgreSQL an insert of
    another project may commit before an earlier one.
    """
    held = select(rules.c.place, rules.c.session).where(
        rules.c.project == project, rules.c.id == rule, rules.c.enabled.is_(True)
    )
    found = db.execute(held.with_for_update(skip_locked=True)).one_or_none()
    if found is None:
        return False
    last = span_arrivals.last_position(db) if settled is None else settled
    first = found.place if settled is not None else min(found.place, last)  # SQLite reuses positions of deleted spans.
    arrived = span_arrivals.list_arrivals(db, project, first, query, heads=True, limit=SCAN_BATCH)
    for one in arrived:
        if is_meant(one):
            waits = quiet if one.row.parent_id is None and not found.session else idle
            _upsert_case(db, project, rule, one, is_session=found.session, due=now + waits)
    is_full = len(arrived) == SCAN_BATCH
    seen = arrived[-1].position if arrived else first
    place = seen if is_full else max(seen, last)
    if place != found.place:
        db.execute(update(rules).where(rules.c.project == project, rules.c.id == rule).values(place=place))
    return is_full


def _upsert_case(db: Connection, project: str, rule: str, one: SpanArrival, *, is_session: bool, due: datetime) -> None:
    subject = one.row.session if is_session else one.row.trace_id
    if subject is None:
        return
    here = _is_case(project, rule, subject)
    state = db.scalar(select(cases.c.state).where(*here))
    newest = _last_arrival(
        db, project, subject, is_session=is_session
    )  # Spans that arrived together do not delay it again.
    values: dict[str, Any] = {"trace": one.row.trace_id, "place": newest or one.position, "due": due, "attempts": 0}
    if state is None:
        named = {"project": project, "rule": rule, "subject": subject}
        db.execute(insert(cases).values(**named, **values, state="waiting"))
    elif state == "running":
        if is_session:  # The process that scores it will see the new position.
            db.execute(update(cases).where(*here).values(trace=one.row.trace_id, place=values["place"]))
    elif state == "waiting" or is_session:
        db.execute(update(cases).where(*here).values(**values, state="waiting"))


# Claims


def has_due_cases(db: Connection, now: datetime) -> bool:
    asked = select(cases.c.rule).where(IS_UNFINISHED, cases.c.state == "waiting", cases.c.due <= now)
    return db.execute(asked.limit(1)).first() is not None


def claim_cases(
    db: Connection,
    process: str,
    now: datetime,
    room: int,
    *,
    ahead: timedelta,
    quiet: timedelta = TRACE_QUIET_TIME,
    idle: timedelta = SESSION_IDLE_TIME,
) -> list[ClaimedCase]:
    """Claim quiet cases: as many as there is room for and as the rate limits allow to start within `ahead`."""
    taken: list[ClaimedCase] = []
    due = select(cases.c.project, cases.c.rule).where(IS_UNFINISHED, cases.c.state == "waiting", cases.c.due <= now)
    for project, rule in db.execute(due.distinct().order_by(cases.c.project, cases.c.rule)).all():
        if len(taken) < room:
            taken += _claim_for(db, process, project, rule, now, room - len(taken), ahead, quiet, idle)
    return taken


def _claim_for(
    db: Connection,
    process: str,
    project: str,
    rule: str,
    now: datetime,
    room: int,
    ahead: timedelta,
    quiet: timedelta,
    idle: timedelta,
) -> list[ClaimedCase]:
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
    columns = (cases.c.subject, cases.c.trace, cases.c.place, cases.c.attempts)
    due = (
        IS_UNFINISHED,
        cases.c.state == "waiting",
        cases.c.project == project,
        cases.c.rule == rule,
        cases.c.due <= now,
    )
    _drop_oldest(db, project, rule, due, MAX_BACKLOG_MINUTES * found.per_minute)
    waiting = select(*columns).where(*due)
    taken: list[ClaimedCase] = []
    for row in db.execute(waiting.order_by(cases.c.due, cases.c.subject).limit(most)).all():
        here = _is_case(project, rule, row.subject)
        newest = _last_arrival(db, project, row.subject, is_session=found.session)
        if newest is None:  # The trace was deleted.
            db.execute(update(cases).where(*here).values(state="done"))
        elif newest > row.place:
            waits = quiet if not found.session and _has_root(db, project, row.trace) else idle
            db.execute(update(cases).where(*here).values(place=newest, due=now + waits))
        else:
            db.execute(update(cases).where(*here).values(state="running", process=process))
            taken.append(_claimed_case(row, project, rule, first + between * len(taken)))
    if taken:
        db.execute(update(rules).where(*mine).values(paced_until=first + between * len(taken)))
    return taken


def _drop_oldest(db: Connection, project: str, rule: str, due: tuple[Any, ...], most: int) -> None:
    """Drop the oldest due cases beyond `most`."""
    more = db.execute(select(func.count()).select_from(cases).where(*due)).scalar_one() - most
    if more > 0:
        oldest = select(cases.c.subject).where(*due).order_by(cases.c.due, cases.c.subject).limit(min(more, 1_000))
        mine = (cases.c.project == project, cases.c.rule == rule, cases.c.subject.in_(db.scalars(oldest).all()))
        db.execute(update(cases).where(*mine).values(state="done", attempts=DROPPED_ATTEMPTS))


def _has_root(db: Connection, project: str, trace: str) -> bool:
    head = span_pages.get_head_span(db, project, trace)
    return head is not None and head.parent_id is None


def _last_arrival(db: Connection, project: str, subject: str, *, is_session: bool) -> int | None:
    """Return the arrival position of the last span of a trace or session."""
    column = spans.c.session if is_session else spans.c.trace_id
    return db.scalar(select(func.max(spans.c.id)).where(spans.c.project == project, column == subject))


# Release


def finish_case(
    db: Connection,
    process: str,
    taken: ClaimedCase,
    new: Collection[NewLiveScore],
    at: datetime,
    *,
    session: str | None,
) -> bool:
    """Store the scores; False if the process no longer holds the case. A session with new spans is queued again."""
    if not _holds_case(db, process, taken):
        return False
    here = _is_case(taken.project, taken.rule, taken.subject)
    theirs = (scores.c.project == taken.project, scores.c.trace == taken.trace)
    db.execute(delete(scores).where(*theirs, scores.c.rule == taken.rule))
    common = {"project": taken.project, "trace": taken.trace, "rule": taken.rule, "session": session, "created_at": at}
    rows = [{**common, **msgspec.structs.asdict(score)} for score in new]
    if rows:
        db.execute(insert(scores), rows)
    place = db.scalar(select(cases.c.place).where(*here))
    values: dict[str, Any] = {"state": "done", "process": None, "attempts": 0}
    if session is not None and place != taken.place:
        values |= {"state": "waiting", "due": at + SESSION_IDLE_TIME}
    db.execute(update(cases).where(*here).values(values))
    mark_changed(db, Change(taken.project, "rule", taken.rule))
    return True


def retry_case(db: Connection, process: str, taken: ClaimedCase, at: datetime) -> None:
    """Retry a case later after an unexpected error, up to MAX_ATTEMPTS."""
    tried = taken.attempts + 1
    state = "done" if tried >= MAX_ATTEMPTS else "waiting"
    mine = (*_is_case(taken.project, taken.rule, taken.subject), cases.c.state == "running", cases.c.process == process)
    due = at + timedelta(minutes=1)
    db.execute(update(cases).where(*mine).values(state=state, process=None, attempts=tried, due=due))


def release_cases(db: Connection, process: str) -> int:
    """Release all cases of a process; returns their number."""
    mine = (IS_UNFINISHED, cases.c.state == "running", cases.c.process == process)
    return db.execute(update(cases).where(*mine).values(state="waiting", process=None)).rowcount


def has_lost_cases(db: Connection, process: str) -> bool:
    """Whether an unregistered process, other than this one, holds a case."""
    return db.execute(select(cases.c.rule).where(*_is_lost(process)).limit(1)).first() is not None


def requeue_lost_cases(db: Connection, process: str) -> int:
    """Requeue the cases of dead processes, and give up those with too many attempts; returns their number."""
    tried = cases.c.attempts + 1
    lost = update(cases).where(*_is_lost(process))
    given_up = db.execute(lost.where(tried >= MAX_ATTEMPTS).values(state="done", process=None, attempts=tried)).rowcount
    return given_up + db.execute(lost.values(state="waiting", process=None, attempts=tried)).rowcount


def _is_lost(process: str) -> tuple[ColumnElement[bool], ...]:
    unknown = cases.c.process.not_in(select(processes.c.id))
    return IS_UNFINISHED, cases.c.state == "running", unknown, cases.c.process != process  # type: ignore[return-value]


def _holds_case(db: Connection, process: str, taken: ClaimedCase) -> bool:
    try:
        lock_live_evaluator(db, taken.project, taken.rule)
    except NotFound:
        return False
    mine = (*_is_case(taken.project, taken.rule, taken.subject), cases.c.state == "running", cases.c.process == process)
    return db.execute(select(cases.c.rule).where(*mine)).first() is not None


# Deletion


def find_orphaned_cases(
    db: Connection, after: CaseKey | None, limit: int = 1_000
) -> tuple[list[CaseRef], CaseKey | None]:
    """Return those of the next `limit` cases whose trace is deleted, and where to continue; None at the end."""
    key = (cases.c.project, cases.c.rule, cases.c.subject)
    asked = select(*key, cases.c.trace).order_by(*key).limit(limit)
    rows = [CaseRef(*row) for row in db.execute(asked if after is None else asked.where(tuple_(*key) > after))]
    there = set[tuple[str, str]]()
    for project in {row.project for row in rows}:
        named = {row.trace for row in rows if row.project == project}
        heads = select(spans.c.trace_id).where(spans.c.project == project, spans.c.head == IS_HEAD)
        there |= {(project, trace) for trace in db.scalars(heads.where(spans.c.trace_id.in_(named)))}
    lost = [row for row in rows if (row.project, row.trace) not in there]
    return lost, rows[-1][:3] if len(rows) == limit else None


def delete_cases(db: Connection, some: Collection[CaseRef]) -> None:
    """Delete cases and their scores."""
    for one in some:
        here = _is_case(one.project, one.rule, one.subject)
        db.execute(delete(cases).where(*here, cases.c.trace == one.trace))
        theirs = (scores.c.project == one.project, scores.c.trace == one.trace)
        db.execute(delete(scores).where(*theirs, scores.c.rule == one.rule))


def _is_case(project: str, rule: str, subject: str) -> tuple[ColumnElement[bool], ...]:
    return cases.c.project == project, cases.c.rule == rule, cases.c.subject == subject


def _claimed_case(row: Any, project: str, rule: str, start_at: datetime) -> ClaimedCase:
    return ClaimedCase(
        project=project,
        rule=rule,
        subject=row.subject,
        trace=row.trace,
        place=row.place,
        attempts=row.attempts,
        start_at=start_at,
    )


TimeStep = Literal["minute", "hour", "day"]
_MICROSECONDS: dict[TimeStep, int] = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_PER_TRACE = 500
MAX_ROWS = 10_000


class LiveScore(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    name: str
    session: str | None
    """Set if the score is that of a session."""
    status: Literal["scored", "skipped", "error"]
    passed: bool | None
    score: float | None
    label: str | None
    reason: str
    created_at: datetime


class LiveScoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one evaluator in one time step."""

    at: datetime
    """The start of the step."""
    evaluator: str
    n: int
    """Number of scores."""
    passed: int
    judged: int
    """Number of scores with a pass or fail verdict."""
    mean: float | None
    skipped: int
    errors: int
    cost: float | None


class CaseCounts(msgspec.Struct, frozen=True, kw_only=True):
    waiting: int = 0
    running: int = 0
    done: int = 0
    dropped: int = 0
    """Dropped because the backlog was too long."""


_SCORE_FIELDS = [scores.c[name] for name in LiveScore.__struct_fields__]


def list_trace_scores(db: Connection, project: str, trace: str) -> list[LiveScore]:
    """List the scores of a trace, oldest first."""
    asked = select(*_SCORE_FIELDS).where(scores.c.project == project, scores.c.trace == trace)
    ordered = asked.order_by(scores.c.created_at, scores.c.rule, scores.c.evaluator, scores.c.name).limit(
        _MAX_PER_TRACE
    )
    return [LiveScore(**dict(zip(LiveScore.__struct_fields__, row, strict=True))) for row in db.execute(ordered)]


def score_stats(
    db: Connection, project: str, rule: str, *, by: TimeStep, since: datetime | None, until: datetime | None
) -> list[LiveScoreStats]:
    """Return statistics in order of time, at most the latest MAX_ROWS."""
    step = _MICROSECONDS[by]
    at = (type_coerce(scores.c.created_at, BigInteger) // step).label("step")
    is_scored = scores.c.status == "scored"
    counts = {
        "n": func.count().filter(is_scored),
        "passed": func.count().filter(scores.c.passed.is_(True)),
        "judged": func.count().filter(scores.c.passed.is_not(None)),
        "mean": func.avg(scores.c.score),
        "skipped": func.count().filter(scores.c.status == "skipped"),
        "errors": func.count().filter(scores.c.status == "error"),
        "cost": func.sum(scores.c.cost),
    }
    asked = select(at, scores.c.name, *(count.label(name) for name, count in counts.items()))
    asked = asked.where(scores.c.project == project, scores.c.rule == rule)
    if since is not None:
        asked = asked.where(scores.c.created_at >= since)
    if until is not None:
        asked = asked.where(scores.c.created_at < until)
    latest = asked.group_by(at, scores.c.name).order_by(at.desc(), scores.c.name.desc()).limit(MAX_ROWS)
    rows: Sequence[Any] = db.execute(latest).all()
    return [_row_to_stats(row, step, counts) for row in reversed(rows)]


def _row_to_stats(row: Sequence[Any], step: int, names: Iterable[str]) -> LiveScoreStats:
    at, name, *counts = row
    counted: dict[str, Any] = dict(zip(names, counts, strict=True))
    return LiveScoreStats(at=_EPOCH + timedelta(microseconds=at * step), evaluator=name, **counted)


def count_cases(db: Connection, project: str, rule: str) -> CaseCounts:
    mine = (cases.c.project == project, cases.c.rule == rule)
    state = case((cases.c.attempts == DROPPED_ATTEMPTS, "dropped"), else_=cases.c.state).label("as")
    counted = select(state, func.count()).where(*mine).group_by(state)
    return CaseCounts(**{row[0]: row[1] for row in db.execute(counted)})
