"""turn_expectations: each turn of a script kept to what the script expects of it."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from palaver.evaluation.matching.expecting import Check, checks
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip, Unscored


@evaluator
async def turn_expectations(
    case: Case,
    reach: Reach,
    aggregate: Annotated[Literal["mean", "min"], Meta(description="What of the turns' scores.")] = "mean",
) -> Score:
    """All checks of all turns passed. A turn's score is the share of its checks; theirs the mean, or the least.

    Turns of which nothing is expected do not count, unless they were not reached.
    """
    found = [await checks(turn.expect, turn, reach) for turn in case.turns]
    if not any(found):
        raise Skip("no_expectations", "the case has no turn with an expectation")
    for place, turn in enumerate(found, 1):
        for check in turn:
            if check.error is not None:
                raise Unscored(
                    check.error, f"turn {place}, {check.name}: {check.reason.removeprefix(f'{check.error}: ')}"
                )
    shares = [sum(check.passed for check in turn) / len(turn) for turn in found if turn]
    failed = [(place, check) for place, turn in enumerate(found, 1) for check in turn if not check.passed]
    return Score(
        passed=not failed,
        score=min(shares) if aggregate == "min" else sum(shares) / len(shares),
        reason="; ".join(f"turn {place}, {check.name}: {check.reason}" for place, check in failed[:5]),
        details={"turns": [_told(turn) for turn in found]},
    )


def _told(turn: list[Check]) -> dict[str, Any]:
    return {
        "score": sum(check.passed for check in turn) / len(turn) if turn else None,
        "checks": [{"name": check.name, "passed": check.passed, "reason": check.reason} for check in turn],
    }
