"""/api/evaluations: begun, listed, looked at, ended early, run again, deleted. Results and figures are elsewhere."""

from collections.abc import Callable
from typing import Annotated, Any, get_args

from litestar import Response, delete, get, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.plan.plan import new_evaluation
from palaver.evaluation.plan.planner import EvaluationPlanner
from palaver.evaluation.plan.request import NewEvaluation
from palaver.protocols.base import HttpResponse
from palaver.server.api import evaluation_shown as shown
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
from palaver.server.api.evaluation_figures import Figures
from palaver.server.api.evaluation_views import Begun, EvaluationRow, EvaluationState, EvaluationView, Rerun
from palaver.server.api.idempotency import answered, once
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters

InState = Annotated[str | None, QueryParameter(name="state", description="How it goes, or how it ended.")]
"""Litestar has another use for a parameter that is called `state`, so it is checked here."""


class EvaluationController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    planner: EvaluationPlanner
    figures: Figures
    wake_runner: Callable[[], None]

    @post(
        operation_id="create_evaluation",
        summary="Run a test set over variants, and score what they answer",
        status_code=202,
        operation_class=takes(NewEvaluation),
    )
    async def create_evaluation(self, request: Asked) -> Response[Begun]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewEvaluation)
        if (before := await answered(request, self.database, raw)) is not None:
            return before
        planned = await self.planner.plan(caller.project, body)
        made, now = new_evaluation(new_id("ev"), planned, key=caller.key), utc_now()

        def work(db: Connection) -> HttpResponse:
            begun = evaluations.create_evaluation(db, caller.project, made, now)
            told = Begun(id=begun.id, state=begun.state, total=begun.total)
            return shown_as(told, status=202, location=f"{self.settings.root_path}/api/evaluations/{begun.id}")

        told = await once(request, self.database, raw, work)
        self.wake_runner()
        self.figures.soon()
        return told

    @get(operation_id="list_evaluations", summary="Newest first")
    async def list_evaluations(
        self,
        request: Asked,
        search: Search = None,
        in_state: InState = None,
        testset: Filter = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[EvaluationRow]:
        if in_state not in (None, *get_args(EvaluationState)):
            raise InvalidValue(f"state is one of {', '.join(get_args(EvaluationState))}.", pointer="?state")
        filters = EvaluationFilters(state=in_state, testset=testset, search=search)
        page = await self.database.read(_listed, caller_of(request).project, filters, Window(limit, after))
        if page.data:
            self.figures.soon()
        return page

    @get("/{evaluation:str}", operation_id="get_evaluation", summary="One, and what it was made of")
    async def get_evaluation(self, request: Asked, evaluation: FromPath[str]) -> Response[EvaluationView]:
        found = await self.database.read(evaluations.get_plan, project_of(request), evaluation)
        self.figures.soon()
        return answer(request, _view(*found))

    @delete("/{evaluation:str}", operation_id="delete_evaluation", summary="Let go of all of it")
    async def delete_evaluation(self, request: Asked, evaluation: FromPath[str]) -> None:
        await self.database.write(evaluations.delete_evaluation, project_of(request), evaluation)
        self.wake_runner()

    @post(
        "/{evaluation:str}/cancel",
        operation_id="cancel_evaluation",
        summary="End it: what is recorded stays; one that has ended stays as it is",
        status_code=200,
    )
    async def cancel_evaluation(self, request: Asked, evaluation: FromPath[str]) -> Response[EvaluationView]:
        found = await self.database.write(evaluations.cancel_evaluation, project_of(request), evaluation, utc_now())
        self.wake_runner()
        return answer(request, await self._whole(request, found))

    @post(
        "/{evaluation:str}/rerun",
        operation_id="rerun_evaluation",
        summary="Run again what failed, or all of it, into the same evaluation",
        status_code=202,
        operation_class=takes(Rerun),
    )
    async def rerun_evaluation(self, request: Asked, evaluation: FromPath[str]) -> Response[EvaluationView]:
        raw, body = await read_body(request, self.settings, Rerun)
        project, now = project_of(request), utc_now()

        def work(db: Connection) -> HttpResponse:
            evaluations.rerun_evaluation(db, project, evaluation, body.which, now)
            return shown_as(_view(*evaluations.get_plan(db, project, evaluation)), status=202)

        told = await once(request, self.database, raw, work)
        self.wake_runner()
        return told

    async def _whole(self, request: Asked, found: Evaluation) -> EvaluationView:
        return _view(*await self.database.read(evaluations.get_plan, project_of(request), found.id))


def project_of(request: Asked) -> str:
    """The project of whoever asks."""
    return caller_of(request).project


def _listed(db: Connection, project: str, filters: EvaluationFilters, window: Window) -> Page[EvaluationRow]:
    page = evaluations.list_evaluations(db, project, filters, window)
    plans = evaluations.get_plans(db, project, [one.id for one in page.data])
    return page.map(lambda one: shown.row(one, shown.plan_of(plans[one.id])))


def _view(found: Evaluation, kept: Any) -> EvaluationView:
    return shown.view(found, shown.plan_of(kept))
