"""Reviews and their items as the REST API returns them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.core.messages import Message
from palaver.errors import NotFound
from palaver.evaluation.case import Case, Turn
from palaver.evaluation.live.trace_cases import read_trace_case
from palaver.evaluation.plan.plan import format_cell_id
from palaver.evaluation.plan.request import NAME_PATTERN
from palaver.evaluation.review_questions import Question, Questions
from palaver.evaluation.reviews import Agreement, WantedItems
from palaver.server.api import evaluation_views as shown
from palaver.server.api.conventions import FreeText, Timestamp, format_timestamp
from palaver.server.api.evaluation_views import CaseCallView, ResultView, ScoreView, TurnView
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.reviews import Review, ReviewAnswer, ReviewItem, ReviewProgress

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
    created_at: Timestamp
    updated_at: Timestamp


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
    created_at: Timestamp


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
    until: Timestamp | None
    """So long it is kept for them."""
    reviewer: str
    """Whose answers these will be."""
    progress: ProgressView


class NewAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says of an item."""

    answers: dict[str, Any]
    """By the key of the question."""
    comment: FreeText = ""
    reviewer: Reviewer | None = None
    """Who says it, where the server has no keys."""


class ByWhom(msgspec.Struct, frozen=True, kw_only=True):
    """Who it is, where the server has no keys."""

    reviewer: Reviewer | None = None


class Agreements(msgspec.Struct, frozen=True):
    """By question: each pair of reviewers, then each reviewer beside each judge of the run."""

    data: list[Agreement]


_NOWHERE: dict[str, Any] = {"repeats": [], "others": {}, "previous": None, "next": None}


def decode_questions(review: Review) -> list[Question]:
    """What is asked in it."""
    return msgspec.convert(review.questions, list[Question])


def review_row(review: Review) -> ReviewRow:
    return ReviewRow(**_head_fields(review), questions=[question.key for question in decode_questions(review)])


def review_view(review: Review, done: ReviewProgress) -> ReviewView:
    """One as a whole."""
    return ReviewView(
        **_head_fields(review), questions=decode_questions(review), source=review.source, progress=progress_view(done)
    )


def progress_view(done: ReviewProgress) -> ProgressView:
    """How far one is."""
    worked = [WorkedView(**msgspec.structs.asdict(one)) for one in done.reviewers]
    fields: dict[str, Any] = {**msgspec.structs.asdict(done), "reviewers": worked}
    return ProgressView(**fields)


def _head_fields(review: Review) -> dict[str, Any]:
    return {
        "id": review.id,
        "name": review.name,
        "state": review.state,
        "run": review.evaluation,
        "reviewers": review.reviewers,
        "blind": review.blind,
        "items": review.total,
        "answers": review.answers,
        "key": None if review.key is None else format_key_id(review.key),
        "created_at": format_timestamp(review.created_at),
        "updated_at": format_timestamp(review.updated_at),
    }


# Items


def format_item_id(place: int) -> str:
    """An item's place as others write it: `item_3`. It is one of its review, not of all."""
    return f"item_{place}"


def parse_item_id(text: str) -> int:
    """The place again; NotFound for what is none."""
    digits = text.removeprefix("item_")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or (digits != "0" and digits[0] == "0"):
        raise NotFound(f"There is no item {text[:80]!r}.")
    return int(digits)


def item_row(review: Review, item: ReviewItem, said: Sequence[ReviewAnswer]) -> ItemRow:
    return ItemRow(**_item(review, item, said))


def item_view(review: Review, item: ReviewItem, said: Sequence[ReviewAnswer], content: ContentView | None) -> ItemView:
    there = item if content is not None else replace(item, gone=True)
    return ItemView(**_item(review, there, said), content=content)


def asked(review: Review, item: ReviewItem, content: ContentView | None) -> ItemView:
    """An item as somebody is asked about it: without what others said and, in a blind review, without ways to more."""
    seen = replace(item, cell=None, trace=None) if review.blind else item
    return item_view(review, seen, [], content)


