"""Live evaluators, which score traces as they arrive; the cases that they score, and the scores."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
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
from palaver.storage.evaluations.results import CellScore
from palaver.storage.evaluations.tables import IS_UNFINISHED
from palaver.storage.evaluations.tables import online_cases as cases
from palaver.storage.evaluations.tables import online_rules as rules
from palaver.storage.evaluations.tables import online_scores as scores
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import require_row, row_converter, storable_text
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans.queries import SpanArrival, SpanQuery
from palaver.storage.spans.stats import EPOCH, MAX_ROWS, STEP_MICROSECONDS, TimeStep
from palaver.storage.spans.tables import HEAD, spans
from palaver.storage.tables import processes

MAX_LIVE_EVALUATORS = 100
"""Maximum number of live evaluators per project."""


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
    """The arrival position up to which the evaluator has scanned."""
    key: str | None
    created_at: datetime
    updated_at: datetime
    filter: Any
    """None for all traces."""
    evaluators: Any
    """JSON that the evaluation package interprets."""


class EnabledEvaluator(msgspec.Struct, frozen=True):
    project: str
    rule: LiveEvaluator


_EVALUATOR_FIELDS = [rules.c[name] for name in LiveEvaluator.__struct_fields__]
_row_to_evaluator = row_converter(LiveEvaluator)


def get_live_evaluator(db: Connection, project: str, rule: str) -> LiveEvaluator:
    """Return a live evaluator. Raises NotFound for an unknown one, or one of another project."""
    return _row_to_evaluator(require_row(db, select(*_EVALUATOR_FIELDS), rules, project, rule, "Live evaluator"))


def lock_live_evaluator(db: Connection, project: str, rule: str) -> LiveEvaluator:
    """Return a live evaluator, locked until the transaction ends."""
    query = select(*_EVALUATOR_FIELDS).with_for_update()
    return _row_to_evaluator(require_row(db, query, rules, project, rule, "Live evaluator"))


def list_live_evaluators(db: Connection, project: str, window: Window = FIRST_PAGE) -> Page[LiveEvaluator]:
    """List live evaluators, newest first."""
    query = select(*_EVALUATOR_FIELDS).where(rules.c.project == project)
    return fetch_page(db, query, _row_to_evaluator, project=project, by=(rules.c.id,), window=window)


def list_enabled(db: Connection) -> list[EnabledEvaluator]:
    query = select(*_EVALUATOR_FIELDS, rules.c.project).where(rules.c.enabled.is_(True))
    return [
        EnabledEvaluator(row.project, _row_to_evaluator(row))
        for row in db.execute(query.order_by(rules.c.project, rules.c.id))
    ]


def create_live_evaluator(db: Connection, project: str, rule: LiveEvaluator) -> LiveEvaluator:
    """Insert a live evaluator, which scores traces that arrive from now on."""
    if (db.scalar(select(func.count()).where(rules.c.project == project)) or 0) >= MAX_LIVE_EVALUATORS:
        raise TooLarge(f"The limit of {MAX_LIVE_EVALUATORS} live evaluators has been reached. Delete one first.")
    stored = msgspec.structs.replace(rule, name=storable_text(rule.name), place=span_queries.last_position(db))
    db.execute(insert(rules).values(project=project, **msgspec.structs.asdict(stored)))
    mark_changed(db, Change(project, "rule", stored.id))
    return stored


def update_live_evaluator(db: Connection, project: str, rule: str, at: datetime, **fields: Any) -> LiveEvaluator:
    """Change fields. Traces that arrive while it is disabled are skipped, and waiting cases are deleted."""
    current = lock_live_evaluator(db, project, rule)
    new = msgspec.structs.replace(current, **fields, updated_at=at)
    if new.enabled and not current.enabled:
        new = msgspec.structs.replace(new, place=span_queries.last_position(db))
    values = {**msgspec.structs.asdict(new), "name": storable_text(new.name)}
    db.execute(update(rules).where(rules.c.project == project, rules.c.id == rule).values(values))
    if not new.enabled or new.session != current.session:
        unfinished = (cases.c.project == project, cases.c.rule == rule, cases.c.state != "done")
        db.execute(delete(cases).where(*unfinished))
    mark_changed(db, Change(project, "rule", rule))
    return new


def delete_live_evaluator(db: Connection, project: str, rule: str) -> None:
    lock_live_evaluator(db, project, rule)
    for dependent in (cases, scores):
        db.execute(delete(dependent).where(dependent.c.project == project, dependent.c.rule == rule))
    db.execute(delete(rules).where(rules.c.project == project, rules.c.id == rule))
    mark_changed(db, Change(project, "rule", rule))


TRACE_QUIET_TIME = timedelta(seconds=10)
"""How long no span of a trace must have arrived before it is scored."""
SESSION_IDLE_TIME = timedelta(minutes=10)
"""The same for a session, or a trace without a root."""
MAX_BACKLOG_MINUTES = 60
"""The backlog is limited to this many minutes of scoring; older cases are dropped."""
SCAN_BATCH = 100
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


# Scans


def scan_arrivals(
    db: Connection,
    project: str,
    rule: str,
    query: SpanQuery,
    now: datetime,
    *,
    is_selected: Callable[[SpanArrival], bool],
    settled: int | None = None,
    quiet: timedelta = TRACE_QUIET_TIME,
    idle: timedelta = SESSION_IDLE_TIME,
) -> bool:
    """Create cases for traces that arrived since the last scan; returns whether the batch was full.

    `settled` is the arrival position up to which all transactions are visible; None for all. On PostgreSQL an insert of
    another project may commit before an earlier one.
    """
    lock = select(rules.c.place, rules.c.session).where(
        rules.c.project == project, rules.c.id == rule, rules.c.enabled.is_(True)
    )
    evaluator = db.execute(lock.with_for_update(skip_locked=True)).one_or_none()
    if evaluator is None:
        return False
    last_position = span_queries.last_position(db) if settled is None else settled
    # SQLite reuses positions of deleted spans.
    start = evaluator.place if settled is not None else min(evaluator.place, last_position)
    arrived = span_queries.list_arrivals(db, project, start, query, heads=True, limit=SCAN_BATCH)
    for arrival in arrived:
        if is_selected(arrival):
            delay = quiet if arrival.row.parent_id is None and not evaluator.session else idle
            _upsert_case(db, project, rule, arrival, is_session=evaluator.session, due=now + delay)
    is_full = len(arrived) == SCAN_BATCH
    last_seen = arrived[-1].position if arrived else start
    place = last_seen if is_full else max(last_seen, last_position)
    if place != evaluator.place:
        db.execute(update(rules).where(rules.c.project == project, rules.c.id == rule).values(place=place))
    return is_full


def _upsert_case(
    db: Connection, project: str, rule: str, arrival: SpanArrival, *, is_session: bool, due: datetime
) -> None:
    subject = arrival.row.session if is_session else arrival.row.trace_id
    if subject is None:
        return
    conditions = _case_conditions(CaseRef(project, rule, subject, arrival.row.trace_id))
    state = db.scalar(select(cases.c.state).where(*conditions))
    # Spans that arrived together delay the case only once.
    newest = _last_arrival(db, project, subject, is_session=is_session)
    position = {"trace": arrival.row.trace_id, "place": newest or arrival.position}
    values = {**position, "due": due, "attempts": 0, "state": "waiting"}
    if state is None:
        key = {"project": project, "rule": rule, "subject": subject}
        db.execute(insert(cases).values(**key, **values))
    elif state == "running":
        if is_session:  # The process that scores it will see the new position.
            db.execute(update(cases).where(*conditions).values(position))
    elif state == "waiting" or is_session:
        db.execute(update(cases).where(*conditions).values(values))


# Claims


def has_due_cases(db: Connection, now: datetime) -> bool:
    query = select(cases.c.rule).where(IS_UNFINISHED, cases.c.state == "waiting", cases.c.due <= now)
    return db.execute(query.limit(1)).first() is not None


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
    claimed: list[ClaimedCase] = []
    due = select(cases.c.project, cases.c.rule).where(IS_UNFINISHED, cases.c.state == "waiting", cases.c.due <= now)
    for project, rule in db.execute(due.distinct().order_by(cases.c.project, cases.c.rule)).all():
        if len(claimed) < room:
            claimed += _claim_rule_cases(db, process, project, rule, now, room - len(claimed), ahead, quiet, idle)
    return claimed


def _claim_rule_cases(
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
    rule_conditions = (rules.c.project == project, rules.c.id == rule)
    lock = select(rules.c.per_minute, rules.c.session, rules.c.paced_until).where(
        *rule_conditions, rules.c.enabled.is_(True)
    )
    evaluator = db.execute(lock.with_for_update(skip_locked=True)).one_or_none()
    if evaluator is None:
        return []
    interval = timedelta(minutes=1) / evaluator.per_minute
    first_start = now if evaluator.paced_until is None else max(now, evaluator.paced_until)
    limit = min(room, (now + ahead - first_start) // interval + 1)
    if limit <= 0:
        return []
    columns = (cases.c.project, cases.c.rule, cases.c.subject, cases.c.trace, cases.c.place, cases.c.attempts)
    is_waiting = IS_UNFINISHED, cases.c.state == "waiting"
    due = (*is_waiting, cases.c.project == project, cases.c.rule == rule, cases.c.due <= now)
    _drop_oldest(db, project, rule, due, MAX_BACKLOG_MINUTES * evaluator.per_minute)
    query = select(*columns).where(*due)
    claimed: list[ClaimedCase] = []
    for row in db.execute(query.order_by(cases.c.due, cases.c.subject).limit(limit)).mappings().all():
        candidate = ClaimedCase(**row, start_at=first_start + interval * len(claimed))
        conditions = _case_conditions(candidate)
        newest = _last_arrival(db, project, candidate.subject, is_session=evaluator.session)
        if newest is None:  # The trace was deleted.
            db.execute(update(cases).where(*conditions).values(state="done"))
        elif newest > candidate.place:
            delay = quiet if not evaluator.session and _has_root(db, project, candidate.trace) else idle
            db.execute(update(cases).where(*conditions).values(place=newest, due=now + delay))
        else:
            db.execute(update(cases).where(*conditions).values(state="running", process=process))
            claimed.append(candidate)
    if claimed:
        db.execute(update(rules).where(*rule_conditions).values(paced_until=first_start + interval * len(claimed)))
    return claimed


def _drop_oldest(db: Connection, project: str, rule: str, due: tuple[Any, ...], limit: int) -> None:
    """Drop the oldest due cases beyond `limit`."""
    excess = db.execute(select(func.count()).select_from(cases).where(*due)).scalar_one() - limit
    if excess > 0:
        oldest = select(cases.c.subject).where(*due).order_by(cases.c.due, cases.c.subject).limit(min(excess, 1_000))
        dropped = (cases.c.project == project, cases.c.rule == rule, cases.c.subject.in_(db.scalars(oldest).all()))
        db.execute(update(cases).where(*dropped).values(state="done", attempts=DROPPED_ATTEMPTS))


def _has_root(db: Connection, project: str, trace: str) -> bool:
    head = span_queries.get_head_span(db, project, trace)
    return head is not None and head.parent_id is None


def _last_arrival(db: Connection, project: str, subject: str, *, is_session: bool) -> int | None:
    """Return the arrival position of the last span of a trace or session."""
    column = spans.c.session if is_session else spans.c.trace_id
    return db.scalar(select(func.max(spans.c.id)).where(spans.c.project == project, column == subject))


# Release


def finish_case(
    db: Connection,
    process: str,
    claimed: ClaimedCase,
    new_scores: Collection[CellScore],
    at: datetime,
    *,
    session: str | None,
) -> bool:
    """Store the scores; False if the process no longer holds the case. A session with new spans is queued again."""
    if not _holds_case(db, process, claimed):
        return False
    conditions = _case_conditions(claimed)
    _delete_scores(db, claimed)
    key = {"project": claimed.project, "trace": claimed.trace, "rule": claimed.rule}
    common = {**key, "session": session, "created_at": at}
    rows = [{**common, **msgspec.structs.asdict(score)} for score in new_scores]
    if rows:
        db.execute(insert(scores), rows)
    place = db.scalar(select(cases.c.place).where(*conditions))
    values: dict[str, Any] = {"state": "done", "process": None, "attempts": 0}
    if session is not None and place != claimed.place:
        values |= {"state": "waiting", "due": at + SESSION_IDLE_TIME}
    db.execute(update(cases).where(*conditions).values(values))
    mark_changed(db, Change(claimed.project, "rule", claimed.rule))
    return True


def retry_case(db: Connection, process: str, claimed: ClaimedCase, at: datetime) -> None:
    """Retry a case later after an unexpected error, up to MAX_ATTEMPTS."""
    attempts = claimed.attempts + 1
    state = "done" if attempts >= MAX_ATTEMPTS else "waiting"
    held = _held_conditions(process, claimed)
    due = at + timedelta(minutes=1)
    db.execute(update(cases).where(*held).values(state=state, process=None, attempts=attempts, due=due))


def release_cases(db: Connection, process: str) -> int:
    """Release all cases of a process; returns their number."""
    held = (IS_UNFINISHED, cases.c.state == "running", cases.c.process == process)
    return db.execute(update(cases).where(*held).values(state="waiting", process=None)).rowcount


def has_lost_cases(db: Connection, process: str) -> bool:
    """Whether an unregistered process, other than this one, holds a case."""
    return db.execute(select(cases.c.rule).where(*_lost_conditions(process)).limit(1)).first() is not None


def requeue_lost_cases(db: Connection, process: str) -> int:
    """Requeue the cases of dead processes, and give up those with too many attempts; returns their number."""
    attempts = cases.c.attempts + 1
    lost = update(cases).where(*_lost_conditions(process))
    given_up = db.execute(
        lost.where(attempts >= MAX_ATTEMPTS).values(state="done", process=None, attempts=attempts)
    ).rowcount
    return given_up + db.execute(lost.values(state="waiting", process=None, attempts=attempts)).rowcount


def _lost_conditions(process: str) -> tuple[ColumnElement[bool], ...]:
    unknown = cases.c.process.not_in(select(processes.c.id))
    return IS_UNFINISHED, cases.c.state == "running", unknown, cases.c.process != process  # type: ignore[return-value]


def _holds_case(db: Connection, process: str, claimed: ClaimedCase) -> bool:
    try:
        lock_live_evaluator(db, claimed.project, claimed.rule)
    except NotFound:
        return False
    return db.execute(select(cases.c.rule).where(*_held_conditions(process, claimed))).first() is not None


# Deletion


def find_orphaned_cases(
    db: Connection, after: CaseKey | None, limit: int = 1_000
) -> tuple[list[CaseRef], CaseKey | None]:
    """Return the cases among the next `limit` whose trace is deleted, and where to continue; None at the end."""
    key = (cases.c.project, cases.c.rule, cases.c.subject)
    query = select(*key, cases.c.trace).order_by(*key).limit(limit)
    rows = [CaseRef(*row) for row in db.execute(query if after is None else query.where(tuple_(*key) > after))]
    existing = set[tuple[str, str]]()
    for project in {row.project for row in rows}:
        trace_ids = {row.trace for row in rows if row.project == project}
        heads = select(spans.c.trace_id).where(spans.c.project == project, spans.c.head == HEAD)
        existing |= {(project, trace) for trace in db.scalars(heads.where(spans.c.trace_id.in_(trace_ids)))}
    orphaned = [row for row in rows if (row.project, row.trace) not in existing]
    return orphaned, rows[-1][:3] if len(rows) == limit else None


def delete_cases(db: Connection, refs: Collection[CaseRef]) -> None:
    for ref in refs:
        db.execute(delete(cases).where(*_case_conditions(ref), cases.c.trace == ref.trace))
        _delete_scores(db, ref)


def _delete_scores(db: Connection, ref: CaseRef | ClaimedCase) -> None:
    of_trace = (scores.c.project == ref.project, scores.c.trace == ref.trace)
    db.execute(delete(scores).where(*of_trace, scores.c.rule == ref.rule))


def _case_conditions(ref: CaseRef | ClaimedCase) -> tuple[ColumnElement[bool], ...]:
    return cases.c.project == ref.project, cases.c.rule == ref.rule, cases.c.subject == ref.subject


def _held_conditions(process: str, claimed: ClaimedCase) -> tuple[ColumnElement[bool], ...]:
    return *_case_conditions(claimed), cases.c.state == "running", cases.c.process == process


_MAX_PER_TRACE = 500


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
_row_to_score = row_converter(LiveScore)


def list_trace_scores(db: Connection, project: str, trace: str) -> list[LiveScore]:
    """List the scores of a trace, oldest first."""
    query = select(*_SCORE_FIELDS).where(scores.c.project == project, scores.c.trace == trace)
    ordered = query.order_by(scores.c.created_at, scores.c.rule, scores.c.evaluator, scores.c.name)
    return [_row_to_score(row) for row in db.execute(ordered.limit(_MAX_PER_TRACE))]


def score_stats(
    db: Connection, project: str, rule: str, *, by: TimeStep, since: datetime | None, until: datetime | None
) -> list[LiveScoreStats]:
    """Return statistics in order of time, at most the latest MAX_ROWS."""
    step = STEP_MICROSECONDS[by]
    step_index = (type_coerce(scores.c.created_at, BigInteger) // step).label("step")
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
    query = select(step_index, scores.c.name, *(count.label(name) for name, count in counts.items()))
    query = query.where(scores.c.project == project, scores.c.rule == rule)
    if since is not None:
        query = query.where(scores.c.created_at >= since)
    if until is not None:
        query = query.where(scores.c.created_at < until)
    latest = query.group_by(step_index, scores.c.name).order_by(step_index.desc(), scores.c.name.desc()).limit(MAX_ROWS)
    stats: list[LiveScoreStats] = []
    rows: Sequence[Any] = db.execute(latest).all()
    for index, name, *values in reversed(rows):
        fields: dict[str, Any] = dict(zip(counts, values, strict=True))
        stats.append(LiveScoreStats(at=EPOCH + timedelta(microseconds=index * step), evaluator=name, **fields))
    return stats


def count_cases(db: Connection, project: str, rule: str) -> CaseCounts:
    of_rule = (cases.c.project == project, cases.c.rule == rule)
    state = case((cases.c.attempts == DROPPED_ATTEMPTS, "dropped"), else_=cases.c.state).label("outcome")
    query = select(state, func.count()).where(*of_rule).group_by(state)
    return CaseCounts(**{row[0]: row[1] for row in db.execute(query)})
