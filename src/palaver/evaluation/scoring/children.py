"""Evaluators inside evaluators: `combine`, `per_turn` and `code` ask others, which are named in their parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.errors import InvalidValue
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import Bound, Evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Scored, Unscored


class Said(msgspec.Struct, frozen=True):
    """What one of them said of a case, all that it said together."""

    passed: bool | None
    score: float | None
    scores: Sequence[Scored]

    @property
    def is_skipped(self) -> bool:
        """There was nothing to score."""
        return all(one.status == "skipped" for one in self.scores)


def found(key: str, reach: Reach, pointer: str) -> Evaluator:
    """The evaluator of that key; InvalidValue points at who asked for it."""
    try:
        return reach.evaluator(key)
    except InvalidValue as error:
        raise InvalidValue(error.message, pointer=pointer) from None


def bound(key: str, parameters: Mapping[str, Any], reach: Reach, pointer: str) -> Bound:
    """That evaluator with its parameters; what it does not take is pointed at beneath `pointer`."""
    one = found(key, reach, f"{pointer}/key")
    try:
        return one.bind(parameters, reach)
    except InvalidValue as error:
        raise InvalidValue(error.message, pointer=f"{pointer}{error.pointer or ''}") from None


async def said(child: Bound, case: Case) -> Said:
    """What it says; its error is ours."""
    scores = await child.score(case)
    failed = next((one for one in scores if one.status == "error"), None)
    if failed is not None:
        code, _, message = failed.reason.partition(": ")
        raise Unscored(code, f"{child.name}: {message}")
    passes = [one.passed for one in scores if one.passed is not None]
    numbers = [one.score for one in scores if one.score is not None]
    return Said(
        passed=all(passes) if passes else None,
        score=sum(numbers) / len(numbers) if numbers else None,
        scores=scores,
    )


def shown(one: Scored) -> dict[str, Any]:
    """A child's score, as it is kept in the details of ours."""
    return {
        "evaluator": one.evaluator,
        "status": one.status,
        "passed": one.passed,
        "score": one.score,
        "label": one.label,
        "reason": one.reason,
        "details": one.details,
    }
