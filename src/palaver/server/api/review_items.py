"""/api/reviews/{id}/next and …/items: what somebody is asked, and what they say."""

from collections.abc import Callable
from typing import Annotated

from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.errors import NotFound
from palaver.evaluation.plan.request import NAME_PATTERN
from palaver.evaluation.review_questions import check_answers
from palaver.evaluation.reviews import find_score_slots, store_review_score
from palaver.protocols.base import HttpResponse
from palaver.server.api import review_shown as shown
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    Page,
    Window,
    answer,
    caller_of,
    read_body,
    shown_as,
    takes,
    told_time,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_shown import plan_of
from palaver.server.api.idempotency import once
from palaver.server.api.review_views import (
    AnnotationView,
    ByWhom,
    ExpectedView,
    ItemRow,
    ItemView,
    NewAnnotation,
    Next,
    ProgressView,
)
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import reviews
from palaver.storage.evaluations import reviews as review_items
from palaver.storage.evaluations.reviews import Review

NOBODY = "somebody"
"""Who answers where the server has no keys, and no name was given."""
Who = Annotated[
    str | None,
    QueryParameter(
        name="reviewer", min_length=1, max_length=100, pattern=NAME_PATTERN, description="Who, where there are no keys."
    ),
]


class ReviewItemController(ApiController):
    path = "/api/reviews"

    database: Database
    settings: Settings

    @get(
        "/{review:str}/next",
        operation_id="next_review_item",
        summary="What you are asked next; nobody else is asked about it for ten minutes",
    )
    async def next_review_item(self, request: Asked, review: FromPath[str], who: Who = None) -> Next:
        return await self.database.write(_next, caller_of(request).project, review, reviewer_of(request, who))

    @get(
        "/{review:str}/items",
        operation_id="list_review_items",
        summary="All items, and what was said of them",
    )
    async def list_review_items(
        self, request: Asked, review: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Page[ItemRow]:
        return await self.database.read(_listed, caller_of(request).project, review, Window(limit, after))

    @get(
        "/{review:str}/items/{item:str}",
        operation_id="get_review_item",
        summary="One, and what it is about",
    )
    async def get_review_item(self, request: Asked, review: FromPath[str], item: FromPath[str]) -> Response[ItemView]:
        return answer(request, await self.database.read(_item, caller_of(request).project, review, item))

    @get(
        "/{review:str}/items/{item:str}/expected",
        operation_id="get_review_item_expected",
        summary="What was expected, for who asks, in a blind review too",
    )
    async def get_review_item_expected(
        self, request: Asked, review: FromPath[str], item: FromPath[str]
    ) -> Response[ExpectedView]:
        return answer(request, await self.database.read(_expected, caller_of(request).project, review, item))

    @post(
        "/{review:str}/items/{item:str}/answers",
        operation_id="answer_review_item",
        summary="Say something of an item; said again, the last counts",
        operation_class=takes(NewAnnotation),
    )
    async def answer_review_item(
        self, request: Asked, review: FromPath[str], item: FromPath[str]
    ) -> Response[AnnotationView]:
        raw, body = await read_body(request, self.settings, NewAnnotation)
        project, who = caller_of(request).project, reviewer_of(request, body.reviewer)

        def work(db: Connection) -> HttpResponse:
            return shown_as(_said(db, project, review, item, who, body), status=201)

        return await once(request, self.database, raw, work)

    @post(
        "/{review:str}/items/{item:str}/skip",
        operation_id="skip_review_item",
        summary="Do not ask me about it again",
        status_code=200,
        operation_class=takes(ByWhom),
    )
    async def skip_review_item(
        self, request: Asked, review: FromPath[str], item: FromPath[str]
    ) -> Response[ProgressView]:
        return await self._let_go(request, review, item, review_items.skip_item)

    @post(
        "/{review:str}/items/{item:str}/release",
        operation_id="release_review_item",
        summary="Let others be asked about it",
        status_code=200,
        operation_class=takes(ByWhom),
    )
    async def release_review_item(
        self, request: Asked, review: FromPath[str], item: FromPath[str]
    ) -> Response[ProgressView]:
        return await self._let_go(request, review, item, review_items.release_item)

    async def _let_go(self, request: Asked, review: str, item: str, how: Callable[..., None]) -> Response[ProgressView]:
        _, body = await read_body(request, self.settings, ByWhom)
        project, who = caller_of(request).project, reviewer_of(request, body.reviewer)

        def work(db: Connection) -> ProgressView:
            found = reviews.lock_review(db, project, review)
            how(db, project, found, shown.read_item_id(item), who, utc_now())
            return shown.progress(reviews.get_progress(db, project, found))

        return answer(request, await self.database.write(work))


def reviewer_of(request: Asked, named: str | None) -> str:
    """Who is asking: their key, whatever they call themselves; where there is none, a name."""
    key = caller_of(request).key
    return format_key_id(key) if key is not None else named or NOBODY


def _next(db: Connection, project: str, review: str, who: str) -> Next:
    found, now = reviews.lock_review(db, project, review), utc_now()
    item: ItemView | None = None
    while (held := review_items.lease_next_item(db, project, found, who, now)) is not None:
        item = shown.asked(found, held.item, shown.content(db, project, found, held.item))
        if item.content is not None:
            break
        review_items.mark_item_gone(db, project, review, held.item.place)
    return Next(
        item=None if held is None else item,
        until=None if held is None else told_time(held.until),
        reviewer=who,
        progress=shown.progress(reviews.get_progress(db, project, found)),
    )


def _listed(db: Connection, project: str, review: str, window: Window) -> Page[ItemRow]:
    found = reviews.get_review(db, project, review)
    page = review_items.list_items(db, project, review, window)
    said = review_items.list_answers(db, project, review, [item.place for item in page.data])
    return page.map(lambda item: shown.item_row(found, item, said[item.place]))


def _item(db: Connection, project: str, review: str, named: str) -> ItemView:
    found = reviews.get_review(db, project, review)
    item = review_items.get_item(db, project, review, shown.read_item_id(named))
    said = review_items.list_answers(db, project, review, [item.place])[item.place]
    return shown.item_view(found, item, said, shown.content(db, project, found, item))


def _expected(db: Connection, project: str, review: str, named: str) -> ExpectedView:
    found = reviews.get_review(db, project, review)
    return shown.expected(db, project, found, review_items.get_item(db, project, review, shown.read_item_id(named)))


def _said(db: Connection, project: str, review: str, named: str, who: str, body: NewAnnotation) -> AnnotationView:
    found, place, now = reviews.lock_review(db, project, review), shown.read_item_id(named), utc_now()
    item = review_items.get_item(db, project, review, place)
    given = check_answers(shown.questions_of(found), body.answers)
    said = review_items.save_answer(db, project, found, place, who, given, comment=body.comment, at=now)
    if found.evaluation is not None:
        _fill(db, project, found, found.evaluation, item)
    return shown.annotation(said, counts=True)


def _fill(db: Connection, project: str, review: Review, evaluation: str, item: review_items.ReviewItem) -> None:
    """What people say is the score that a `human` evaluator of the run waits for."""
    try:
        plan = plan_of(evaluations.get_plan(db, project, evaluation)[1])
    except NotFound:
        return  # It is gone; what people said of it stays.
    wanted = find_score_slots(plan, shown.questions_of(review))
    said = review_items.list_answers(db, project, review.id, [item.place])[item.place]
    store_review_score(db, project, evaluation, item, wanted, said, utc_now())
