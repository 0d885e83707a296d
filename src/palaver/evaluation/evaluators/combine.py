"""combine: several evaluators as one."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palaver.evaluation.scoring import children
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of those that are combined."""

    key: str
    parameters: dict[str, Any] = {}
    weight: Annotated[float, Meta(gt=0)] = 1


def _check(parameters: Any, reach: Reach) -> None:
    for place, part in enumerate(parameters.of):
        children.bound(part.key, part.parameters, reach, f"/parameters/of/{place}")


@evaluator(check=_check)
async def combine(
    case: Case,
    reach: Reach,
    of: Annotated[list[Part], Meta(min_length=1, max_length=50, description="The evaluators.")],
    pass_: Annotated[Literal["all", "any", "weighted"], Meta(description="When it has passed.")] = "all",  # noqa: S107 - nobody's password
    threshold: Annotated[float, Meta(ge=0, le=1, description="From which mean on it has passed, if weighted.")] = 0.5,
) -> Score:
    """The weighted mean of other evaluators; passed when all pass, any does, or the mean reaches the threshold.

    One that skips a case is left out of it.
    """
    total = weights = 0.0
    passes: list[bool] = []
    details: list[dict[str, Any]] = []
    for place, part in enumerate(of):
        child = children.bound(part.key, part.parameters, reach, f"/parameters/of/{place}")
        said = await children.said(child, case)
        details += [children.shown(one) | {"weight": part.weight} for one in said.scores]
        if said.is_skipped:
            continue
        score = said.score if said.score is not None else 0.0
        total, weights = total + part.weight * score, weights + part.weight
        passes.append(said.passed if said.passed is not None else score >= threshold)
    if not passes:
        raise Skip("all_skipped", "; ".join(str(one["reason"]) for one in details))
    mean = total / weights
    return Score(
        passed={"all": all(passes), "any": any(passes), "weighted": mean >= threshold}[pass_],
        score=mean,
        reason="; ".join(f"{one['evaluator']}: {one['reason']}" for one in details if one["reason"]),
        details={"of": details},
    )
