"""/api/evaluations: begun, listed, looked at, ended early, run again, deleted. Results and figures are elsewhere."""

from collections.abc import Callable
from typing import Annotated, Any, get_args

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.plan.planner import EvaluationPlanner
from palaver.evaluation.plan.request import NewEvaluation
from palaver.evaluation.plan.slices import new_evaluation
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
from palaver.server.api.evaluation_views import Begun, EvaluationRow, EvaluationState, EvaluationView, Rerun
from palaver.server.api.idempotency import answered, once
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters

InState = Annotated[str | None, QueryParameter(name="state", description="How it goes, or how it ended.")]
"""Litestar has another use for a parameter that is called `state`, so it is checked here."""


def routes(
    database: Database,
    settings: Settings,
    planning: EvaluationPlanner,
    *,
    wake: Callable[[], None] = lambda: None,
    soon: Callable[[], None] = lambda: None,
    new: Callable[[str], str] = new_id,
) -> list[HTTPRouteHandler]:
    """The routes; `wake` is called when there is something to run, or to stop; `soon` when figures are likely next."""

    @post(
        "/api/evaluations",
        operation_id="create_evaluation",
        summary="Run a test set over variants, and score what they answer",
        status_code=202,
        operation_class=takes(NewEvaluation),
    )
    async def create_evaluation(request: Asked) -> Response[Begun]:
        caller = caller_of(request)
        raw, body = await read_body(request, settings, NewEvaluation)
        if (before := await answered(request, database, raw)) is not None:
            return before
        planned = await planning.plan(caller.project, body)
        made, now = new_evaluation(new("ev"), planned, key=caller.key), utc_now()

        def work(db: Connection) -> HttpResponse:
            begun = evaluations.create_evaluation(db, caller.project, made, now)
            told = Begun(id=begun.id, state=begun.state, total=begun.total)
            return shown_as(told, status=202, location=f"{settings.root_path}/api/evaluations/{begun.id}")

        told = await once(request, database, raw, work)
        wake()
        soon()
        return told

    @get("/api/evaluations", operation_id="list_evaluations", summary="Newest first")
    async def list_evaluations(
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
        page = await database.read(_listed, caller_of(request).project, filters, Window(limit, after))
        if page.data:
            soon()
        return page

    @get("/api/evaluations/{evaluation:str}", operation_id="get_evaluation", summary="One, and what it was made of")
    async def get_evaluation(request: Asked, evaluation: FromPath[str]) -> Response[EvaluationView]:
        found = await database.read(evaluations.get_plan, project_of(request), evaluation)
        soon()
        return answer(request, _view(*found))

    @delete("/api/evaluations/{evaluation:str}", operation_id="delete_evaluation", summary="Let go of all of it")
    async def delete_evaluation(request: Asked, evaluation: FromPath[str]) -> None:
        await database.write(evaluations.delete_evaluation, project_of(request), evaluation)
        wake()

    @post(
        "/api/evaluations/{evaluation:str}/cancel",
        operation_id="cancel_evaluation",
        summary="End it: what is recorded stays; one that has ended stays as it is",
        status_code=200,
    )
    async def cancel_evaluation(request: Asked, evaluation: FromPath[str]) -> Response[EvaluationView]:
        found = await database.write(evaluations.cancel_evaluation, project_of(request), evaluation, utc_now())
        wake()
        return answer(request, await whole(request, found))

    @post(
        "/api/evaluations/{evaluation:str}/rerun",
        operation_id="rerun_evaluation",
        summary="Run again what failed, or all of it, into the same evaluation",
        status_code=202,
        operation_class=takes(Rerun),
    )
    async def rerun_evaluation(request: Asked, evaluation: FromPath[str]) -> Response[EvaluationView]:
        raw, body = await read_body(request, settings, Rerun)
        project, now = project_of(request), utc_now()

        def work(db: Connection) -> HttpResponse:
            evaluations.rerun_evaluation(db, project, evaluation, body.which, now)
            return shown_as(_view(*evaluations.get_plan(db, project, evaluation)), status=202)

        told = await once(request, database, raw, work)
        wake()
        return told

    async def whole(request: Asked, found: Evaluation) -> EvaluationView:
        return _view(*await database.read(evaluations.get_plan, project_of(request), found.id))

    return [
        create_evaluation,
        list_evaluations,
        get_evaluation,
        delete_evaluation,
        cancel_evaluation,
        rerun_evaluation,
    ]


def project_of(request: Asked) -> str:
    """The project of whoever asks."""
    return caller_of(request).project


def _listed(db: Connection, project: str, filters: EvaluationFilters, window: Window) -> Page[EvaluationRow]:
    page = evaluations.list_evaluations(db, project, filters, window)
    plans = evaluations.get_plans(db, project, [one.id for one in page.data])
    return page.map(lambda one: shown.row(one, shown.plan_of(plans[one.id])))


def _view(found: Evaluation, kept: Any) -> EvaluationView:
    return shown.view(found, shown.plan_of(kept))
