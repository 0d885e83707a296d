"""Reviews and their items, from how they are kept to how they are shown."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.errors import NotFound
from palaver.evaluation.case import Case, Turn
from palaver.evaluation.live.trace_cases import read_trace_case
from palaver.evaluation.plan.plan import format_cell_id
from palaver.evaluation.review_questions import Question
from palaver.server.api import evaluation_shown as shown
from palaver.server.api.conventions import told_time
from palaver.server.api.evaluation_views import CaseCallView, ResultView, TurnView
from palaver.server.api.review_views import (
    AnnotationView,
    ContentView,
    ExpectedView,
    ItemRow,
    ItemView,
    ProgressView,
    ReviewRow,
    ReviewView,
    WorkedView,
)
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.reviews import Review, ReviewAnswer, ReviewItem, ReviewProgress

_NOWHERE: dict[str, Any] = {"repeats": [], "others": {}, "previous": None, "next": None}


def questions_of(review: Review) -> list[Question]:
    """What is asked in it."""
    return msgspec.convert(review.questions, list[Question])


def row(review: Review) -> ReviewRow:
    """One as a row of the list."""
    return ReviewRow(**_head(review), questions=[question.key for question in questions_of(review)])


def view(review: Review, done: ReviewProgress) -> ReviewView:
    """One as a whole."""
    return ReviewView(**_head(review), questions=questions_of(review), source=review.source, progress=progress(done))


def progress(done: ReviewProgress) -> ProgressView:
    """How far one is."""
    worked = [WorkedView(**msgspec.structs.asdict(one)) for one in done.reviewers]
    fields: dict[str, Any] = {**msgspec.structs.asdict(done), "reviewers": worked}
    return ProgressView(**fields)


def _head(review: Review) -> dict[str, Any]:
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
        "created_at": told_time(review.created_at),
        "updated_at": told_time(review.updated_at),
    }


# Items


def item_id(place: int) -> str:
    """An item's place as others write it: `item_3`. It is one of its review, not of all."""
    return f"item_{place}"


def read_item_id(text: str) -> int:
    """The place again; NotFound for what is none."""
    digits = text.removeprefix("item_")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or (digits != "0" and digits[0] == "0"):
        raise NotFound(f"There is no item {text[:80]!r}.")
    return int(digits)


def item_row(review: Review, item: ReviewItem, said: Sequence[ReviewAnswer]) -> ItemRow:
    """An item as a row of the list."""
    return ItemRow(**_item(review, item, said))


def item_view(review: Review, item: ReviewItem, said: Sequence[ReviewAnswer], content: ContentView | None) -> ItemView:
    """An item as a whole."""
    there = item if content is not None else replace(item, gone=True)
    return ItemView(**_item(review, there, said), content=content)


def asked(review: Review, item: ReviewItem, content: ContentView | None) -> ItemView:
    """An item as somebody is asked about it: without what others said and, in a blind review, without ways to more."""
    seen = replace(item, cell=None, trace=None) if review.blind else item
    return item_view(review, seen, [], content)


def _item(review: Review, item: ReviewItem, said: Sequence[ReviewAnswer]) -> dict[str, Any]:
    return {
        "id": item_id(item.place),
        "state": "gone" if item.gone else "done" if item.answered >= review.reviewers else "open",
        "result": None if item.cell is None else format_cell_id(item.cell),
        "trace_id": item.trace,
        "answered": item.answered,
        "annotations": annotations(said),
    }


def annotations(said: Sequence[ReviewAnswer]) -> list[AnnotationView]:
    """What was said of one item, in the order in which it was."""
    last = {one.reviewer: one.number for one in said}
    return [annotation(one, counts=last[one.reviewer] == one.number) for one in said]


def annotation(one: ReviewAnswer, *, counts: bool) -> AnnotationView:
    """What somebody said."""
    return AnnotationView(
        number=one.number,
        item=item_id(one.place),
        reviewer=one.reviewer,
        answers=one.answers,
        comment=one.comment,
        counts=counts,
        created_at=told_time(one.created_at),
    )


# What they are about


def content(db: Connection, project: str, review: Review, item: ReviewItem) -> ContentView | None:
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


def expected(db: Connection, project: str, review: Review, item: ReviewItem) -> ExpectedView:
    """What was expected, in a blind review too; NotFound if what it is about is gone. Of a trace nobody said it."""
    if review.evaluation is None:
        return ExpectedView()
    seen = None if item.gone else _result(db, project, review.evaluation, item)
    if seen is None:
        raise NotFound(f"What {item_id(item.place)} is about is gone.")
    return ExpectedView(expected=seen.expected)


def _result(db: Connection, project: str, evaluation: str, item: ReviewItem) -> ResultView | None:
    """The result that an item is about; None if it is gone. One that was run again is another one."""
    try:
        _, kept = evaluations.get_plan(db, project, evaluation)
        whole = evaluation_pages.get_result(db, project, evaluation, item.cell or 0)
    except NotFound:
        return None
    return None if whole.result.seq != item.seq else shown.result_view(whole, shown.plan_of(kept), **_NOWHERE)


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
