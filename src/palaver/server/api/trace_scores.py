"""GET /api/traces/{trace}/scores: what people thought of a trace, as numbers. Evaluation adds what it found."""

from typing import Literal

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from sqlalchemy import Connection

from palaver.core.keys import wire_id
from palaver.server.api.conventions import Asked, Time, caller_of, told_time
from palaver.server.api.trace_views import missing_trace
from palaver.storage import feedback, span_pages
from palaver.storage.database import Database
from palaver.storage.feedback import Opinion


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    source: Literal["feedback"] = "feedback"
    """Where it comes from."""
    value: float
    """From 0 to 1; of feedback 1 is up and 0 is down."""
    run: str
    message: str | None
    """The message that is meant, if one was."""
    comment: str
    user: str | None
    key: str | None
    created_at: Time


class Scores(msgspec.Struct, frozen=True):
    """All of a trace, the earliest first."""

    data: list[Score]


def routes(database: Database) -> list[HTTPRouteHandler]:
    """The route."""

    @get(
        "/api/traces/{trace:str}/scores",
        operation_id="list_trace_scores",
        summary="What people thought of a trace: 1 or 0 for each thumb",
    )
    async def list_trace_scores(request: Asked, trace: FromPath[str]) -> Scores:
        found = await database.read(_scores, caller_of(request).project, trace)
        return Scores([_score(opinion) for opinion in found])

    return [list_trace_scores]


def _scores(db: Connection, project: str, trace: str) -> list[Opinion]:
    if span_pages.head_of(db, project, trace.lower()) is None:
        raise missing_trace(trace)
    return feedback.of_trace(db, project, trace.lower())


def _score(opinion: Opinion) -> Score:
    return Score(
        value=1.0 if opinion.rating == "up" else 0.0,
        run=opinion.run,
        message=opinion.message or None,
        comment=opinion.comment,
        user=opinion.user or None,
        key=wire_id(opinion.key) if opinion.key else None,
        created_at=told_time(opinion.created_at),
    )
