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
from palaver.evaluation.reviews import Agreement, ItemSelection
from palaver.server.api import evaluation_views
from palaver.server.api.conventions import FreeText, Timestamp, make_view
from palaver.server.api.evaluation_views import CaseCallView, ResultView, ScoreView, TurnView
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as result_store
from palaver.storage.evaluations.reviews import Review, ReviewAnswer, ReviewItem, ReviewProgress

ReviewState = Literal["open", "closed"]
ItemState = Literal["open", "done", "gone"]
"""`done`: enough reviewers have answered; `gone`: its result or trace was deleted."""
Reviewer = Annotated[str, Meta(min_length=1, max_length=100, pattern=NAME_PATTERN)]
Name = Annotated[str, Meta(max_length=200, pattern=NAME_PATTERN)]


class NewReview(msgspec.Struct, frozen=True, kw_only=True):
    """A review to create: the items to review, and the questions to answer."""

    name: Name = ""
    items: ItemSelection
    """The items to review. They are selected once, when the review is created."""
    questions: Questions | None = None
    """Defaults to the questions of the evaluation's `human` evaluators."""
    reviewers: Annotated[int, Meta(ge=1, le=50)] = 1
    """Number of reviewers who should answer each item."""
    blind: bool = True
    """Hide scores and variants, and show expected answers only on request."""


class ReviewPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a review. Omitted fields are not changed."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=NAME_PATTERN)] | None = None
    state: ReviewState | None = None
    """Closed reviews accept no answers."""


class ReviewHead(msgspec.Struct, frozen=True, kw_only=True):
    """The fields shared by ReviewRow and ReviewView."""

    id: str
    name: str
    state: ReviewState
    run: str | None
    """The evaluation whose results are reviewed; null for a review of traces."""
    reviewers: int
    blind: bool
    items: int
    answers: int
    """Number of answers, including corrections."""
    key: str | None
    created_at: Timestamp
    updated_at: Timestamp


class ReviewRow(ReviewHead, frozen=True, kw_only=True):
    """A review in a list."""

    questions: list[str]
    """Keys of the questions."""


class ReviewerProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one reviewer."""

    reviewer: str
    answered: int
    skipped: int


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a review."""

    items: int
    gone: int
    """Number of items whose result or trace was deleted; reviewers do not get them."""
    done: int
    """Number of items with enough answers."""
    answers: int
    """Number of answers so far, one per reviewer and item."""
    wanted: int
    """Number of answers needed in total."""
    reviewers: list[ReviewerProgressView]


class ReviewView(ReviewHead, frozen=True, kw_only=True):
    """A review with its questions and progress."""

    questions: list[Question]
    source: Mapping[str, Any]
    """The selection that the review was created from."""
    progress: ProgressView


# Items


