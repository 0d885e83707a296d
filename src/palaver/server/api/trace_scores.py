"""GET /api/traces/{trace}/scores: what people thought of a trace, and what evaluators say of it live, as numbers."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from litestar import get
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.evaluation.review_questions import Question
from palaver.server.api.conventions import Asked, Time, caller_of, told_time
from palaver.server.api.dependencies import ApiController
from palaver.server.api.trace_views import missing_trace
from palaver.storage import feedback
from palaver.storage.database import Database
from palaver.storage.evaluations import live_evaluators as online_scores
from palaver.storage.evaluations import reviews as review_items
from palaver.storage.evaluations.live_evaluators import LiveScore
from palaver.storage.evaluations.reviews import TraceReview
from palaver.storage.feedback import Feedback
from palaver.storage.spans import queries as span_pages


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. What a source has nothing of is no key, or null."""

    source: Literal["feedback", "review", "online"] = "feedback"
    """Where it comes from: a thumb, an answer in a review, or an evaluator of an online rule."""
    name: str | UnsetType = UNSET
    """The question of the review, or the evaluator."""
    value: float | None
    """Of feedback 1 is up and 0 is down; of a review and an evaluator what was said, where it is a number."""
    passed: bool | UnsetType = UNSET
    label: str | UnsetType = UNSET
    status: Literal["scored", "skipped", "error"] | UnsetType = UNSET
    """Of an evaluator."""
    reason: str | UnsetType = UNSET
    review: str | UnsetType = UNSET
    reviewer: str | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    """Of a score that is the whole session's, up to this trace."""
    run: str | None
    message: str | None
    """The message that is meant, if one was."""
    comment: str
    user: str | None
    key: str | None
    created_at: Time


class Scores(msgspec.Struct, frozen=True):
    """All of a trace: thumbs, reviews, then online rules, each the earliest first."""

    data: list[Score]


class TraceScoreController(ApiController):
    path = "/api/traces"

    database: Database

    @get(
        "/{trace:str}/scores",
        operation_id="list_trace_scores",
        summary="What people thought of a trace, 1 or 0 for each thumb, and what evaluators say of it",
    )
    async def list_trace_scores(self, request: Asked, trace: FromPath[str]) -> Scores:
        return Scores(await self.database.read(_scores, caller_of(request).project, trace))


def _scores(db: Connection, project: str, trace: str) -> list[Score]:
    named = trace.lower()
    if span_pages.get_head_span(db, project, named) is None:
        raise missing_trace(trace)
    said = [_thumb(opinion) for opinion in feedback.list_trace_feedback(db, project, named)]
    for one in review_items.list_trace_reviews(db, project, named):
        said += _answers(one)
    return [*said, *(_live(one) for one in online_scores.list_trace_scores(db, project, named))]


def _thumb(opinion: Feedback) -> Score:
    return Score(
        value=1.0 if opinion.rating == "up" else 0.0,
        run=opinion.run,
        message=opinion.message or None,
        comment=opinion.comment,
        user=opinion.user or None,
        key=format_key_id(opinion.key) if opinion.key else None,
        created_at=told_time(opinion.created_at),
    )


def _answers(one: TraceReview) -> Iterator[Score]:
    for question in msgspec.convert(one.questions, list[Question]):
        value: Any = one.answer.answers.get(question.key)
        if value is None:
            continue
        is_key = one.answer.reviewer.startswith("key_")
        yield Score(
            source="review",
            name=question.key,
            value=float(value) if question.type in ("boolean", "score") else None,
            passed=value if question.type == "boolean" else UNSET,
            label=value if question.type in ("choice", "text") else UNSET,
            review=one.review,
            reviewer=one.answer.reviewer,
            run=None,
            message=None,
            comment=one.answer.comment,
            user=None if is_key else one.answer.reviewer,
            key=one.answer.reviewer if is_key else None,
            created_at=told_time(one.answer.created_at),
        )


def _live(one: LiveScore) -> Score:
    return Score(
        source="online",
        name=one.name,
        value=one.score,
        passed=UNSET if one.passed is None else one.passed,
        label=UNSET if one.label is None else one.label,
        status=one.status,
        reason=one.reason or UNSET,
        rule=one.rule,
        session=UNSET if one.session is None else one.session,
        run=None,
        message=None,
        comment="",
        user=None,
        key=None,
        created_at=told_time(one.created_at),
    )
