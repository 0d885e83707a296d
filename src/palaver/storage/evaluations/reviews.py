"""Human reviews, their items, leases and answers."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, select, update

from palaver.errors import NotFound, NotOpen
from palaver.storage.evaluations.tables import REVIEW_TABLES, reviews
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.evaluations.tables import review_answers as answers
from palaver.storage.evaluations.tables import review_holds as holds
from palaver.storage.evaluations.tables import review_items as items
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import folded_text, require_row, row_converter, split_batches, storable_text

ReviewState = Literal["open", "closed"]
_INSERT_BATCH = 1_000


class Review(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    state: ReviewState = "open"
    evaluation: str | None
    """The evaluation whose results are reviewed; None if traces are reviewed."""
    reviewers: int
    """Number of answers wanted per item."""
    blind: bool
    total: int
    answers: int = 0
    """Number of answers ever given, including corrections."""
    key: str | None
    created_at: datetime
    updated_at: datetime
    questions: Any
    """JSON that the evaluation package interprets."""
    source: Any
    """The request that selected the items."""


class NewReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    cell: int | None = None
    seq: int | None = None
    trace: str | None = None


class ReviewFilters(msgspec.Struct, frozen=True, kw_only=True):
    state: str | None = None
    evaluation: str | None = None
    search: str | None = None
    """Text in the name."""


class ReviewerProgress(msgspec.Struct, frozen=True, kw_only=True):
    reviewer: str
    answered: int
    skipped: int


class ReviewProgress(msgspec.Struct, frozen=True, kw_only=True):
    items: int
    gone: int
    """Items whose result or trace was deleted."""
    done: int
    """Items with enough answers."""
    answers: int
    """One per reviewer and item."""
    wanted: int
    reviewers: list[ReviewerProgress]


_REVIEW_FIELDS = [reviews.c[name] for name in Review.__struct_fields__]
_row_to_review = row_converter(Review)
ALL_REVIEWS = ReviewFilters()


# Queries


def get_review(db: Connection, project: str, review: str) -> Review:
    """Return a review. Raises NotFound for an unknown one, or one of another project."""
    return _row_to_review(require_row(db, select(*_REVIEW_FIELDS), reviews, project, review, "Review"))


def lock_review(db: Connection, project: str, review: str) -> Review:
    """Return a review, locked until the transaction ends."""
    query = select(*_REVIEW_FIELDS).with_for_update()
    return _row_to_review(require_row(db, query, reviews, project, review, "Review"))


def list_reviews(
    db: Connection, project: str, filters: ReviewFilters = ALL_REVIEWS, window: Window = FIRST_PAGE
) -> Page[Review]:
    """List reviews, newest first."""
    query = select(*_REVIEW_FIELDS).where(reviews.c.project == project)
    if filters.state is not None:
        query = query.where(reviews.c.state == storable_text(filters.state))
    if filters.evaluation is not None:
        query = query.where(reviews.c.evaluation == storable_text(filters.evaluation))
    if needle := folded_text(filters.search or ""):
        query = query.where(reviews.c.name_folded.contains(needle, autoescape=True))
    scope = msgspec.structs.asdict(filters)
    return fetch_page(db, query, _row_to_review, project=project, by=(reviews.c.id,), window=window, filters=scope)


def get_progress(db: Connection, project: str, review: Review) -> ReviewProgress:
    in_review = (items.c.project == project, items.c.review == review.id)
    is_done = items.c.answered >= review.reviewers
    count_gone = func.count().filter(items.c.gone.is_(True))
    counts = select(count_gone, func.count().filter(is_done), func.sum(items.c.answered)).where(*in_review)
    gone, done, answers = db.execute(counts).one()
    of_review = (holds.c.project == project, holds.c.review == review.id)
    answered, skipped = (func.count().filter(holds.c.state == state) for state in ("answered", "skipped"))
    reviewer = holds.c.reviewer
    by_reviewer = db.execute(
        select(reviewer, answered, skipped).where(*of_review).group_by(reviewer).order_by(reviewer)
    )
    return ReviewProgress(
        items=review.total,
        gone=gone,
        done=done,
        answers=int(answers or 0),
        wanted=(review.total - gone) * review.reviewers,
        reviewers=[
            ReviewerProgress(reviewer=row[0], answered=row[1], skipped=row[2])
            for row in by_reviewer
            if row[1] or row[2]
        ],
    )


# Changes


def create_review(db: Connection, project: str, review: Review, new_items: Sequence[NewReviewItem]) -> None:
    names = {"name": storable_text(review.name), "name_folded": folded_text(review.name)}
    db.execute(insert(reviews).values(project=project, **msgspec.structs.asdict(review) | names))
    common = {"project": project, "review": review.id, "answered": 0, "gone": False}
    rows = [{**common, "place": place, **msgspec.structs.asdict(item)} for place, item in enumerate(new_items)]
    for batch in split_batches(rows, _INSERT_BATCH):
        db.execute(insert(items), batch)
    mark_changed(db, Change(project, "review", review.id))


def update_review(
    db: Connection,
    project: str,
    review: str,
    at: datetime,
    *,
    name: str | None = None,
    state: ReviewState | None = None,
) -> Review:
    current = lock_review(db, project, review)
    new = msgspec.structs.replace(
        current,
        name=storable_text(name) if name is not None else current.name,
        state=state or current.state,
        updated_at=at,
    )
    values = {"name": new.name, "name_folded": folded_text(new.name), "state": new.state, "updated_at": at}
    db.execute(update(reviews).where(reviews.c.project == project, reviews.c.id == review).values(values))
    mark_changed(db, Change(project, "review", review))
    return new


def delete_review(db: Connection, project: str, review: str) -> None:
    lock_review(db, project, review)
    for dependent in REVIEW_TABLES[1:]:
        db.execute(delete(dependent).where(dependent.c.project == project, dependent.c.review == review))
    db.execute(delete(reviews).where(reviews.c.project == project, reviews.c.id == review))
    mark_changed(db, Change(project, "review", review))


LEASE_TIME = timedelta(minutes=10)
"""How long an item is reserved for a reviewer."""
_MAX_PER_TRACE = 200

HoldState = Literal["held", "answered", "skipped"]


class ReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to a result or trace."""

    place: int
    cell: int | None
    seq: int | None
    trace: str | None
    answered: int
    gone: bool


