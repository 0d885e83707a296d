"""Reviews: create, look up, close, delete. Changes lock the review, so that no item is leased twice."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from palaver.errors import NotFound
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.reviews.tables import REVIEWS, reviews
from palaver.storage.reviews.tables import review_holds as holds
from palaver.storage.reviews.tables import review_items as items
from palaver.storage.schema import folded_text, storable_text

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
    """In their names."""


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


_FIELDS = [reviews.c[name] for name in Review.__struct_fields__]
ALL_REVIEWS = ReviewFilters()


# Queries


def get_review(db: Connection, project: str, review: str) -> Review:
    """Return a review. Raises NotFound for an unknown one, or one of another project."""
    return _fetch_review(db, _where_review(select(*_FIELDS), project, review), review)


def lock_review(db: Connection, project: str, review: str) -> Review:
    """Return a review, locked until the transaction ends."""
    return _fetch_review(db, _where_review(select(*_FIELDS), project, review).with_for_update(), review)


def list_reviews(
    db: Connection, project: str, filters: ReviewFilters = ALL_REVIEWS, window: Window = FIRST_PAGE
) -> Page[Review]:
    """List reviews, newest first."""
    asked = select(*_FIELDS).where(reviews.c.project == project)
    if filters.state is not None:
        asked = asked.where(reviews.c.state == storable_text(filters.state))
    if filters.evaluation is not None:
        asked = asked.where(reviews.c.evaluation == storable_text(filters.evaluation))
    if needle := folded_text(filters.search or ""):
        asked = asked.where(reviews.c.name_folded.contains(needle, autoescape=True))
    kept = msgspec.structs.asdict(filters)
    return fetch_page(db, asked, _row_to_review, project=project, by=(reviews.c.id,), window=window, filters=kept)


def get_progress(db: Connection, project: str, review: Review) -> ReviewProgress:
    mine = (items.c.project == project, items.c.review == review.id)
    is_done = items.c.answered >= review.reviewers
    gone = func.count().filter(items.c.gone.is_(True))
    counts = select(gone, func.count().filter(is_done), func.sum(items.c.answered)).where(*mine)
    lost, done, answers = db.execute(counts).one()
    theirs = (holds.c.project == project, holds.c.review == review.id)
    answered, skipped = (func.count().filter(holds.c.state == state) for state in ("answered", "skipped"))
    by = holds.c.reviewer
    worked = db.execute(select(by, answered, skipped).where(*theirs).group_by(by).order_by(by))
    return ReviewProgress(
        items=review.total,
        gone=lost,
        done=done,
        answers=int(answers or 0),
        wanted=(review.total - lost) * review.reviewers,
        reviewers=[
            ReviewerProgress(reviewer=row[0], answered=row[1], skipped=row[2]) for row in worked if row[1] or row[2]
        ],
    )


# Changes


def create_review(db: Connection, project: str, review: Review, new: Sequence[NewReviewItem]) -> None:
    """Insert a review with its items."""
    kept = {
        **msgspec.structs.asdict(review),
        "name": storable_text(review.name),
        "name_folded": folded_text(review.name),
    }
    db.execute(insert(reviews).values(project=project, **kept))
    common = {"project": project, "review": review.id, "answered": 0, "gone": False}
    for first in range(0, len(new), _INSERT_BATCH):
        some = enumerate(new[first : first + _INSERT_BATCH], first)
        rows = [{**common, "place": place, **msgspec.structs.asdict(item)} for place, item in some]
        db.execute(insert(items), rows)
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
    """Rename, close or reopen a review."""
    found = lock_review(db, project, review)
    new = msgspec.structs.replace(
        found, name=storable_text(name) if name is not None else found.name, state=state or found.state, updated_at=at
    )
    values = {"name": new.name, "name_folded": folded_text(new.name), "state": new.state, "updated_at": at}
    db.execute(update(reviews).where(reviews.c.project == project, reviews.c.id == review).values(values))
    mark_changed(db, Change(project, "review", review))
    return new


def delete_review(db: Connection, project: str, review: str) -> None:
    """Delete a review with its items and answers."""
    lock_review(db, project, review)
    for one in REVIEWS[1:]:
        db.execute(delete(one).where(one.c.project == project, one.c.review == review))
    db.execute(delete(reviews).where(reviews.c.project == project, reviews.c.id == review))
    mark_changed(db, Change(project, "review", review))


def _where_review(asked: Select[Any], project: str, review: str) -> Select[Any]:
    return asked.where(reviews.c.project == project, reviews.c.id == storable_text(review))


def _fetch_review(db: Connection, asked: Select[Any], review: str) -> Review:
    row = db.execute(asked).one_or_none()
    if row is None:
        raise NotFound(f"There is no review {review[:80]!r}.")
    return _row_to_review(row)


def _row_to_review(row: Row[Any]) -> Review:
    return Review(**dict(zip(Review.__struct_fields__, row, strict=False)))
