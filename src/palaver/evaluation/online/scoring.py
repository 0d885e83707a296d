"""One live trace, or session, scored by the evaluators of a rule. What cannot be scored is said, and never raised."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import msgspec

from palaver.errors import PalaverError
from palaver.evaluation.known import Evaluators
from palaver.evaluation.online.cases import read_session, read_trace
from palaver.evaluation.planning.plans import PlannedEvaluator
from palaver.evaluation.running.jobs import Unbound
from palaver.evaluation.scoring.bound import Bound
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Scored, erred
from palaver.storage.database import Database
from palaver.storage.live.cases import ClaimedCase, NewLiveScore
from palaver.storage.live.evaluators import LiveEvaluator

SECONDS = 120.0
"""That one evaluator has for one case."""
_Ready = Sequence[Bound | Unbound]


class Scoring:
    """Scores cases. Evaluators are bound once for each form of a rule."""

    def __init__(self, database: Database, evaluators: Evaluators, reach: Reach, *, seconds: float = SECONDS) -> None:
        self._database = database
        self._evaluators = evaluators
        self._reach = reach
        self._seconds = seconds
        self._bound: dict[tuple[str, str], tuple[datetime, _Ready]] = {}

    async def score(self, rule: LiveEvaluator, taken: ClaimedCase) -> list[NewLiveScore] | None:
        """What its evaluators say; None if the trace is gone. Only being cancelled, and GivenUp, are raised."""
        if rule.session:
            case = await self._database.read(read_session, taken.project, taken.subject)
        else:
            case = await self._database.read(read_trace, taken.project, taken.trace)
        if case is None:
            return None
        scores: dict[tuple[int, str], NewLiveScore] = {}
        for place, one in enumerate(self._ready(taken.project, rule)):
            for scored in await self._asked(one, case):
                scores[place, scored.evaluator] = _new(place, scored)
        return list(scores.values())

    async def _asked(self, one: Bound | Unbound, case: Case) -> list[Scored]:
        try:
            async with asyncio.timeout(self._seconds):
                return await one.score(case)
        except TimeoutError:
            return [erred(one.name, f"timeout: it had {self._seconds:g} s", seconds=self._seconds)]

    def _ready(self, project: str, rule: LiveEvaluator) -> _Ready:
        known = self._bound.get((project, rule.id))
        if known is None or known[0] != rule.updated_at:
            reach = self._reach.of(project, rule.key)
            planned = msgspec.convert(rule.evaluators, list[PlannedEvaluator])
            known = rule.updated_at, [self._bind(one, reach) for one in planned]
            self._bound[project, rule.id] = known
        return known[1]

    def _bind(self, planned: PlannedEvaluator, reach: Reach) -> Bound | Unbound:
        try:
            return self._evaluators.find(planned.key).bind(planned.parameters, reach, name=planned.name)
        except PalaverError as error:  # The code is another one than when the rule was made.
            return Unbound(planned.name, error.message)


def _new(place: int, scored: Scored) -> NewLiveScore:
    return NewLiveScore(
        evaluator=place,
        name=scored.evaluator,
        status=scored.status,
        passed=scored.passed,
        score=scored.score,
        label=scored.label,
        reason=scored.reason,
        details=scored.details or None,
        seconds=scored.seconds,
        usage=scored.usage,
        cost=scored.cost,
    )
