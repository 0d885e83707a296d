"""Evaluators that run other evaluators: combine, per_turn, code."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.case import Case, case_of_turn
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import BoundEvaluator, Evaluator, evaluator
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.score import Score, ScoreRecord, ScoringError, Skip


class ChildResult(msgspec.Struct, frozen=True):
    """All scores of a child evaluator for one case."""

    passed: bool | None
    score: float | None
    scores: Sequence[ScoreRecord]

    @property
    def is_skipped(self) -> bool:
        return all(record.status == "skipped" for record in self.scores)


def find_child(key: str, context: EvaluatorContext, pointer: str) -> Evaluator:
    """Find the evaluator. Raises InvalidValue with this pointer."""
    try:
        return context.evaluator(key)
    except InvalidValue as error:
        message = f"{error.message[:1].lower()}{error.message[1:]}"  # The parent's name precedes it.
        raise InvalidValue(message, pointer=pointer) from None


def bind_child(key: str, parameters: Mapping[str, Any], context: EvaluatorContext, pointer: str) -> BoundEvaluator:
    """Bind the evaluator. Raises InvalidValue, whose pointer begins with this one."""
    evaluator = find_child(key, context, f"{pointer}/key")
    try:
        return evaluator.bind(parameters, context)
    except InvalidValue as error:
        raise InvalidValue(error.message, pointer=f"{pointer}{error.pointer or ''}") from None


async def run_child(child: BoundEvaluator, case: Case) -> ChildResult:
    """Run the evaluator. Raises ScoringError if it returns an error, which becomes the parent's error."""
    scores = await child.score(case)
    error = next((record for record in scores if record.status == "error"), None)
    if error is not None:
        code, _, message = error.reason.partition(": ")
        raise ScoringError(code, f"{child.name}: {message}")
    passes = [record.passed for record in scores if record.passed is not None]
    numbers = [record.score for record in scores if record.score is not None]
    return ChildResult(
        passed=all(passes) if passes else None,
        score=sum(numbers) / len(numbers) if numbers else None,
        scores=scores,
    )


def describe_score(record: ScoreRecord) -> dict[str, Any]:
    """Describe a child's score, for the details of the parent's."""
    fields = msgspec.structs.asdict(record)
    return {name: value for name, value in fields.items() if name not in ("seconds", "usage", "cost")}


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An evaluator with its parameters and weight."""

    key: str
    parameters: dict[str, Any] = {}
    weight: Annotated[float, Meta(gt=0)] = 1


def _check_combine(parameters: Any, context: EvaluatorContext) -> None:
    for index, part in enumerate(parameters.of):
        bind_child(part.key, part.parameters, context, f"/parameters/of/{index}")


@evaluator(check=_check_combine)
async def combine(
    case: Case,
    context: EvaluatorContext,
    of: Annotated[list[Part], Meta(min_length=1, max_length=50, description="Evaluators to combine.")],
    pass_: Annotated[
        Literal["all", "any", "weighted"],
        Meta(description="Which evaluators must pass; if weighted, the mean must reach the threshold."),
    ] = "all",  # noqa: S107 - not a password
    threshold: Annotated[
        float, Meta(ge=0, le=1, description="Minimum weighted mean to pass, if `pass` is weighted.")
    ] = 0.5,
) -> Score:
    """Combine evaluators into a weighted mean. `pass` sets whether all, any or the weighted mean must pass.

    Evaluators that skip the case are left out.
    """
    total = total_weight = 0.0
    passes: list[bool] = []
    details: list[dict[str, Any]] = []
    for index, part in enumerate(of):
        child = bind_child(part.key, part.parameters, context, f"/parameters/of/{index}")
        result = await run_child(child, case)
        details += [describe_score(record) | {"weight": part.weight} for record in result.scores]
        if result.is_skipped:
            continue
        score = result.score if result.score is not None else 0.0
        total, total_weight = total + part.weight * score, total_weight + part.weight
        passes.append(result.passed if result.passed is not None else score >= threshold)
    if not passes:
        raise Skip("all_skipped", "; ".join(str(record["reason"]) for record in details))
    mean = total / total_weight
    return Score(
        passed={"all": all(passes), "any": any(passes), "weighted": mean >= threshold}[pass_],
        score=mean,
        reason="; ".join(f"{record['evaluator']}: {record['reason']}" for record in details if record["reason"]),
        details={"of": details},
    )


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An evaluator with its parameters."""

    key: str
    parameters: dict[str, Any] = {}