class LeasedItem(msgspec.Struct, frozen=True):
    item: ReviewItem
    until: datetime


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to an item. The last one of a reviewer counts."""

    number: int
    place: int
    reviewer: str
    answers: dict[str, Any]
    comment: str
    created_at: datetime


class EvaluatorVerdict(msgspec.Struct, frozen=True):
    passed: bool | None
    score: float | None
    label: str | None


class TraceReview(msgspec.Struct, frozen=True):
    review: str
    questions: Any
    answer: ReviewAnswer


_ITEM_COLUMNS = [items.c[name] for name in ReviewItem.__struct_fields__]
_ANSWER_COLUMNS = [answers.c[name] for name in ReviewAnswer.__struct_fields__]
_row_to_item, _row_to_answer = row_converter(ReviewItem), row_converter(ReviewAnswer)


# Queries


def get_item(db: Connection, project: str, review: str, place: int) -> ReviewItem:
    """Return an item. Raises NotFound."""
    row = db.execute(select(*_ITEM_COLUMNS).where(*_in_review(project, review), items.c.place == place)).one_or_none()
    if row is None:
        raise NotFound(f"Item 'item_{place}' not found in review {review[:80]!r}.")
    return _row_to_item(row)


def list_items(db: Connection, project: str, review: str, window: Window = FIRST_PAGE) -> Page[ReviewItem]:
    """List items in order."""
    query = select(*_ITEM_COLUMNS).where(*_in_review(project, review))
    by, filters = (items.c.place,), {"review": review}
    return fetch_page(db, query, _row_to_item, project=project, by=by, window=window, filters=filters, order="oldest")


def list_answers(db: Connection, project: str, review: str, places: Collection[int]) -> dict[int, list[ReviewAnswer]]:
    """Return all answers to these items, in order."""
    query = select(*_ANSWER_COLUMNS).where(
        answers.c.project == project, answers.c.review == review, answers.c.place.in_(list(places))
    )
    by_item: dict[int, list[ReviewAnswer]] = {place: [] for place in places}
    for row in db.execute(query.order_by(answers.c.place, answers.c.number)):
        by_item[row.place].append(_row_to_answer(row))
    return by_item


def latest_answers(db: Connection, project: str, review: str) -> dict[tuple[int, str], ReviewAnswer]:
    """Return the last answer by item and reviewer."""
    query = select(*_ANSWER_COLUMNS).where(answers.c.project == project, answers.c.review == review)
    return {(row.place, row.reviewer): _row_to_answer(row) for row in db.execute(query.order_by(answers.c.number))}


def load_verdicts(
    db: Connection, project: str, review: Review, evaluators: Collection[int]
) -> dict[str, dict[int, EvaluatorVerdict]]:
    """Return the verdicts of these evaluators on the items, by evaluator name and item."""
    of_item = (
        scores.c.project == items.c.project,
        scores.c.evaluation == review.evaluation,
        scores.c.cell == items.c.cell,
    )
    query = (
        select(items.c.place, scores.c.name, scores.c.passed, scores.c.score, scores.c.label)
        .join_from(items, scores, and_(*of_item))
        .where(*_in_review(project, review.id), scores.c.evaluator.in_(list(evaluators)), scores.c.status == "scored")
        .order_by(scores.c.name, items.c.place)
    )
    verdicts: dict[str, dict[int, EvaluatorVerdict]] = {}
    for place, name, passed, score, label in db.execute(query) if evaluators else ():
        verdicts.setdefault(name, {})[place] = EvaluatorVerdict(passed, score, label)
    return verdicts


def list_trace_reviews(db: Connection, project: str, trace: str) -> list[TraceReview]:
    """Return the last answers about a trace in all reviews, oldest first."""
    of_item = and_(items.c.project == answers.c.project, items.c.review == answers.c.review)
    of_review = and_(reviews.c.project == answers.c.project, reviews.c.id == answers.c.review)
    query = (
        select(*_ANSWER_COLUMNS, answers.c.review, reviews.c.questions)
        .join_from(answers, items, and_(of_item, items.c.place == answers.c.place))
        .join(reviews, of_review)
        .where(items.c.project == project, items.c.trace == trace)
        .order_by(answers.c.created_at, answers.c.review, answers.c.number)
        .limit(_MAX_PER_TRACE)
    )
    latest: dict[tuple[str, int, str], TraceReview] = {}
    for row in db.execute(query):
        latest.pop((row.review, row.place, row.reviewer), None)
        latest[row.review, row.place, row.reviewer] = TraceReview(row.review, row.questions, _row_to_answer(row))
    return list(latest.values())


# Leases


def lease_next_item(db: Connection, project: str, review: Review, reviewer: str, now: datetime) -> LeasedItem | None:
    """Lease the next item: one that the reviewer holds already, else the first free one.

    Skips items that the reviewer has answered or skipped, and items with enough answers.
    """
    _check_open(review)
    on_item = _hold_conditions(project, review.id, items.c.place)
    own_hold = (*on_item, holds.c.reviewer == storable_text(reviewer))
    other_hold = (*on_item, holds.c.reviewer != storable_text(reviewer))
    unfinished = select(*_ITEM_COLUMNS).where(
        *_in_review(project, review.id), items.c.gone.is_(False), items.c.answered < review.reviewers
    )
    held = unfinished.where(exists().where(*own_hold, holds.c.state == "held", holds.c.until > now))
    free = unfinished.where(
        ~exists().where(*own_hold, holds.c.state != "held"),
        ~exists().where(*other_hold, holds.c.state == "held", holds.c.until > now),
    )
    for query in (held, free):
        row = db.execute(query.order_by(items.c.place).limit(1)).one_or_none()
        if row is not None:
            _set_hold(db, project, review.id, row.place, reviewer, "held", now + LEASE_TIME)
            return LeasedItem(_row_to_item(row), now + LEASE_TIME)
    return None


def mark_item_gone(db: Connection, project: str, review: str, place: int) -> None:
    """Mark an item whose result or trace was deleted."""
    db.execute(update(items).where(*_in_review(project, review), items.c.place == place).values(gone=True))
    mark_changed(db, Change(project, "review", review))


def skip_item(db: Connection, project: str, review: Review, place: int, reviewer: str, now: datetime) -> None:
    """Skip an item for a reviewer. Has no effect if it was answered."""
    _check_open(review)
    get_item(db, project, review.id, place)
    if _hold_state(db, project, review.id, place, reviewer) != "answered":
        _set_hold(db, project, review.id, place, reviewer, "skipped", now)
        mark_changed(db, Change(project, "review", review.id))


def release_item(db: Connection, project: str, review: Review, place: int, reviewer: str, now: datetime) -> None:
    """End the lease of a reviewer."""
    get_item(db, project, review.id, place)
    if _hold_state(db, project, review.id, place, reviewer) == "held":
        _set_hold(db, project, review.id, place, reviewer, "held", now)


# Answers


def save_answer(
    db: Connection,
    project: str,
    review: Review,
    place: int,
    reviewer: str,
    values: dict[str, Any],
    *,
    comment: str = "",
    at: datetime,
) -> ReviewAnswer:
    """Store an answer, which replaces earlier ones of the reviewer. Raises NotOpen if others hold the item."""
    _check_open(review)
    item = get_item(db, project, review.id, place)
    is_first = _hold_state(db, project, review.id, place, reviewer) != "answered"
    if (
        is_first
        and item.answered + _count_other_leases(db, project, review.id, place, reviewer, at) >= review.reviewers
    ):
        raise NotOpen("This item is assigned to or was answered by other reviewers. Continue with the next one.")
    answer = ReviewAnswer(
        number=review.answers + 1,
        place=place,
        reviewer=storable_text(reviewer),
        answers=values,
        comment=comment,
        created_at=at,
    )
    row = {**msgspec.structs.asdict(answer), "comment": storable_text(comment)}
    db.execute(insert(answers).values(project=project, review=review.id, **row))
    statement = update(reviews).where(reviews.c.project == project, reviews.c.id == review.id)
    db.execute(statement.values(answers=answer.number, updated_at=at))
    if is_first:
        increment = update(items).where(*_in_review(project, review.id), items.c.place == place)
        db.execute(increment.values(answered=items.c.answered + 1))
        _set_hold(db, project, review.id, place, reviewer, "answered", at)
    mark_changed(db, Change(project, "review", review.id))
    return answer


def _check_open(review: Review) -> None:
    if review.state != "open":
        raise NotOpen(f"Review {review.id!r} is closed. Reopen it first.")


def _count_other_leases(db: Connection, project: str, review: str, place: int, reviewer: str, now: datetime) -> int:
    on_item = _hold_conditions(project, review, place)
    is_other = holds.c.reviewer != storable_text(reviewer)
    return db.execute(
        select(func.count()).select_from(holds).where(*on_item, is_other, holds.c.state == "held", holds.c.until > now)
    ).scalar_one()


def _hold_state(db: Connection, project: str, review: str, place: int, reviewer: str) -> HoldState | None:
    on_item = _hold_conditions(project, review, place)
    return db.scalar(select(holds.c.state).where(*on_item, holds.c.reviewer == storable_text(reviewer)))


def _set_hold(
    db: Connection, project: str, review: str, place: int, reviewer: str, state: HoldState, until: datetime
) -> None:
    key = {"project": project, "review": review, "place": place, "reviewer": storable_text(reviewer)}
    is_hold = and_(*(holds.c[name] == value for name, value in key.items()))
    if not db.execute(update(holds).where(is_hold).values(state=state, until=until)).rowcount:
        db.execute(insert(holds).values(**key, state=state, until=until))


def _in_review(project: str, review: str) -> tuple[ColumnElement[bool], ...]:
    return items.c.project == project, items.c.review == review


def _hold_conditions(project: str, review: str, place: Any) -> tuple[ColumnElement[bool], ...]:
    return holds.c.project == project, holds.c.review == review, holds.c.place == place
