"""/api/evaluators: list evaluators, try one without an evaluation, and convert evaluators of Agenta.

No route accepts code: evaluators are referenced by key.
"""

import asyncio
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from palaver.core import json
from palaver.errors import NotFound, ShuttingDown
from palaver.evaluation import agenta
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import Evaluator, Need
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.manual_case import read_manual_case
from palaver.evaluation.score import EvaluationAborted, ScoreRecord
from palaver.server.api import evaluation_views as views
from palaver.server.api.conventions import (
    ApiRequest,
    caller_of,
    make_view,
    object_response,
    operation_with_body,
    raw_body,
    read_body,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a trial, whose case `read_manual_case` validates."""

    parameters: dict[str, Any] = {}
    case: dict[str, Any]


class EvaluatorController(ApiController):
    path = "/api/evaluators"

    settings: Settings
    evaluator_context: EvaluatorContext
    evaluators: EvaluatorRegistry

    @get(operation_id="list_evaluators", summary="List evaluators, built-in ones first")
    async def list_evaluators(self, request: ApiRequest) -> Response[views.Evaluators]:
        return object_response(request, await asyncio.to_thread(self._list))

    @get("/{key:str}", operation_id="get_evaluator", summary="Get an evaluator")
    async def get_evaluator(self, request: ApiRequest, key: FromPath[str]) -> Response[views.EvaluatorView]:
        evaluator = await asyncio.to_thread(self._require, key)
        return object_response(request, _evaluator_view(evaluator, self._declared_keys()))

    @post(
        "/{key:str}/try",
        operation_id="try_evaluator",
        summary="Try an evaluator on a manually written case, without an evaluation",
        status_code=200,
        operation_class=operation_with_body(views.TrialRequest),
    )
    async def try_evaluator(self, request: ApiRequest, key: FromPath[str]) -> Response[views.TrialScore]:
        evaluator = await asyncio.to_thread(self._require, key)
        _, body = await read_body(request, self.settings, _Trial)
        caller = caller_of(request)
        bound = await asyncio.to_thread(
            evaluator.bind, body.parameters, self.evaluator_context.for_project(caller.project, caller.key)
        )
        try:
            score, *other_scores = await bound.score(read_manual_case(body.case))
        except EvaluationAborted:  # Raised by evaluators that call a workflow.
            raise ShuttingDown("The server is shutting down. Try again shortly.") from None
        return object_response(
            request,
            views.TrialScore(
                **_score_fields(score), more=[views.ScoreView(**_score_fields(other)) for other in other_scores]
            ),
        )

    @post(
        "/import",
        operation_id="import_evaluators",
        summary="Convert Agenta evaluators for use in an evaluation; nothing is stored",
        status_code=200,
        operation_class=operation_with_body(dict[str, Any]),
    )
    async def import_evaluators(self, request: ApiRequest) -> Response[views.ImportedEvaluators]:
        document = json.decode(await raw_body(request, self.settings), self.settings.json_limits)
        imported = await asyncio.to_thread(agenta.import_evaluators, document)
        rows = [make_view(views.ImportedEvaluatorView, item, notes=list(item.notes)) for item in imported]
        return object_response(request, views.ImportedEvaluators(rows))

    def _list(self) -> views.Evaluators:
        declared_keys = self._declared_keys()
        return views.Evaluators([_evaluator_view(evaluator, declared_keys) for evaluator in self.evaluators.all()])

    def _declared_keys(self) -> set[str]:
        return {evaluator.key for evaluator in self.evaluators.declared()}

    def _require(self, key: str) -> Evaluator:
        evaluator = self.evaluators.get(key)
        if evaluator is None:
            raise NotFound(f"Evaluator {key[:80]!r} not found.")
        return evaluator


def _evaluator_view(evaluator: Evaluator, declared_keys: set[str]) -> views.EvaluatorView:
    return views.EvaluatorView(
        key=evaluator.key,
        title=evaluator.title,
        description=evaluator.description,
        schema=evaluator.schema,
        needs=msgspec.convert(sorted(evaluator.needs), list[Need]),
        origin="author" if evaluator.key in declared_keys else "built_in",
    )


def _score_fields(score: ScoreRecord) -> dict[str, Any]:
    usage = None if score.usage is None else msgspec.to_builtins(score.usage)
    return {**msgspec.structs.asdict(score), "usage": usage}
