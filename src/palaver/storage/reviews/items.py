"""The items of a review: who is given which, who holds it, and what was said of it. The review's row must be held."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, insert, select, update

from palaver.errors import NotFound, NotOpen
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.reviews.repository import Review
from palaver.storage.reviews.tables import review_answers as answers
from palaver.storage.reviews.tables import review_holds as holds
from palaver.storage.reviews.tables import review_items as table
from palaver.storage.reviews.tables import reviews
from palaver.storage.schema import storable_text

LEASE_TIME = timedelta(minutes=10)
"""How long an item is kept for whom it was given to."""
_MAX_PER_TRACE = 200

HoldState = Literal["held", "answered", "skipped"]


class ReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    """One: a link to what it is about."""

    place: int
    cell: int | None
    seq: int | None
    trace: str | None
    answered: int
    gone: bool


class LeasedItem(msgspec.Struct, frozen=True):
    """An item that somebody was given, and until when."""

    item: ReviewItem
    until: datetime


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said of an item. Of several by the same person the last counts."""

    number: int
    place: int
    reviewer: str
    answers: dict[str, Any]
    comment: str
    created_at: datetime


class EvaluatorVerdict(msgspec.Struct, frozen=True):
    """What an evaluator says of an item."""

    passed: bool | None
    score: float | None
    label: str | None


class TraceReview(msgspec.Struct, frozen=True):
    """What was said of a trace, and in which review."""

    review: str
    questions: Any
    said: ReviewAnswer


_ITEM_COLUMNS = [table.c[name] for name in ReviewItem.__struct_fields__]
_ANSWER_COLUMNS = [answers.c[name] for name in ReviewAnswer.__struct_fields__]


# Looking


def get_item(db: Connection, project: str, review: str, place: int) -> ReviewItem:
    """One of them."""
    row = db.execute(select(*_ITEM_COLUMNS).where(*_in_review(project, review), table.c.place == place)).one_or_none()
    if row is None:
        raise NotFound(f"The review {review[:80]!r} has no item {place}.")
    return _row_to_item(row)


def list_items(db: Connection, project: str, review: str, window: Window = FIRST_PAGE) -> Page[ReviewItem]:
    """A page of them, in their order."""
    asked = select(*_ITEM_COLUMNS).where(*_in_review(project, review))
    by, filters = (table.c.place,), {"review": review}
    return fetch_page(db, asked, _row_to_item, project=project, by=by, window=window, filters=filters, order="oldest")


def list_answers(db: Connection, project: str, review: str, places: Collection[int]) -> dict[int, list[ReviewAnswer]]:
    """All that was said of these, in the order in which it was."""
    asked = select(*_ANSWER_COLUMNS).where(
        answers.c.project == project, answers.c.review == review, answers.c.place.in_(list(places))
    )
    found: dict[int, list[ReviewAnswer]] = {place: [] for place in places}
    for row in db.execute(asked.order_by(answers.c.place, answers.c.number)):
        found[row.place].append(_row_to_answer(row))
    return found


def latest_answers(db: Connection, project: str, review: str) -> dict[tuple[int, str], ReviewAnswer]:
    """Of each item and reviewer what was said last."""
    asked = select(*_ANSWER_COLUMNS).where(answers.c.project == project, answers.c.review == review)
    return {(row.place, row.reviewer): _row_to_answer(row) for row in db.execute(asked.order_by(answers.c.number))}


def load_verdicts(
    db: Connection, project: str, review: Review, evaluators: Collection[int]
) -> dict[str, dict[int, EvaluatorVerdict]]:
    """By the names of these evaluators of the run, what they say of the items."""
    same = (
        scores.c.project == table.c.project,
        scores.c.evaluation == review.evaluation,
        scores.c.cell == table.c.cell,
    )
    asked = (
        select(table.c.place, scores.c.name, scores.c.passed, scores.c.score, scores.c.label)
        .join_from(table, scores, and_(*same))
        .where(*_in_review(project, review.id), scores.c.evaluator.in_(list(evaluators)), scores.c.status == "scored")
        .order_by(scores.c.name, table.c.place)
    )
    found: dict[str, dict[int, EvaluatorVerdict]] = {}
    for place, name, passed, score, label in db.execute(asked) if evaluators else ():
        found.setdefault(name, {})[place] = EvaluatorVerdict(passed, score, label)
    return found


def list_trace_reviews(db: Connection, project: str, trace: str) -> list[TraceReview]:
    """What people said last of a trace, in all reviews that it is in, the earliest first."""
    about = and_(table.c.project == answers.c.project, table.c.review == answers.c.review)
    own = and_(reviews.c.project == answers.c.project, reviews.c.id == answers.c.review)
    asked = (
        select(*_ANSWER_COLUMNS, answers.c.review, reviews.c.questions)
        .join_from(answers, table, and_(about, table.c.place == answers.c.place))
        .join(reviews, own)
        .where(table.c.project == project, table.c.trace == trace)
        .order_by(answers.c.created_at, answers.c.review, answers.c.number)
        .limit(_MAX_PER_TRACE)
    )
    last: dict[tuple[str, int, str], TraceReview] = {}
    for row in db.execute(asked):
        last.pop((row.review, row.place, row.reviewer), None)
        last[row.review, row.place, row.reviewer] = TraceReview(row.review, row.questions, _row_to_answer(row))
    return list(last.values())


# Giving


