"""Reviews as the REST API shows them: rows and wholes, the items that people are asked about, and what they said."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palaver.core.messages import Message
from palaver.evaluation.plan.request import NAME_PATTERN
from palaver.evaluation.review_questions import Question, Questions
from palaver.evaluation.reviews import Agreement, WantedItems
from palaver.server.api.conventions import Time, Words
from palaver.server.api.evaluation_views import CaseCallView, ScoreView, TurnView

ReviewState = Literal["open", "closed"]
ItemState = Literal["open", "done", "gone"]
"""Somebody is still to be asked; as many have answered as are wanted; what it is about is no longer there."""
Reviewer = Annotated[str, Meta(min_length=1, max_length=100, pattern=NAME_PATTERN)]
Name = Annotated[str, Meta(max_length=200, pattern=NAME_PATTERN)]


class NewReview(msgspec.Struct, frozen=True, kw_only=True):
    """What people are to be asked, and about what."""

    name: Name = ""
    items: WantedItems
    questions: Questions | None = None
    """Left out: those of the run's `human` evaluators."""
    reviewers: Annotated[int, Meta(ge=1, le=50)] = 1
    """How many are to answer each item."""
    blind: bool = True
    """Show neither scores nor which variant answered, and what was expected only to who asks for it."""


class ReviewPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What may be changed of it."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=NAME_PATTERN)] | None = None
    state: ReviewState | None = None
    """One that is closed takes no answers."""


class ReviewHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a row of the list and the whole have in common."""

    id: str
    name: str
    state: ReviewState
    run: str | None
    """The evaluation whose results are reviewed; null: traces are."""
    reviewers: int
    blind: bool
    items: int
    answers: int
    """That were ever given, corrections included."""
    key: str | None
    created_at: Time
    updated_at: Time


class ReviewRow(ReviewHead, frozen=True, kw_only=True):
    """One row of the list."""

    questions: list[str]
    """Their keys."""


class WorkedView(msgspec.Struct, frozen=True, kw_only=True):
    """What one reviewer did."""

    reviewer: str
    answered: int
    skipped: int


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is."""

    items: int
    gone: int
    """Those whose result or trace is no longer there: nobody is asked about them."""
    done: int
    """Those that as many have answered as are wanted."""
    answers: int
    """One for each reviewer and item,"""
    wanted: int
    """of so many."""
    reviewers: list[WorkedView]


class ReviewView(ReviewHead, frozen=True, kw_only=True):
    """All of one."""

    questions: list[Question]
    source: Mapping[str, Any]
    """What was asked to be reviewed."""
    progress: ProgressView


# Items


class ContentView(msgspec.Struct, frozen=True, kw_only=True):
    """What an item is about, as a person looks at it."""

    inputs: Mapping[str, Any]
    expected: Any | UnsetType = UNSET
    """No key: nobody said what to expect, or the review is blind."""
    has_expected: bool
    """Did somebody say what to expect?"""
    history: Sequence[Message]
    """What was asked."""
    messages: Sequence[Message]
    """What was answered, in all turns."""
    value: Any | UnsetType = UNSET
    """A workflow's value; no key for a chat."""
    text: str
    tool_calls: Sequence[CaseCallView]
    turns: Sequence[TurnView]
    is_chat: bool
    variant: str | None
    """Which answered; null in a blind review."""
    scores: list[ScoreView]
    """What evaluators say; none in a blind review."""


class ExpectedView(msgspec.Struct, frozen=True, kw_only=True):
    """What was expected of what an item is about."""

    expected: Any | UnsetType = UNSET
    """No key: nobody said what to expect."""


class AnnotationView(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said of an item. It is never changed: a correction is another one."""

    number: int
    """In the order in which they were given."""
    item: str
    reviewer: str
    answers: Mapping[str, Any]
    comment: str
    counts: bool
    """Has this reviewer said nothing of the item since?"""
    created_at: Time


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list of items."""

    id: str
    """`item_3`: of this review."""
    state: ItemState
    result: str | None
    """The cell of the run."""
    trace_id: str | None
    """Both are null to who is asked in a blind review: they lead to what it does not show."""
    answered: int
    annotations: list[AnnotationView]


class ItemView(ItemRow, frozen=True, kw_only=True):
    """All of one. Whoever is asked about it is not shown what others said."""

    content: ContentView | None
    """Null: it is gone."""


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody is asked next."""

    item: ItemView | None
    """Null: there is nothing left for them, or others hold what is."""
    until: Time | None
    """So long it is kept for them."""
    reviewer: str
    """Whose answers these will be."""
    progress: ProgressView


class NewAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says of an item."""

    answers: dict[str, Any]
    """By the key of the question."""
    comment: Words = ""
    reviewer: Reviewer | None = None
    """Who says it, where the server has no keys."""


class ByWhom(msgspec.Struct, frozen=True, kw_only=True):
    """Who it is, where the server has no keys."""

    reviewer: Reviewer | None = None


class Agreements(msgspec.Struct, frozen=True):
    """By question: each pair of reviewers, then each reviewer beside each judge of the run."""

    data: list[Agreement]
