"""/api/reviews: human reviews, and the items that reviewers answer."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.plan.request import NAME_PATTERN
from palaver.evaluation.review_questions import check_answers, check_questions
from palaver.evaluation.reviews import (
    find_score_slots,
    human_questions,
    measure_agreement,
    select_items,
    store_review_score,
)
from palaver.protocols.base import HttpResponse
from palaver.server.api import review_views as views
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Search,
    caller_of,
    encode_object,
    find_replay,
    format_timestamp,
    new_id,
    object_response,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_views import decode_plan
from palaver.server.api.trace_views import TraceQueryRunner
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import reviews
from palaver.storage.evaluations.reviews import Review, ReviewFilters, ReviewItem
from palaver.storage.pagination import Page, Window

JUDGE = "llm_judge"
"""The evaluator whose verdicts reviewers are compared with."""
InState = Annotated[str | None, QueryParameter(name="state", description="`open` or `closed`.")]
"""Validated by the handler: Litestar reserves the parameter name `state`."""


class ReviewController(ApiController):
    path = "/api/reviews"

    database: Database
    settings: Settings
    run_query: TraceQueryRunner

    @post(
        operation_id="create_review",
        summary="Create a review of evaluation results or traces",
        operation_class=operation_with_body(views.NewReview),
    )
    async def create_review(self, request: ApiRequest) -> Response[views.ReviewView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, views.NewReview)
        if (replay := await find_replay(request, self.database, raw)) is not None:
            return replay
        check_questions(body.questions or (), "/questions")
        selection = await self.run_query(None, select_items, caller.project, body.items)
        questions = body.questions or ([] if selection.plan is None else human_questions(selection.plan))
        if not questions:
            raise InvalidValue(
                "Missing questions: specify at least one, or review an evaluation with a 'human' evaluator.",
                pointer="/questions",
            )
        now = utc_now()
        review = Review(
            id=new_id("rv"),
            name=body.name or _default_name(selection.plan.name if selection.plan else "", len(selection.items)),
            evaluation=selection.evaluation,
            reviewers=body.reviewers,
            blind=body.blind,
            total=len(selection.items),
            key=caller.key,
            created_at=now,
            updated_at=now,
            questions=msgspec.to_builtins(questions),
            source=msgspec.to_builtins(body.items),
        )

        def work(db: Connection) -> HttpResponse:
            reviews.create_review(db, caller.project, review, selection.items)
            location = f"{self.settings.root_path}/api/reviews/{review.id}"
            return encode_object(_review_with_progress(db, caller.project, review), status=201, location=location)

        return await run_idempotent(request, self.database, raw, work)

    @get(operation_id="list_reviews", summary="List reviews, newest first")
    async def list_reviews(
        self,
        request: ApiRequest,
        search: Search = None,
        in_state: InState = None,
        run: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[views.ReviewRow]:
        if in_state not in (None, "open", "closed"):
            raise InvalidValue("state must be open or closed.", pointer="?state")
        filters = ReviewFilters(state=in_state, evaluation=run, search=search)
        page = await self.database.read(reviews.list_reviews, caller_of(request).project, filters, Window(limit, after))
        return page.map(views.review_row)

    @get("/{review:str}", operation_id="get_review", summary="Get a review and its progress")
    async def get_review(self, request: ApiRequest, review: FromPath[str]) -> Response[views.ReviewView]:
        return object_response(request, await self.database.read(_load_review, caller_of(request).project, review))

    @patch(
        "/{review:str}",
        operation_id="change_review",
        summary="Rename, close or reopen a review",
        operation_class=operation_with_body(views.ReviewPatch),
    )
    async def change_review(self, request: ApiRequest, review: FromPath[str]) -> Response[views.ReviewView]:
        _, body = await read_body(request, self.settings, views.ReviewPatch)
        return object_response(
            request, await self.database.write(_change_review, caller_of(request).project, review, body)
        )

    @delete("/{review:str}", operation_id="delete_review", summary="Delete a review with all its answers")
    async def delete_review(self, request: ApiRequest, review: FromPath[str]) -> None:
        await self.database.write(reviews.delete_review, caller_of(request).project, review)

    @get(
        "/{review:str}/agreement",
        operation_id="get_review_agreement",
        summary="Get the agreement of reviewers with each other and with LLM judges",
    )
    async def get_review_agreement(self, request: ApiRequest, review: FromPath[str]) -> Response[views.Agreements]:
        return object_response(request, await self.database.read(_load_agreement, caller_of(request).project, review))


def _default_name(run: str, items: int) -> str:
    return (f"Review of {run}" if run else f"Review of {items} trace{'s' * (items != 1)}")[:200]


def _load_review(db: Connection, project: str, review: str) -> views.ReviewView:
    return _review_with_progress(db, project, reviews.get_review(db, project, review))


def _review_with_progress(db: Connection, project: str, review: Review) -> views.ReviewView:
    return views.review_view(review, reviews.get_progress(db, project, review))


def _change_review(db: Connection, project: str, review: str, body: views.ReviewPatch) -> views.ReviewView:
    updated = reviews.update_review(db, project, review, utc_now(), name=body.name, state=body.state)
    return _review_with_progress(db, project, updated)


def _load_agreement(db: Connection, project: str, review: str) -> views.Agreements:
    stored_review = reviews.get_review(db, project, review)
    answers: dict[str, dict[int, dict[str, object]]] = {}
    for (position, reviewer), answer in reviews.latest_answers(db, project, review).items():
        answers.setdefault(reviewer, {})[position] = answer.answers
    judges = (
        {}
        if stored_review.evaluation is None
        else reviews.load_verdicts(db, project, stored_review, _judge_indexes(db, project, stored_review))
    )
    return views.Agreements(measure_agreement(views.decode_questions(stored_review), answers, judges))


def _judge_indexes(db: Connection, project: str, review: Review) -> list[int]:
    """Return the indexes of the run's LLM judges; empty if the run was deleted."""
    stored_plans = evaluations.get_plans(db, project, [review.evaluation or ""])
    plans = [decode_plan(plan) for plan in stored_plans.values()]
    return [index for plan in plans for index, evaluator in enumerate(plan.evaluators) if evaluator.key == JUDGE]