def _item(review: Review, item: ReviewItem, said: Sequence[ReviewAnswer]) -> dict[str, Any]:
    return {
        "id": format_item_id(item.place),
        "state": "gone" if item.gone else "done" if item.answered >= review.reviewers else "open",
        "result": None if item.cell is None else format_cell_id(item.cell),
        "trace_id": item.trace,
        "answered": item.answered,
        "annotations": annotation_views(said),
    }


def annotation_views(said: Sequence[ReviewAnswer]) -> list[AnnotationView]:
    """What was said of one item, in the order in which it was."""
    last = {one.reviewer: one.number for one in said}
    return [annotation_view(one, counts=last[one.reviewer] == one.number) for one in said]


def annotation_view(one: ReviewAnswer, *, counts: bool) -> AnnotationView:
    """What somebody said."""
    return AnnotationView(
        number=one.number,
        item=format_item_id(one.place),
        reviewer=one.reviewer,
        answers=one.answers,
        comment=one.comment,
        counts=counts,
        created_at=format_timestamp(one.created_at),
    )


# What they are about


def content_view(db: Connection, project: str, review: Review, item: ReviewItem) -> ContentView | None:
    """What an item is about, as far as the review shows it; None if it is gone."""
    if item.gone:
        return None
    if review.evaluation is None:
        case = None if item.trace is None else read_trace_case(db, project, item.trace)
        return None if case is None else _of_case(case, blind=review.blind)
    seen = _result(db, project, review.evaluation, item)
    if seen is None:
        return None
    return ContentView(
        inputs=seen.inputs,
        expected=UNSET if review.blind else seen.expected,
        has_expected=seen.expected is not UNSET,
        history=seen.history,
        messages=seen.messages,
        value=seen.value,
        text=seen.text,
        tool_calls=seen.tool_calls,
        turns=[replace(turn, expect=None) for turn in seen.turns] if review.blind else seen.turns,
        is_chat=seen.is_chat,
        variant=None if review.blind else seen.variant,
        scores=[] if review.blind else seen.scores,
    )


def expected_view(db: Connection, project: str, review: Review, item: ReviewItem) -> ExpectedView:
    """What was expected, in a blind review too; NotFound if what it is about is gone. Of a trace nobody said it."""
    if review.evaluation is None:
        return ExpectedView()
    seen = None if item.gone else _result(db, project, review.evaluation, item)
    if seen is None:
        raise NotFound(f"What {format_item_id(item.place)} is about is gone.")
    return ExpectedView(expected=seen.expected)


def _result(db: Connection, project: str, evaluation: str, item: ReviewItem) -> ResultView | None:
    """The result that an item is about; None if it is gone. One that was run again is another one."""
    try:
        _, stored_plan = evaluations.get_plan(db, project, evaluation)
        whole = evaluation_pages.get_result(db, project, evaluation, item.cell or 0)
    except NotFound:
        return None
    return (
        None if whole.result.seq != item.seq else shown.result_view(whole, shown.decode_plan(stored_plan), **_NOWHERE)
    )


def _of_case(case: Case, *, blind: bool) -> ContentView:
    return ContentView(
        inputs=case.inputs,
        has_expected=False,
        history=case.history,
        messages=case.messages,
        value=case.value,
        text=case.text,
        tool_calls=_calls(case),
        turns=[_turn(turn) for turn in case.turns],
        is_chat=case.flags.is_chat,
        variant=None if blind else case.variant or None,
        scores=[],
    )


def _calls(holder: Case | Turn) -> list[CaseCallView]:
    return [CaseCallView(**msgspec.structs.asdict(call)) for call in holder.tool_calls]


def _turn(turn: Turn) -> TurnView:
    return TurnView(
        user=turn.user,
        messages=turn.messages,
        text=turn.text,
        notes=sorted(turn.notes),
        tool_calls=_calls(turn),
        value=turn.value,
        usage=None if turn.usage is None else msgspec.to_builtins(turn.usage),
        latency_seconds=turn.latency,
        first_output_seconds=turn.first_output,
        finish=turn.finish,
    )