def lease_next_item(db: Connection, project: str, review: Review, reviewer: str, now: datetime) -> LeasedItem | None:
    """The next item for somebody: what they hold already, else the first that nobody else holds.

    Never one that they have answered or skipped, nor one that enough people have answered.
    """
    _check_open(review)
    own = _hold_by(project, review.id, reviewer)
    kept = select(*_ITEM_COLUMNS).where(
        *_in_review(project, review.id),
        table.c.gone.is_(False),
        table.c.answered < review.reviewers,
        exists().where(*own, holds.c.state == "held", holds.c.until > now),
    )
    other = (*_holds(project, review.id), holds.c.reviewer != storable_text(reviewer))
    free = select(*_ITEM_COLUMNS).where(
        *_in_review(project, review.id),
        table.c.gone.is_(False),
        table.c.answered < review.reviewers,
        ~exists().where(*own, holds.c.state != "held"),
        ~exists().where(*other, holds.c.state == "held", holds.c.until > now),
    )
    for asked in (kept, free):
        row = db.execute(asked.order_by(table.c.place).limit(1)).one_or_none()
        if row is not None:
            _set_hold(db, project, review.id, row.place, reviewer, "held", now + LEASE_TIME)
            return LeasedItem(_row_to_item(row), now + LEASE_TIME)
    return None


def mark_item_gone(db: Connection, project: str, review: str, place: int) -> None:
    """What it is about is gone: nobody is asked about it any more."""
    db.execute(update(table).where(*_in_review(project, review), table.c.place == place).values(gone=True))
    mark_changed(db, Change(project, "review", review))


def skip_item(db: Connection, project: str, review: Review, place: int, reviewer: str, now: datetime) -> None:
    """They do not want to say anything of it: it is not given to them again. What they have said stays."""
    _check_open(review)
    get_item(db, project, review.id, place)
    if _hold_state(db, project, review.id, place, reviewer) != "answered":
        _set_hold(db, project, review.id, place, reviewer, "skipped", now)
        mark_changed(db, Change(project, "review", review.id))


def release_item(db: Connection, project: str, review: Review, place: int, reviewer: str, now: datetime) -> None:
    """They do not hold it any more; somebody else may, or they themselves later."""
    get_item(db, project, review.id, place)
    if _hold_state(db, project, review.id, place, reviewer) == "held":
        _set_hold(db, project, review.id, place, reviewer, "held", now)


# Saying


def save_answer(
    db: Connection,
    project: str,
    review: Review,
    place: int,
    reviewer: str,
    given: dict[str, Any],
    *,
    comment: str = "",
    at: datetime,
) -> ReviewAnswer:
    """Keep what somebody says of an item; if they have said something before, this is what counts."""
    _check_open(review)
    item = get_item(db, project, review.id, place)
    is_first = _hold_state(db, project, review.id, place, reviewer) != "answered"
    if (
        is_first
        and item.answered + _count_other_leases(db, project, review.id, place, reviewer, at) >= review.reviewers
    ):
        raise NotOpen("Others have this item, or have answered it: ask for the next one.")
    said = ReviewAnswer(
        number=review.answers + 1,
        place=place,
        reviewer=storable_text(reviewer),
        answers=given,
        comment=comment,
        created_at=at,
    )
    kept = {**msgspec.structs.asdict(said), "comment": storable_text(comment)}
    db.execute(insert(answers).values(project=project, review=review.id, **kept))
    mine = update(reviews).where(reviews.c.project == project, reviews.c.id == review.id)
    db.execute(mine.values(answers=said.number, updated_at=at))
    if is_first:
        counted = update(table).where(*_in_review(project, review.id), table.c.place == place)
        db.execute(counted.values(answered=table.c.answered + 1))
        _set_hold(db, project, review.id, place, reviewer, "answered", at)
    mark_changed(db, Change(project, "review", review.id))
    return said


def _check_open(review: Review) -> None:
    if review.state != "open":
        raise NotOpen(f"The review {review.id} is closed: open it again first.")


def _count_other_leases(db: Connection, project: str, review: str, place: int, reviewer: str, now: datetime) -> int:
    others = (holds.c.project == project, holds.c.review == review, holds.c.place == place)
    mine = holds.c.reviewer != storable_text(reviewer)
    return db.execute(
        select(func.count()).select_from(holds).where(*others, mine, holds.c.state == "held", holds.c.until > now)
    ).scalar_one()


def _hold_state(db: Connection, project: str, review: str, place: int, reviewer: str) -> HoldState | None:
    here = (holds.c.project == project, holds.c.review == review, holds.c.place == place)
    return db.scalar(select(holds.c.state).where(*here, holds.c.reviewer == storable_text(reviewer)))


def _set_hold(
    db: Connection, project: str, review: str, place: int, reviewer: str, state: HoldState, until: datetime
) -> None:
    here = {"project": project, "review": review, "place": place, "reviewer": storable_text(reviewer)}
    same = and_(*(holds.c[name] == value for name, value in here.items()))
    if not db.execute(update(holds).where(same).values(state=state, until=until)).rowcount:
        db.execute(insert(holds).values(**here, state=state, until=until))


def _in_review(project: str, review: str) -> tuple[ColumnElement[bool], ...]:
    return table.c.project == project, table.c.review == review


def _holds(project: str, review: str) -> tuple[ColumnElement[bool], ...]:
    return holds.c.project == project, holds.c.review == review, holds.c.place == table.c.place


def _hold_by(project: str, review: str, reviewer: str) -> tuple[ColumnElement[bool], ...]:
    return *_holds(project, review), holds.c.reviewer == storable_text(reviewer)


def _row_to_item(row: Row[Any]) -> ReviewItem:
    return ReviewItem(**dict(zip(ReviewItem.__struct_fields__, row, strict=False)))


def _row_to_answer(row: Row[Any]) -> ReviewAnswer:
    return ReviewAnswer(**dict(zip(ReviewAnswer.__struct_fields__, row, strict=False)))
