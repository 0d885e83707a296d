"""goal_reached: the user of a conversation got what they wanted; and in which turn."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.evaluation.judging import prompting, verdicts
from palaver.evaluation.judging.verdicts import JudgeName, Prompt, Retries, Samples, Scale
from palaver.evaluation.matching.expecting import JUDGE
from palaver.evaluation.matching.json_schemas import check_schema
from palaver.evaluation.matching.marks import Marks
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip
from palaver.evaluation.values import paths

_SLOTS: Final = ("goal", *prompting.SLOTS)
_PROMPT: Final = (
    "A user talked with an assistant. Was the user's goal reached?\n\nThe goal: {{goal}}\n\n{{conversation}}\n\n"
    "`turn` is the number of the turn in which it was reached first, as its mark says, or null if it was not reached. "
    "`score` says how far it was reached."
)


def _check(parameters: Any, reach: Reach) -> None:
    reach.check_judge(parameters.judge, "/parameters/judge")
    prompting.template(parameters.prompt or _PROMPT, "/parameters/prompt", _SLOTS)
    verdicts.check_scale(parameters.scale)
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(threshold=0.5, check=_check)
async def goal_reached(
    case: Case,
    aim: Aim,
    reach: Reach,
    *,
    judge: JudgeName = JUDGE,
    goal: Annotated[str | None, Meta(description="What the user wants; otherwise the case says so.")] = None,
    prompt: Prompt | None = None,
    schema: Annotated[dict[str, Any] | None, Meta(description="What it has to answer, as a JSON Schema.")] = None,
    scale: Scale = None,
    samples: Samples = 1,
    retries: Retries = 2,
) -> Any:
    """A judge says of the whole conversation whether its goal was reached, how far, and in which turn.

    The goal is the parameter's, else that of the script's `expect`, else `expected.goal`. The prompt has the slot
    {{goal}} beside those of llm_judge.
    """
    wanted = schema or _schema(scale)
    told = {"goal": goal or _goal(case, aim)}
    said: list[Any] = []
    for _ in range(samples):
        marks = Marks()
        asked = prompting.template(prompt or _PROMPT, "", _SLOTS).filled(case, aim, marks, told)
        said.append(await reach.judge(judge, f"{marks.rule}\n\n{asked}", schema=wanted, retries=retries))
    found = verdicts.score_of([_without_turn(one) for one in said], scale)
    if not isinstance(found, Score):
        return found
    turn = _turn(said, len(case.turns)) if found.passed is not False else None
    return msgspec.structs.replace(found, details={"turn": turn, **found.details})


def _goal(case: Case, aim: Aim) -> str:
    found: Any = case.script.expect.get("goal") if case.script is not None else None
    if found is None:
        try:
            found = paths.at(aim.expected(case), ("goal",))
        except Skip:
            found = UNSET
    if not isinstance(found, str) or not found.strip():
        raise Skip("no_goal", "neither the parameters nor the case say what the goal is")
    return found


def _schema(scale: tuple[float, float] | None) -> dict[str, Any]:
    schema = verdicts.schema_of(scale)
    schema["properties"]["turn"] = {"type": ["integer", "null"], "minimum": 0}
    return schema


def _turn(said: Sequence[Any], turns: int) -> int | None:
    """The turn that was named most often, if there is such a turn."""
    named = [cast("Mapping[str, Any]", one).get("turn") for one in said if isinstance(one, dict)]
    found = [turn for turn in named if type(turn) is int and 0 <= turn < turns]
    return verdicts.most_said(found) if found else None


def _without_turn(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    return {key: value for key, value in cast("dict[str, Any]", one).items() if key != "turn"}
