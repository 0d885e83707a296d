"""The items of a review: who is given which, who holds it, and what was said of it. The review's row must be held."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, insert, select, update

from palaver.errors import NotFound, NotOpen
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.reviews.keeping import Review
from palaver.storage.reviews.tables import review_answers as answers
from palaver.storage.reviews.tables import review_holds as holds
from palaver.storage.reviews.tables import review_items as table
from palaver.storage.reviews.tables import reviews
from palaver.storage.threads.nodes import held

LEASE = timedelta(minutes=10)
"""How long an item is kept for whom it was given to."""
_MOST_OF_TRACE = 200

Hold = Literal["held", "answered", "skipped"]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One: a link to what it is about."""

    place: int
    cell: int | None
    seq: int | None
    trace: str | None
    answered: int
    gone: bool


class Held(msgspec.Struct, frozen=True):
    """An item that somebody was given, and until when."""

    item: Item
    until: datetime


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said of an item. Of several by the same person the last counts."""

    number: int
    place: int
    reviewer: str
    answers: dict[str, Any]
    comment: str
    created_at: datetime


class Judgement(msgspec.Struct, frozen=True):
    """What an evaluator says of an item."""

    passed: bool | None
    score: float | None
    label: str | None


class OnTrace(msgspec.Struct, frozen=True):
    """What was said of a trace, and in which review."""

    review: str
    questions: Any
    said: Said


_FIELDS = [table.c[name] for name in Item.__struct_fields__]
_SAID = [answers.c[name] for name in Said.__struct_fields__]


# Looking


def get(db: Connection, project: str, review: str, place: int) -> Item:
    """One of them."""
    row = db.execute(select(*_FIELDS).where(*_mine(project, review), table.c.place == place)).one_or_none()
    if row is None:
        raise NotFound(f"The review {review[:80]!r} has no item {place}.")
    return _item(row)


def list_page(db: Connection, project: str, review: str, window: Window = START) -> Page[Item]:
    """A page of them, in their order."""
    asked = select(*_FIELDS).where(*_mine(project, review))
    by, filters = (table.c.place,), {"review": review}
    return page(db, asked, _item, project=project, by=by, window=window, filters=filters, order="oldest")


def said_of(db: Connection, project: str, review: str, places: Collection[int]) -> dict[int, list[Said]]:
    """All that was said of these, in the order in which it was."""
    asked = select(*_SAID).where(
        answers.c.project == project, answers.c.review == review, answers.c.place.in_(list(places))
    )
    found: dict[int, list[Said]] = {place: [] for place in places}
    for row in db.execute(asked.order_by(answers.c.place, answers.c.number)):
        found[row.place].append(_said(row))
    return found


def last_said(db: Connection, project: str, review: str) -> dict[tuple[int, str], Said]:
    """Of each item and reviewer what was said last."""
    asked = select(*_SAID).where(answers.c.project == project, answers.c.review == review)
    return {(row.place, row.reviewer): _said(row) for row in db.execute(asked.order_by(answers.c.number))}


def judged(
    db: Connection, project: str, review: Review, evaluators: Collection[int]
) -> dict[str, dict[int, Judgement]]:
    """By the names of these evaluators of the run, what they say of the items."""
    same = (
        scores.c.project == table.c.project,
        scores.c.evaluation == review.evaluation,
        scores.c.cell == table.c.cell,
    )
    asked = (
        select(table.c.place, scores.c.name, scores.c.passed, scores.c.score, scores.c.label)
        .join_from(table, scores, and_(*same))
        .where(*_mine(project, review.id), scores.c.evaluator.in_(list(evaluators)), scores.c.status == "scored")
        .order_by(scores.c.name, table.c.place)
    )
    found: dict[str, dict[int, Judgement]] = {}
    for place, name, passed, score, label in db.execute(asked) if evaluators else ():
        found.setdefault(name, {})[place] = Judgement(passed, score, label)
    return found


def of_trace(db: Connection, project: str, trace: str) -> list[OnTrace]:
    """What people said last of a trace, in all reviews that it is in, the earliest first."""
    about = and_(table.c.project == answers.c.project, table.c.review == answers.c.review)
    own = and_(reviews.c.project == answers.c.project, reviews.c.id == answers.c.review)
    asked = (
        select(*_SAID, answers.c.review, reviews.c.questions)
        .join_from(answers, table, and_(about, table.c.place == answers.c.place))
        .join(reviews, own)
        .where(table.c.project == project, table.c.trace == trace)
        .order_by(answers.c.created_at, answers.c.review, answers.c.number)
        .limit(_MOST_OF_TRACE)
    )
    last: dict[tuple[str, int, str], OnTrace] = {}
    for row in db.execute(asked):
        last.pop((row.review, row.place, row.reviewer), None)
        last[row.review, row.place, row.reviewer] = OnTrace(row.review, row.questions, _said(row))
    return list(last.values())


# Giving


def take(db: Connection, project: str, review: Review, reviewer: str, now: datetime) -> Held | None:
    """The next item for somebody: what they hold already, else the first that nobody else holds.

    Never one that they have answered or skipped, nor one that enough people have answered.
    """
    _check_open(review)
    own = _hold_of(project, review.id, reviewer)
    kept = select(*_FIELDS).where(
        *_mine(project, review.id),
        table.c.gone.is_(False),
        table.c.answered < review.reviewers,
        exists().where(*own, holds.c.state == "held", holds.c.until > now),
    )
    other = (*_holds(project, review.id), holds.c.reviewer != held(reviewer))
    free = select(*_FIELDS).where(
        *_mine(project, review.id),
        table.c.gone.is_(False),
        table.c.answered < review.reviewers,
        ~exists().where(*own, holds.c.state != "held"),
        ~exists().where(*other, holds.c.state == "held", holds.c.until > now),
    )
    for asked in (kept, free):
        row = db.execute(asked.order_by(table.c.place).limit(1)).one_or_none()
        if row is not None:
            _set(db, project, review.id, row.place, reviewer, "held", now + LEASE)
            return Held(_item(row), now + LEASE)
    return None


def lose(db: Connection, project: str, review: str, place: int) -> None:
    """What it is about is gone: nobody is asked about it any more."""
    db.execute(update(table).where(*_mine(project, review), table.c.place == place).values(gone=True))
    touch(db, Change(project, "review", review))


def skip(db: Connection, project: str, review: Review, place: int, reviewer: str, now: datetime) -> None:
    """They do not want to say anything of it: it is not given to them again. What they have said stays."""
    _check_open(review)
    get(db, project, review.id, place)
    if _state_of(db, project, review.id, place, reviewer) != "answered":
        _set(db, project, review.id, place, reviewer, "skipped", now)
        touch(db, Change(project, "review", review.id))


def release(db: Connection, project: str, review: Review, place: int, reviewer: str, now: datetime) -> None:
    """They do not hold it any more; somebody else may, or they themselves later."""
    get(db, project, review.id, place)
    if _state_of(db, project, review.id, place, reviewer) == "held":
        _set(db, project, review.id, place, reviewer, "held", now)


# Saying


def say(
    db: Connection,
    project: str,
    review: Review,
    place: int,
    reviewer: str,
    given: dict[str, Any],
    *,
    comment: str = "",
    at: datetime,
) -> Said:
    """Keep what somebody says of an item; if they have said something before, this is what counts."""
    _check_open(review)
    item = get(db, project, review.id, place)
    is_first = _state_of(db, project, review.id, place, reviewer) != "answered"
    if is_first and item.answered + _held_by_others(db, project, review.id, place, reviewer, at) >= review.reviewers:
        raise NotOpen("Others have this item, or have answered it: ask for the next one.")
    said = Said(
        number=review.answers + 1, place=place, reviewer=held(reviewer), answers=given, comment=comment, created_at=at
    )
    kept = {**msgspec.structs.asdict(said), "comment": held(comment)}
    db.execute(insert(answers).values(project=project, review=review.id, **kept))
    mine = update(reviews).where(reviews.c.project == project, reviews.c.id == review.id)
    db.execute(mine.values(answers=said.number, updated_at=at))
    if is_first:
        counted = update(table).where(*_mine(project, review.id), table.c.place == place)
        db.execute(counted.values(answered=table.c.answered + 1))
        _set(db, project, review.id, place, reviewer, "answered", at)
    touch(db, Change(project, "review", review.id))
    return said


def _check_open(review: Review) -> None:
    if review.state != "open":
        raise NotOpen(f"The review {review.id} is closed: open it again first.")


def _held_by_others(db: Connection, project: str, review: str, place: int, reviewer: str, now: datetime) -> int:
    others = (holds.c.project == project, holds.c.review == review, holds.c.place == place)
    mine = holds.c.reviewer != held(reviewer)
    return db.execute(
        select(func.count()).select_from(holds).where(*others, mine, holds.c.state == "held", holds.c.until > now)
    ).scalar_one()


def _state_of(db: Connection, project: str, review: str, place: int, reviewer: str) -> Hold | None:
    here = (holds.c.project == project, holds.c.review == review, holds.c.place == place)
    return db.scalar(select(holds.c.state).where(*here, holds.c.reviewer == held(reviewer)))


def _set(db: Connection, project: str, review: str, place: int, reviewer: str, state: Hold, until: datetime) -> None:
    here = {"project": project, "review": review, "place": place, "reviewer": held(reviewer)}
    same = and_(*(holds.c[name] == value for name, value in here.items()))
    if not db.execute(update(holds).where(same).values(state=state, until=until)).rowcount:
        db.execute(insert(holds).values(**here, state=state, until=until))


def _mine(project: str, review: str) -> tuple[ColumnElement[bool], ...]:
    return table.c.project == project, table.c.review == review


def _holds(project: str, review: str) -> tuple[ColumnElement[bool], ...]:
    return holds.c.project == project, holds.c.review == review, holds.c.place == table.c.place


def _hold_of(project: str, review: str, reviewer: str) -> tuple[ColumnElement[bool], ...]:
    return *_holds(project, review), holds.c.reviewer == held(reviewer)


def _item(row: Row[Any]) -> Item:
    return Item(**dict(zip(Item.__struct_fields__, row, strict=False)))


def _said(row: Row[Any]) -> Said:
    return Said(**dict(zip(Said.__struct_fields__, row, strict=False)))