UNNAMED_REVIEWER = "anonymous"
"""The reviewer of a server without keys, if the request names none."""
ReviewerName = Annotated[
    str | None,
    QueryParameter(
        name="reviewer",
        min_length=1,
        max_length=100,
        pattern=NAME_PATTERN,
        description="The reviewer's name, on a server without keys.",
    ),
]


class ReviewItemController(ApiController):
    path = "/api/reviews"

    database: Database
    settings: Settings

    @get(
        "/{review:str}/next",
        operation_id="next_review_item",
        summary="Get your next item, which is reserved for you for ten minutes",
    )
    async def next_review_item(
        self, request: ApiRequest, review: FromPath[str], who: ReviewerName = None
    ) -> views.NextItem:
        return await self.database.write(_next_item, caller_of(request).project, review, reviewer_of(request, who))

    @get(
        "/{review:str}/items",
        operation_id="list_review_items",
        summary="List items with their answers",
    )
    async def list_review_items(
        self, request: ApiRequest, review: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Page[views.ItemRow]:
        return await self.database.read(_list_items, caller_of(request).project, review, Window(limit, after))

    @get(
        "/{review:str}/items/{item:str}",
        operation_id="get_review_item",
        summary="Get an item with its content",
    )
    async def get_review_item(
        self, request: ApiRequest, review: FromPath[str], item: FromPath[str]
    ) -> Response[views.ItemView]:
        return object_response(request, await self.database.read(_get_item, caller_of(request).project, review, item))

    @get(
        "/{review:str}/items/{item:str}/expected",
        operation_id="get_review_item_expected",
        summary="Get the expected answer of an item, even in a blind review",
    )
    async def get_review_item_expected(
        self, request: ApiRequest, review: FromPath[str], item: FromPath[str]
    ) -> Response[views.ExpectedView]:
        return object_response(
            request, await self.database.read(_get_expected, caller_of(request).project, review, item)
        )

    @post(
        "/{review:str}/items/{item:str}/answers",
        operation_id="answer_review_item",
        summary="Answer an item; only a reviewer's latest answer counts",
        operation_class=operation_with_body(views.NewAnnotation),
    )
    async def answer_review_item(
        self, request: ApiRequest, review: FromPath[str], item: FromPath[str]
    ) -> Response[views.AnnotationView]:
        raw, body = await read_body(request, self.settings, views.NewAnnotation)
        project, reviewer = caller_of(request).project, reviewer_of(request, body.reviewer)

        def work(db: Connection) -> HttpResponse:
            return encode_object(_save_answer(db, project, review, item, reviewer, body), status=201)

        return await run_idempotent(request, self.database, raw, work)

    @post(
        "/{review:str}/items/{item:str}/skip",
        operation_id="skip_review_item",
        summary="Skip an item permanently",
        status_code=200,
        operation_class=operation_with_body(views.ReviewerInput),
    )
    async def skip_review_item(
        self, request: ApiRequest, review: FromPath[str], item: FromPath[str]
    ) -> Response[views.ProgressView]:
        return await self._end_lease(request, review, item, reviews.skip_item)

    @post(
        "/{review:str}/items/{item:str}/release",
        operation_id="release_review_item",
        summary="Release an item to other reviewers",
        status_code=200,
        operation_class=operation_with_body(views.ReviewerInput),
    )
    async def release_review_item(
        self, request: ApiRequest, review: FromPath[str], item: FromPath[str]
    ) -> Response[views.ProgressView]:
        return await self._end_lease(request, review, item, reviews.release_item)

    async def _end_lease(
        self, request: ApiRequest, review: str, item: str, end: Callable[..., None]
    ) -> Response[views.ProgressView]:
        _, body = await read_body(request, self.settings, views.ReviewerInput)
        project, reviewer = caller_of(request).project, reviewer_of(request, body.reviewer)

        def work(db: Connection) -> views.ProgressView:
            stored_review = reviews.lock_review(db, project, review)
            end(db, project, stored_review, views.parse_item_id(item), reviewer, utc_now())
            return views.progress_view(reviews.get_progress(db, project, stored_review))

        return object_response(request, await self.database.write(work))


def reviewer_of(request: ApiRequest, name: str | None) -> str:
    """Return the caller's key id; on a server without keys, the submitted name."""
    key = caller_of(request).key
    return format_key_id(key) if key is not None else name or UNNAMED_REVIEWER


def _next_item(db: Connection, project: str, review: str, reviewer: str) -> views.NextItem:
    stored_review, now = reviews.lock_review(db, project, review), utc_now()
    item: views.ItemView | None = None
    while (lease := reviews.lease_next_item(db, project, stored_review, reviewer, now)) is not None:
        content = views.content_view(db, project, stored_review, lease.item)
        item = views.reviewer_item_view(stored_review, lease.item, content)
        if item.content is not None:
            break
        reviews.mark_item_gone(db, project, review, lease.item.place)
    return views.NextItem(
        item=None if lease is None else item,
        until=None if lease is None else format_timestamp(lease.until),
        reviewer=reviewer,
        progress=views.progress_view(reviews.get_progress(db, project, stored_review)),
    )


def _list_items(db: Connection, project: str, review: str, window: Window) -> Page[views.ItemRow]:
    stored_review = reviews.get_review(db, project, review)
    page = reviews.list_items(db, project, review, window)
    answers = reviews.list_answers(db, project, review, [item.place for item in page.data])
    return page.map(lambda item: views.item_row(stored_review, item, answers[item.place]))


def _get_item(db: Connection, project: str, review: str, item_id: str) -> views.ItemView:
    stored_review = reviews.get_review(db, project, review)
    item = reviews.get_item(db, project, review, views.parse_item_id(item_id))
    answers = reviews.list_answers(db, project, review, [item.place])[item.place]
    return views.item_view(stored_review, item, answers, views.content_view(db, project, stored_review, item))


def _get_expected(db: Connection, project: str, review: str, item_id: str) -> views.ExpectedView:
    stored_review = reviews.get_review(db, project, review)
    return views.expected_view(
        db, project, stored_review, reviews.get_item(db, project, review, views.parse_item_id(item_id))
    )


def _save_answer(
    db: Connection, project: str, review: str, item_id: str, reviewer: str, body: views.NewAnnotation
) -> views.AnnotationView:
    stored_review, position, now = reviews.lock_review(db, project, review), views.parse_item_id(item_id), utc_now()
    item = reviews.get_item(db, project, review, position)
    answers = check_answers(views.decode_questions(stored_review), body.answers)
    answer = reviews.save_answer(db, project, stored_review, position, reviewer, answers, comment=body.comment, at=now)
    if stored_review.evaluation is not None:
        _update_human_score(db, project, stored_review, stored_review.evaluation, item)
    return views.annotation_view(answer, counts=True)


def _update_human_score(db: Connection, project: str, review: Review, evaluation: str, item: ReviewItem) -> None:
    """Store the answers as the score of the run's `human` evaluator."""
    try:
        plan = decode_plan(evaluations.get_plan(db, project, evaluation)[1])
    except NotFound:
        return  # The run was deleted; the answers stay.
    slots = find_score_slots(plan, views.decode_questions(review))
    answers = reviews.list_answers(db, project, review.id, [item.place])[item.place]
    store_review_score(db, project, evaluation, item, slots, answers, utc_now())
