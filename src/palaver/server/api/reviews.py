"""/api/reviews: people are asked about results and traces; what they say, and how much they agree."""

from typing import Annotated

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.review_questions import check_questions
from palaver.evaluation.reviews import human_questions, measure_agreement, select_items
from palaver.protocols.base import HttpResponse
from palaver.server.api import review_shown as shown
from palaver.server.api.conventions import (
    After,
    Asked,
    Filter,
    Limit,
    Page,
    Search,
    Window,
    answer,
    caller_of,
    new_id,
    read_body,
    shown_as,
    takes,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_shown import plan_of
from palaver.server.api.idempotency import answered, once
from palaver.server.api.review_views import Agreements, NewReview, ReviewPatch, ReviewRow, ReviewView
from palaver.server.api.trace_views import Asker
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import reviews
from palaver.storage.evaluations import reviews as review_items
from palaver.storage.evaluations.reviews import Review, ReviewFilters

JUDGE = "llm_judge"
"""The evaluator that reviewers are compared with."""
InState = Annotated[str | None, QueryParameter(name="state", description="`open` or `closed`.")]
"""Litestar has another use for a parameter that is called `state`, so it is checked here."""


class ReviewController(ApiController):
    path = "/api/reviews"

    database: Database
    settings: Settings
    run_query: Asker

    @post(
        operation_id="create_review",
        summary="Ask people about results of an evaluation, or about traces",
        operation_class=takes(NewReview),
    )
    async def create_review(self, request: Asked) -> Response[ReviewView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewReview)
        if (before := await answered(request, self.database, raw)) is not None:
            return before
        check_questions(body.questions or (), "/questions")
        found = await self.run_query(None, select_items, caller.project, body.items)
        questions = body.questions or ([] if found.plan is None else human_questions(found.plan))
        if not questions:
            raise InvalidValue("Say what people are to be asked.", pointer="/questions")
        now = utc_now()
        made = Review(
            id=new_id("rv"),
            name=body.name or _called(found.plan.name if found.plan else "", len(found.items)),
            evaluation=found.evaluation,
            reviewers=body.reviewers,
            blind=body.blind,
            total=len(found.items),
            key=caller.key,
            created_at=now,
            updated_at=now,
            questions=msgspec.to_builtins(questions),
            source=msgspec.to_builtins(body.items),
        )

        def work(db: Connection) -> HttpResponse:
            reviews.create_review(db, caller.project, made, found.items)
            place = f"{self.settings.root_path}/api/reviews/{made.id}"
            return shown_as(_view(db, caller.project, made), status=201, location=place)

        return await once(request, self.database, raw, work)

    @get(operation_id="list_reviews", summary="Newest first")
    async def list_reviews(
        self,
        request: Asked,
        search: Search = None,
        in_state: InState = None,
        run: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[ReviewRow]:
        if in_state not in (None, "open", "closed"):
            raise InvalidValue("state is open or closed.", pointer="?state")
        filters = ReviewFilters(state=in_state, evaluation=run, search=search)
        page = await self.database.read(reviews.list_reviews, caller_of(request).project, filters, Window(limit, after))
        return page.map(shown.row)

    @get("/{review:str}", operation_id="get_review", summary="One, and how far it is")
    async def get_review(self, request: Asked, review: FromPath[str]) -> Response[ReviewView]:
        return answer(request, await self.database.read(_found, caller_of(request).project, review))

    @patch(
        "/{review:str}",
        operation_id="change_review",
        summary="Another name; closed, or open again",
        operation_class=takes(ReviewPatch),
    )
    async def change_review(self, request: Asked, review: FromPath[str]) -> Response[ReviewView]:
        _, body = await read_body(request, self.settings, ReviewPatch)
        return answer(request, await self.database.write(_changed, caller_of(request).project, review, body))

    @delete("/{review:str}", operation_id="delete_review", summary="Let go of it and of all answers")
    async def delete_review(self, request: Asked, review: FromPath[str]) -> None:
        await self.database.write(reviews.delete_review, caller_of(request).project, review)

    @get(
        "/{review:str}/agreement",
        operation_id="get_review_agreement",
        summary="How much reviewers agree with each other, and with judges of the run",
    )
    async def get_review_agreement(self, request: Asked, review: FromPath[str]) -> Response[Agreements]:
        return answer(request, await self.database.read(_agreement, caller_of(request).project, review))


def _called(run: str, items: int) -> str:
    """What a review is called that was given no name."""
    return (f"Review of {run}" if run else f"Review of {items} traces")[:200]


def _found(db: Connection, project: str, review: str) -> ReviewView:
    return _view(db, project, reviews.get_review(db, project, review))


def _view(db: Connection, project: str, review: Review) -> ReviewView:
    return shown.view(review, reviews.get_progress(db, project, review))


def _changed(db: Connection, project: str, review: str, body: ReviewPatch) -> ReviewView:
    changed = reviews.update_review(db, project, review, utc_now(), name=body.name, state=body.state)
    return _view(db, project, changed)


def _agreement(db: Connection, project: str, review: str) -> Agreements:
    found = reviews.get_review(db, project, review)
    said: dict[str, dict[int, dict[str, object]]] = {}
    for (place, reviewer), one in review_items.latest_answers(db, project, review).items():
        said.setdefault(reviewer, {})[place] = one.answers
    judges = (
        {} if found.evaluation is None else review_items.load_verdicts(db, project, found, _judges(db, project, found))
    )
    return Agreements(measure_agreement(shown.questions_of(found), said, judges))


def _judges(db: Connection, project: str, review: Review) -> list[int]:
    """The places of those evaluators of the run that ask a model; none if the run is gone."""
    kept = evaluations.get_plans(db, project, [review.evaluation or ""])
    plans = [plan_of(plan) for plan in kept.values()]
    return [place for plan in plans for place, one in enumerate(plan.evaluators) if one.key == JUDGE]
