"""Feedback: what people thought of an answer. One opinion per run, message, key and user; the last counts."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, and_, delete, insert, select, update
from sqlalchemy.engine import Row

from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.spans.tables import spans
from palaver.storage.tables import feedback, nodes, runs
from palaver.storage.threads.nodes import held

Rating = Literal["up", "down"]


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody thought of an answer."""

    run: str
    message: str = ""
    """The node that is meant; empty: the run has none."""
    key: str = ""
    """The id of the key that said so; empty: nobody needs one here."""
    user: str = ""
    """Whom that key spoke for: a label."""
    rating: Rating
    comment: str = ""
    created_at: datetime


class Counts(msgspec.Struct, frozen=True):
    """What was thought of one message."""

    up: int = 0
    down: int = 0
    mine: Rating | None = None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """An opinion, and what it is about."""

    opinion: Opinion
    workflow: str
    thread: str | None
    trace_id: str | None
    preview_in: Any
    preview_out: Any


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which opinions are asked for."""

    rating: Rating | None = None
    workflow: str | None = None
    since: datetime | None = None


_FIELDS = [feedback.c[name] for name in Opinion.__struct_fields__]
_ABOUT = [runs.c.workflow, runs.c.thread, runs.c.trace_id, runs.c.preview_in, runs.c.preview_out]
ANY = Filters()
_MOST_OF_TRACE = 1_000


def put(db: Connection, project: str, opinion: Opinion) -> Opinion:
    """Keep an opinion, in the place of one that the same person had of the same answer."""
    kept = msgspec.structs.replace(opinion, comment=held(opinion.comment), user=held(opinion.user))
    fields = msgspec.structs.asdict(kept)
    change = update(feedback).where(_same(project, kept)).values(**fields)
    if not db.execute(change).rowcount:
        db.execute(insert(feedback).values(project=project, **fields))
    _touch(db, project, opinion.run)
    return kept


def remove(db: Connection, project: str, opinion: Opinion) -> None:
    """Forget what somebody thought of an answer; it is not an error if that was nothing."""
    db.execute(delete(feedback).where(_same(project, opinion)))
    _touch(db, project, opinion.run)


def _touch(db: Connection, project: str, run: str) -> None:
    thread = db.scalar(select(runs.c.thread).where(runs.c.project == project, runs.c.id == run))
    touch(db, Change(project, "run", run))
    if thread is not None:
        touch(db, Change(project, "thread", thread, run))


def answer_of(db: Connection, project: str, run: str) -> str:
    """The last message of a run in its thread: what an opinion on the run is about; empty where it has none."""
    thread = select(runs.c.thread).where(runs.c.project == project, runs.c.id == run).scalar_subquery()
    asked = select(nodes.c.id).where(nodes.c.project == project, nodes.c.thread == thread, nodes.c.run == run)
    return db.scalar(asked.order_by(nodes.c.place.desc()).limit(1)) or ""


def counts(db: Connection, project: str, wanted: Collection[str], *, key: str | None) -> dict[tuple[str, str], Counts]:
    """What was thought of the messages of these runs, by run and message; `mine` is what that key said itself."""
    if not wanted:
        return {}
    asked = select(feedback.c.run, feedback.c.message, feedback.c.rating, feedback.c.key, feedback.c.user)
    found: dict[tuple[str, str], Counts] = {}
    for run, message, rating, by, user in db.execute(
        asked.where(feedback.c.project == project, feedback.c.run.in_(list(wanted)))
    ):
        before = found.get((run, message), Counts())
        mine = rating if by == (key or "") and not user else before.mine
        found[run, message] = Counts(before.up + (rating == "up"), before.down + (rating == "down"), mine)
    return found


def of_trace(db: Connection, project: str, trace: str) -> list[Opinion]:
    """What people thought of the runs of a trace, the earliest first."""
    theirs = select(spans.c.run_id).where(
        spans.c.project == project, spans.c.trace_id == trace, spans.c.run_id.is_not(None)
    )
    asked = select(*_FIELDS).where(feedback.c.project == project, feedback.c.run.in_(theirs))
    by = (feedback.c.created_at, feedback.c.run, feedback.c.message, feedback.c.key, feedback.c.user)
    rows = db.execute(asked.order_by(*by).limit(_MOST_OF_TRACE))
    return [Opinion(**dict(zip(Opinion.__struct_fields__, row, strict=True))) for row in rows]


def list_page(db: Connection, project: str, filters: Filters = ANY, window: Window = START) -> Page[Given]:
    """A page of opinions, newest first, with what each is about."""
    about = and_(runs.c.project == feedback.c.project, runs.c.id == feedback.c.run)
    asked = select(*_FIELDS, *_ABOUT).join(runs, about).where(feedback.c.project == project)
    if filters.rating is not None:
        asked = asked.where(feedback.c.rating == filters.rating)
    if filters.workflow is not None:
        asked = asked.where(runs.c.workflow == held(filters.workflow))
    if filters.since is not None:
        asked = asked.where(feedback.c.created_at >= filters.since)
    by = [feedback.c.created_at, feedback.c.run, feedback.c.message, feedback.c.key, feedback.c.user]
    bound = msgspec.structs.asdict(filters)
    return page(db, asked, _given, project=project, by=by, window=window, filters=bound)


def _same(project: str, opinion: Opinion) -> Any:
    mine: Mapping[str, str] = {"run": opinion.run, "message": opinion.message, "key": opinion.key}
    named = (feedback.c[name] == value for name, value in mine.items())
    return and_(feedback.c.project == project, feedback.c.user == held(opinion.user), *named)


def _given(row: Row[Any]) -> Given:
    own: dict[str, Any] = dict(zip(Opinion.__struct_fields__, row, strict=False))
    about = row[len(own) : len(own) + len(_ABOUT)]
    told: dict[str, Any] = dict(zip([column.name for column in _ABOUT], about, strict=True))
    return Given(opinion=Opinion(**own), **told)
