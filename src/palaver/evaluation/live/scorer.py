"""Score one live trace or session with the evaluators of a rule. Errors become scores."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import BoundEvaluator
from palaver.evaluation.live.trace_cases import read_session_case, read_trace_case
from palaver.evaluation.plan.plan import PlannedEvaluator
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.cell import UnavailableEvaluator, bind_planned
from palaver.evaluation.score import ScoreRecord, error_score
from palaver.storage.database import Database
from palaver.storage.evaluations.live_evaluators import ClaimedCase, LiveEvaluator
from palaver.storage.evaluations.results import CellScore

EVALUATOR_TIMEOUT_S = 120.0
"""Seconds for one evaluator and case."""
_BoundEvaluators = Sequence[BoundEvaluator | UnavailableEvaluator]


class LiveScorer:
    """Binds evaluators once for each version of a rule."""

    def __init__(
        self,
        database: Database,
        evaluators: EvaluatorRegistry,
        context: EvaluatorContext,
        *,
        timeout: float = EVALUATOR_TIMEOUT_S,
    ) -> None:
        self._database = database
        self._evaluators = evaluators
        self._context = context
        self._timeout = timeout
        self._bound: dict[tuple[str, str], tuple[datetime, _BoundEvaluators]] = {}

    async def score(self, rule: LiveEvaluator, claimed: ClaimedCase) -> list[CellScore] | None:
        """The scores of a case; None if the trace is gone. Only cancellation and EvaluationAborted are raised."""
        if rule.session:
            case = await self._database.read(read_session_case, claimed.project, claimed.subject)
        else:
            case = await self._database.read(read_trace_case, claimed.project, claimed.trace)
        if case is None:
            return None
        scores: dict[tuple[int, str], CellScore] = {}
        for index, evaluator in enumerate(self._evaluators_of(claimed.project, rule)):
            for record in await self._run(evaluator, case):
                scores[index, record.evaluator] = _new_score(index, record)
        return list(scores.values())

    async def _run(self, evaluator: BoundEvaluator | UnavailableEvaluator, case: Case) -> list[ScoreRecord]:
        try:
            async with asyncio.timeout(self._timeout):
                return await evaluator.score(case)
        except TimeoutError:
            return [
                error_score(
                    evaluator.name, f"timeout: timed out after {self._timeout:g} seconds", seconds=self._timeout
                )
            ]

    def _evaluators_of(self, project: str, rule: LiveEvaluator) -> _BoundEvaluators:
        cached = self._bound.get((project, rule.id))
        if cached is None or cached[0] != rule.updated_at:
            context = self._context.for_project(project, rule.key)
            planned = msgspec.convert(rule.evaluators, list[PlannedEvaluator])
            cached = rule.updated_at, [bind_planned(self._evaluators, evaluator, context) for evaluator in planned]
            self._bound[project, rule.id] = cached
        return cached[1]


def _new_score(index: int, record: ScoreRecord) -> CellScore:
    fields: dict[str, Any] = msgspec.structs.asdict(record) | {"details": record.details or None}
    return CellScore(name=fields.pop("evaluator"), evaluator=index, **fields)