def _check_per_turn(parameters: Any, context: EvaluatorContext) -> None:
    bind_child(parameters.evaluator.key, parameters.evaluator.parameters, context, "/parameters/evaluator")


@evaluator(key="per_turn", check=_check_per_turn)
async def per_turn(
    case: Case,
    context: EvaluatorContext,
    evaluator: Annotated[Named, Meta(description="Evaluator to run on each turn.")],
    aggregate: Annotated[
        Literal["mean", "min", "last"], Meta(description="How to combine the turns' scores.")
    ] = "mean",
) -> Score:
    """Apply another evaluator to each turn. The score is the mean, minimum or last score.

    Passes if all turns pass or, if `aggregate` is `last`, the last one. Turns that were not reached fail; turns that
    the evaluator skips are left out.
    """
    child = bind_child(evaluator.key, evaluator.parameters, context, "/parameters/evaluator")
    scores: list[float] = []
    passes: list[bool | None] = []
    details: list[dict[str, Any]] = []
    for index, turn in list(enumerate(case.turns))[-1 if aggregate == "last" else 0 :]:
        if not turn.reached:
            scores, passes = [*scores, 0.0], [*passes, False]
            details.append({"turn": index, "reached": False})
            continue
        result = await run_child(child, case_of_turn(case, index))
        details.append({"turn": index, "scores": [describe_score(record) for record in result.scores]})
        if not result.is_skipped:
            scores, passes = [*scores, result.score or 0.0], [*passes, result.passed]
    if not scores:
        raise Skip("no_turns", "no turn could be scored")
    decided = [passed for passed in passes if passed is not None]
    failed = [turn["turn"] for turn in details if _has_failed(turn)]
    return Score(
        passed=all(decided) if decided else None,
        score=min(scores) if aggregate == "min" else sum(scores) / len(scores),
        reason=_failed_turns_reason(failed),
        details={"turns": details},
    )


def _failed_turns_reason(indexes: Sequence[int]) -> str:
    if not indexes:
        return ""
    return f"failed in turn{'s' * (len(indexes) > 1)} {', '.join(str(index + 1) for index in indexes)}"


def _has_failed(details: dict[str, Any]) -> bool:
    return "scores" not in details or any(score["passed"] is False for score in details["scores"])


def _check_code(parameters: Any, context: EvaluatorContext) -> None:
    if parameters.ref in built_in():
        raise InvalidValue(
            f"{parameters.ref!r} is a built-in evaluator. Use its own key; ref is for custom evaluators.",
            pointer="/parameters/ref",
        )
    find_child(parameters.ref, context, "/parameters/ref")
    bind_child(parameters.ref, parameters.parameters, context, "/parameters")


@evaluator(check=_check_code)
async def code(
    case: Case,
    context: EvaluatorContext,
    ref: Annotated[str, Meta(description="Key of the evaluator, or module:name.")],
    parameters: Annotated[dict[str, Any], Meta(description="Parameters of the evaluator.")] = {},  # noqa: B006 - never changed
) -> Any:
    """Run the custom evaluator `ref`."""
    child = bind_child(ref, parameters, context, "/parameters")
    result = await run_child(child, case)
    if result.is_skipped:
        reason, _, message = result.scores[0].reason.partition(": ")
        raise Skip(reason, message)
    scored = [record for record in result.scores if record.status == "scored"]
    return (
        _to_score(scored[0])
        if len(result.scores) == 1
        else [_to_score(record, _score_name(record, child.name)) for record in scored]
    )


def _score_name(record: ScoreRecord, evaluator_name: str) -> str:
    """Return the name of one of several scores; that of the evaluator as a whole is `all`."""
    return record.evaluator.removeprefix(f"{evaluator_name}.") if record.evaluator != evaluator_name else "all"


def _to_score(record: ScoreRecord, name: str | None = None) -> Score:
    fields = {field: getattr(record, field) for field in Score.__struct_fields__ if field != "name"}
    return Score(**fields, name=name)
