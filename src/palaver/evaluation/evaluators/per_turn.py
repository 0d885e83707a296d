"""per_turn: an evaluator on each turn of a conversation, as a case of its own."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palaver.evaluation.scoring import children
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.casing import turn_case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The evaluator that is asked."""

    key: str
    parameters: dict[str, Any] = {}


def _check(parameters: Any, reach: Reach) -> None:
    children.bound(parameters.evaluator.key, parameters.evaluator.parameters, reach, "/parameters/evaluator")


@evaluator(key="per_turn", check=_check)
async def per_turn(
    case: Case,
    reach: Reach,
    evaluator: Annotated[Named, Meta(description="Which one, with its parameters.")],
    aggregate: Annotated[Literal["mean", "min", "last"], Meta(description="What of the turns' scores.")] = "mean",
) -> Score:
    """What an evaluator says of each turn, as their mean, the least or the last; passed when all (or that one) pass.

    A turn that was not reached has not passed; one that the evaluator skips is left out.
    """
    child = children.bound(evaluator.key, evaluator.parameters, reach, "/parameters/evaluator")
    scores: list[float] = []
    passes: list[bool | None] = []
    details: list[dict[str, Any]] = []
    for place, turn in list(enumerate(case.turns))[-1 if aggregate == "last" else 0 :]:
        if not turn.reached:
            scores, passes = [*scores, 0.0], [*passes, False]
            details.append({"turn": place, "reached": False})
            continue
        said = await children.said(child, turn_case(case, place))
        details.append({"turn": place, "scores": [children.shown(one) for one in said.scores]})
        if not said.is_skipped:
            scores, passes = [*scores, said.score or 0.0], [*passes, said.passed]
    if not scores:
        raise Skip("no_turns", "there is no turn that could be scored")
    known = [one for one in passes if one is not None]
    failed = [one["turn"] for one in details if _has_failed(one)]
    return Score(
        passed=all(known) if known else None,
        score=min(scores) if aggregate == "min" else sum(scores) / len(scores),
        reason=f"not passed in turn {', '.join(str(place + 1) for place in failed)}" if failed else "",
        details={"turns": details},
    )


def _has_failed(told: dict[str, Any]) -> bool:
    return "scores" not in told or any(one["passed"] is False for one in told["scores"])
