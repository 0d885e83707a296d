"""code: an evaluator of the authors' own, by its name. No code is ever sent: it is the served project's."""

from typing import Annotated, Any

from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.scoring import children
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Scored, Skip


def _check(parameters: Any, reach: Reach) -> None:
    if parameters.ref in built_in():
        raise InvalidValue(
            f"{parameters.ref} is built in: ask for it by its key. ref is an evaluator of your project.",
            pointer="/parameters/ref",
        )
    children.found(parameters.ref, reach, "/parameters/ref")
    children.bound(parameters.ref, parameters.parameters, reach, "/parameters")


@evaluator(check=_check)
async def code(
    case: Case,
    reach: Reach,
    ref: Annotated[str, Meta(description="Its key, or its place: module:name.")],
    parameters: Annotated[dict[str, Any], Meta(description="What it takes.")] = {},  # noqa: B006 - never changed
) -> Any:
    """What the registered evaluator `ref` says of the case."""
    child = children.bound(ref, parameters, reach, "/parameters")
    said = await children.said(child, case)
    if said.is_skipped:
        reason, _, message = said.scores[0].reason.partition(": ")
        raise Skip(reason, message)
    scored = [one for one in said.scores if one.status == "scored"]
    return _score(scored[0]) if len(said.scores) == 1 else [_score(one, _name(one, child.name)) for one in scored]


def _name(one: Scored, whole: str) -> str:
    """What it is called among several; what is said of all together is `all`."""
    return one.evaluator.removeprefix(f"{whole}.") if one.evaluator != whole else "all"


def _score(one: Scored, name: str | None = None) -> Score:
    return Score(
        passed=one.passed,
        score=one.score,
        label=one.label,
        reason=one.reason,
        details=one.details,
        name=name,
        usage=one.usage,
        cost=one.cost,
    )