class ContentView(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an item, as shown to a reviewer."""

    inputs: Mapping[str, Any]
    expected: Any | UnsetType = UNSET
    """Absent if there is no expected answer, or if the review is blind."""
    has_expected: bool
    """Whether there is an expected answer."""
    history: Sequence[Message]
    """The messages that were sent."""
    messages: Sequence[Message]
    """The messages of the answer to review, from all turns."""
    value: Any | UnsetType = UNSET
    """The value that the workflow returned; absent if the workflow is a chat."""
    text: str
    tool_calls: Sequence[CaseCallView]
    turns: Sequence[TurnView]
    is_chat: bool
    variant: str | None
    """The variant that answered; null in a blind review."""
    scores: list[ScoreView]
    """The evaluators' scores; empty in a blind review."""


class ExpectedView(msgspec.Struct, frozen=True, kw_only=True):
    """The expected answer of an item."""

    expected: Any | UnsetType = UNSET
    """Absent if there is no expected answer."""


class AnnotationView(msgspec.Struct, frozen=True, kw_only=True):
    """A reviewer's answer for an item. Answers are never changed; a correction is a new answer."""

    number: int
    """Increases with every answer."""
    item: str
    reviewer: str
    answers: Mapping[str, Any]
    comment: str
    counts: bool
    """Whether this is the reviewer's latest answer for the item."""
    created_at: Timestamp


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """An item in a list."""

    id: str
    """For example `item_3`; unique within the review."""
    state: ItemState
    result: str | None
    """Id of the evaluation result, such as `cell_42`."""
    trace_id: str | None
    """In a blind review, `result` and `trace_id` are null for reviewers, because they lead to hidden data."""
    answered: int
    annotations: list[AnnotationView]


class ItemView(ItemRow, frozen=True, kw_only=True):
    """An item with its content. Reviewers don't see other reviewers' answers."""

    content: ContentView | None
    """Null if its result or trace was deleted."""


class NextItem(msgspec.Struct, frozen=True, kw_only=True):
    """The next item for a reviewer."""

    item: ItemView | None
    """Null if all items are answered, or reserved for other reviewers."""
    until: Timestamp | None
    """When the reviewer's reservation of the item ends."""
    reviewer: str
    """The reviewer under whose name answers will be stored."""
    progress: ProgressView


class NewAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """Answers for an item."""

    answers: dict[str, Any]
    """Answers by question key."""
    comment: FreeText = ""
    """Free-text comment."""
    reviewer: Reviewer | None = None
    """The reviewer's name, on a server without keys."""


class ReviewerInput(msgspec.Struct, frozen=True, kw_only=True):
    """The reviewer, on a server without keys."""

    reviewer: Reviewer | None = None
    """Your name, on a server without keys."""


class Agreements(msgspec.Struct, frozen=True):
    """Agreement by question: between each pair of reviewers, then between each reviewer and each judge."""

    data: list[Agreement]


_NO_RELATED_RESULTS: dict[str, Any] = {"repeats": [], "others": {}, "previous": None, "next": None}


def decode_questions(review: Review) -> list[Question]:
    return msgspec.convert(review.questions, list[Question])


def review_row(review: Review) -> ReviewRow:
    return make_view(
        ReviewRow, review, **_head_fields(review), questions=[question.key for question in decode_questions(review)]
    )


def review_view(review: Review, progress: ReviewProgress) -> ReviewView:
    return make_view(
        ReviewView,
        review,
        **_head_fields(review),
        questions=decode_questions(review),
        progress=progress_view(progress),
    )


def progress_view(progress: ReviewProgress) -> ProgressView:
    reviewers = [make_view(ReviewerProgressView, reviewer) for reviewer in progress.reviewers]
    return make_view(ProgressView, progress, reviewers=reviewers)


def _head_fields(review: Review) -> dict[str, Any]:
    """Return the fields of ReviewHead that are not stored as they are shown."""
    key = None if review.key is None else format_key_id(review.key)
    return {"run": review.evaluation, "items": review.total, "key": key}


def format_item_id(position: int) -> str:
    """Format an id such as `item_3`, which is unique within its review only."""
    return f"item_{position}"


def parse_item_id(text: str) -> int:
    """Parse an item id. Raises NotFound if it is malformed."""
    digits = text.removeprefix("item_")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or (digits != "0" and digits[0] == "0"):
        raise NotFound(f"Item {text[:80]!r} not found.")
    return int(digits)


def item_row(review: Review, item: ReviewItem, answers: Sequence[ReviewAnswer]) -> ItemRow:
    return ItemRow(**_item_fields(review, item, answers))


def item_view(
    review: Review, item: ReviewItem, answers: Sequence[ReviewAnswer], content: ContentView | None
) -> ItemView:
    item = item if content is not None else replace(item, gone=True)
    return ItemView(**_item_fields(review, item, answers), content=content)


def reviewer_item_view(review: Review, item: ReviewItem, content: ContentView | None) -> ItemView:
    """Return the item without others' answers and, in a blind review, without references to its source."""
    item = replace(item, cell=None, trace=None) if review.blind else item
    return item_view(review, item, [], content)


def _item_fields(review: Review, item: ReviewItem, answers: Sequence[ReviewAnswer]) -> dict[str, Any]:
    return {
        "id": format_item_id(item.place),
        "state": "gone" if item.gone else "done" if item.answered >= review.reviewers else "open",
        "result": None if item.cell is None else format_cell_id(item.cell),
        "trace_id": item.trace,
        "answered": item.answered,
        "annotations": annotation_views(answers),
    }


def annotation_views(answers: Sequence[ReviewAnswer]) -> list[AnnotationView]:
    last = {answer.reviewer: answer.number for answer in answers}
    return [annotation_view(answer, counts=last[answer.reviewer] == answer.number) for answer in answers]


def annotation_view(answer: ReviewAnswer, *, counts: bool) -> AnnotationView:
    return make_view(AnnotationView, answer, item=format_item_id(answer.place), counts=counts)


def content_view(db: Connection, project: str, review: Review, item: ReviewItem) -> ContentView | None:
    """Return what the review shows of an item; None if its result or trace is gone."""
    if item.gone:
        return None
    if review.evaluation is None:
        case = None if item.trace is None else read_trace_case(db, project, item.trace)
        return None if case is None else _case_content(case, blind=review.blind)
    result = _load_result(db, project, review.evaluation, item)
    if result is None:
        return None
    return make_view(
        ContentView,
        result,
        expected=UNSET if review.blind else result.expected,
        has_expected=result.expected is not UNSET,
        turns=[replace(turn, expect=None) for turn in result.turns] if review.blind else result.turns,
        variant=None if review.blind else result.variant,
        scores=[] if review.blind else result.scores,
    )


def expected_view(db: Connection, project: str, review: Review, item: ReviewItem) -> ExpectedView:
    """Return the expected answer, in a blind review too. Raises NotFound if the result is gone; traces have none."""
    if review.evaluation is None:
        return ExpectedView()
    result = None if item.gone else _load_result(db, project, review.evaluation, item)
    if result is None:
        raise NotFound(f"The result of {format_item_id(item.place)!r} was deleted or rerun.")
    return ExpectedView(expected=result.expected)


def _load_result(db: Connection, project: str, evaluation: str, item: ReviewItem) -> ResultView | None:
    """Return the item's result; None if it was deleted or rerun."""
    try:
        _, stored_plan = evaluations.get_plan(db, project, evaluation)
        stored = result_store.get_result(db, project, evaluation, item.cell or 0)
    except NotFound:
        return None
    if stored.result.seq != item.seq:
        return None
    return evaluation_views.result_view(stored, evaluation_views.decode_plan(stored_plan), **_NO_RELATED_RESULTS)


def _case_content(case: Case, *, blind: bool) -> ContentView:
    return make_view(
        ContentView,
        case,
        expected=UNSET,
        has_expected=False,
        tool_calls=_call_views(case),
        turns=[_turn_view(turn) for turn in case.turns],
        is_chat=case.flags.is_chat,
        variant=None if blind else case.variant or None,
        scores=[],
    )


def _call_views(holder: Case | Turn) -> list[CaseCallView]:
    return [CaseCallView(**msgspec.structs.asdict(call)) for call in holder.tool_calls]


def _turn_view(turn: Turn) -> TurnView:
    return TurnView(
        user=turn.user,
        messages=turn.messages,
        text=turn.text,
        notes=sorted(turn.notes),
        tool_calls=_call_views(turn),
        value=turn.value,
        usage=None if turn.usage is None else msgspec.to_builtins(turn.usage),
        latency_seconds=turn.latency,
        first_output_seconds=turn.first_output,
        finish=turn.finish,
    )
