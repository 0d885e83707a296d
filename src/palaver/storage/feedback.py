"""Ratings of answers. One per run, message, API key and user; the last one counts."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, and_, delete, insert, select, update
from sqlalchemy.engine import Row

from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import row_converter, row_values, storable_text
from palaver.storage.spans.tables import spans
from palaver.storage.tables import feedback, nodes, runs

Rating = Literal["up", "down"]


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    message: str = ""
    """The rated node; empty if the run has none."""
    key: str = ""
    """The id of the API key; empty without authentication."""
    user: str = ""
    """The user label that was sent with the rating."""
    rating: Rating
    comment: str = ""
    created_at: datetime


class FeedbackCounts(msgspec.Struct, frozen=True):
    """Ratings of one message."""

    up: int = 0
    down: int = 0
    mine: Rating | None = None


class FeedbackEntry(msgspec.Struct, frozen=True, kw_only=True):
    feedback: Feedback
    workflow: str
    thread: str | None
    trace_id: str | None
    preview_in: Any
    preview_out: Any


class FeedbackFilters(msgspec.Struct, frozen=True, kw_only=True):
    rating: Rating | None = None
    workflow: str | None = None
    since: datetime | None = None


_FIELDS = [feedback.c[name] for name in Feedback.__struct_fields__]
_RUN_FIELDS = [runs.c.workflow, runs.c.thread, runs.c.trace_id, runs.c.preview_in, runs.c.preview_out]
_row_to_feedback = row_converter(Feedback)
ALL_FEEDBACK = FeedbackFilters()
_MAX_PER_TRACE = 1_000


def save_feedback(db: Connection, project: str, rating: Feedback) -> Feedback:
    """Store a rating; replaces that of the same person for the same answer."""
    stored = msgspec.structs.replace(rating, comment=storable_text(rating.comment), user=storable_text(rating.user))
    fields = msgspec.structs.asdict(stored)
    change = update(feedback).where(_is_feedback(project, stored)).values(**fields)
    if not db.execute(change).rowcount:
        db.execute(insert(feedback).values(project=project, **fields))
    _mark_run_changed(db, project, rating.run)
    return stored


def delete_feedback(db: Connection, project: str, rating: Feedback) -> None:
    """Delete a rating, if there is one."""
    db.execute(delete(feedback).where(_is_feedback(project, rating)))
    _mark_run_changed(db, project, rating.run)


def _mark_run_changed(db: Connection, project: str, run: str) -> None:
    thread = db.scalar(select(runs.c.thread).where(runs.c.project == project, runs.c.id == run))
    mark_changed(db, Change(project, "run", run))
    if thread is not None:
        mark_changed(db, Change(project, "thread", thread, run))


def find_answer_message(db: Connection, project: str, run: str) -> str:
    """Return the last message of a run in its thread, which a rating of the run is about; empty if it has none."""
    thread = select(runs.c.thread).where(runs.c.project == project, runs.c.id == run).scalar_subquery()
    query = select(nodes.c.id).where(nodes.c.project == project, nodes.c.thread == thread, nodes.c.run == run)
    return db.scalar(query.order_by(nodes.c.place.desc()).limit(1)) or ""


def count_feedback(
    db: Connection, project: str, run_ids: Collection[str], *, key: str | None
) -> dict[tuple[str, str], FeedbackCounts]:
    """Count the ratings of these runs by run and message; `mine` is the rating of the given key."""
    if not run_ids:
        return {}
    query = select(feedback.c.run, feedback.c.message, feedback.c.rating, feedback.c.key, feedback.c.user)
    counts: dict[tuple[str, str], FeedbackCounts] = {}
    for run, message, rating, author_key, user in db.execute(
        query.where(feedback.c.project == project, feedback.c.run.in_(list(run_ids)))
    ):
        before = counts.get((run, message), FeedbackCounts())
        mine = rating if author_key == (key or "") and not user else before.mine
        counts[run, message] = FeedbackCounts(before.up + (rating == "up"), before.down + (rating == "down"), mine)
    return counts


def list_trace_feedback(db: Connection, project: str, trace: str) -> list[Feedback]:
    """List the ratings of the runs of a trace, oldest first."""
    run_ids = select(spans.c.run_id).where(
        spans.c.project == project, spans.c.trace_id == trace, spans.c.run_id.is_not(None)
    )
    query = select(*_FIELDS).where(feedback.c.project == project, feedback.c.run.in_(run_ids))
    by = (feedback.c.created_at, feedback.c.run, feedback.c.message, feedback.c.key, feedback.c.user)
    return [_row_to_feedback(row) for row in db.execute(query.order_by(*by).limit(_MAX_PER_TRACE))]


def list_feedback(
    db: Connection, project: str, filters: FeedbackFilters = ALL_FEEDBACK, window: Window = FIRST_PAGE
) -> Page[FeedbackEntry]:
    """List ratings, newest first, with their runs."""
    is_rated_run = and_(runs.c.project == feedback.c.project, runs.c.id == feedback.c.run)
    query = select(*_FIELDS, *_RUN_FIELDS).join(runs, is_rated_run).where(feedback.c.project == project)
    if filters.rating is not None:
        query = query.where(feedback.c.rating == filters.rating)
    if filters.workflow is not None:
        query = query.where(runs.c.workflow == storable_text(filters.workflow))
    if filters.since is not None:
        query = query.where(feedback.c.created_at >= filters.since)
    by = [feedback.c.created_at, feedback.c.run, feedback.c.message, feedback.c.key, feedback.c.user]
    scope = msgspec.structs.asdict(filters)
    return fetch_page(db, query, _row_to_entry, project=project, by=by, window=window, filters=scope)


def _is_feedback(project: str, rating: Feedback) -> Any:
    return and_(
        feedback.c.project == project,
        feedback.c.run == rating.run,
        feedback.c.message == rating.message,
        feedback.c.key == rating.key,
        feedback.c.user == storable_text(rating.user),
    )


def _row_to_entry(row: Row[Any]) -> FeedbackEntry:
    values = row_values(row)
    return FeedbackEntry(feedback=_row_to_feedback(row), **{column.name: values[column.name] for column in _RUN_FIELDS})
