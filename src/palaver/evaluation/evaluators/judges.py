"""Evaluators that ask a judge or a person: llm_judge, goal_reached, human."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.evaluation import json_values
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.evaluators.expectations import DEFAULT_JUDGE
from palaver.evaluation.json_schema import check_schema
from palaver.evaluation.judge_prompt import SLOT_NAMES, JudgeName, Prompt, PromptMarks, parse_template
from palaver.evaluation.judge_verdict import (
    Retries,
    Samples,
    Scale,
    check_scale,
    combine_verdicts,
    most_frequent,
    verdict_schema,
)
from palaver.evaluation.review_questions import Question, Questions, check_questions
from palaver.evaluation.score import Score, Skip
from palaver.evaluation.target import Target


def _check_judge(parameters: Any, context: EvaluatorContext, *, slots: tuple[str, ...]) -> None:
    context.check_judge(parameters.judge, "/parameters/judge")
    if parameters.prompt is not None:
        parse_template(parameters.prompt, "/parameters/prompt", slots)
    check_scale(parameters.scale)
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


async def _ask_verdicts(
    ask: Callable[[str], Awaitable[Any]], fill_prompt: Callable[[PromptMarks], str], samples: int
) -> list[Any]:
    verdicts: list[Any] = []
    for _ in range(samples):
        marks = PromptMarks()
        verdicts.append(await ask(f"{marks.rule}\n\n{fill_prompt(marks)}"))
    return verdicts


@evaluator(title="LLM judge", threshold=0.5, check=partial(_check_judge, slots=SLOT_NAMES))
async def llm_judge(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    *,
    judge: JudgeName = DEFAULT_JUDGE,
    prompt: Prompt,
    schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of the verdict.")] = None,
    scale: Scale = None,
    samples: Samples = 1,
    retries: Retries = 2,
) -> Any:
    """A judge decides whether the answer passes, and gives a score from 0 to 1 and a reason.

    Placeholders in the prompt: {{inputs.x}}, {{text}}, {{expected}}, {{conversation}}, {{tool_calls}}. The judge is
    asked again if its verdict does not match the schema. If it cannot be reached, the result is an error, not a score.
    """
    ask = partial(context.judge, judge, schema=schema or verdict_schema(scale), retries=retries)
    fill_prompt = partial(parse_template(prompt, "").fill, case, target)
    return combine_verdicts(await _ask_verdicts(ask, fill_prompt, samples), scale)


_GOAL_SLOTS: Final = ("goal", *SLOT_NAMES)
_GOAL_PROMPT: Final = (
    "A user talked with an assistant. Was the user's goal reached?\n\nThe goal: {{goal}}\n\n{{conversation}}\n\n"
    "`turn` is the number of the turn in which the goal was first reached, as in its mark, or null if it was not "
    "reached. `score` says how far it was reached."
)


@evaluator(threshold=0.5, check=partial(_check_judge, slots=_GOAL_SLOTS))
async def goal_reached(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    *,
    judge: JudgeName = DEFAULT_JUDGE,
    goal: Annotated[str | None, Meta(description="The user's goal (default: the goal in the row).")] = None,
    prompt: Prompt | None = None,
    schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of the verdict.")] = None,
    scale: Scale = None,
    samples: Samples = 1,
    retries: Retries = 2,
) -> Any:
    """A judge decides whether the conversation reached its goal, to what extent, and in which turn.

    The goal is the parameter `goal`, else the goal in the script's `expect`, else `expected.goal`. The prompt can
    contain the placeholders of llm_judge, and {{goal}}.
    """
    ask = partial(context.judge, judge, schema=schema or _goal_schema(scale), retries=retries)
    template = parse_template(prompt or _GOAL_PROMPT, "", _GOAL_SLOTS)
    fill_prompt = partial(template.fill, case, target, extra_slots={"goal": goal or _find_goal(case, target)})
    verdicts = await _ask_verdicts(ask, fill_prompt, samples)
    combined = combine_verdicts([_without_turn(verdict) for verdict in verdicts], scale)
    if not isinstance(combined, Score):
        return combined
    turn = _reached_turn(verdicts, len(case.turns)) if combined.passed is not False else None
    return msgspec.structs.replace(combined, details={"turn": turn, **combined.details})


def _find_goal(case: Case, target: Target) -> str:
    value: Any = case.script.expect.get("goal") if case.script is not None else None
    if value is None:
        try:
            value = json_values.value_at(target.expected(case), ("goal",))
        except Skip:
            value = UNSET
    if not isinstance(value, str) or not value.strip():
        raise Skip("no_goal", "neither the parameters nor the row specify a goal")
    return value


def _goal_schema(scale: tuple[float, float] | None) -> dict[str, Any]:
    schema = verdict_schema(scale)
    schema["properties"]["turn"] = {"type": ["integer", "null"], "minimum": 0}
    return schema


def _reached_turn(verdicts: Sequence[Any], turn_count: int) -> int | None:
    """Return the existing turn that was named most often."""
    named_turns = [cast("Mapping[str, Any]", verdict).get("turn") for verdict in verdicts if isinstance(verdict, dict)]
    existing = [turn for turn in named_turns if type(turn) is int and 0 <= turn < turn_count]
    return most_frequent(existing) if existing else None


def _without_turn(verdict: Any) -> Any:
    if not isinstance(verdict, dict):
        return verdict
    return {key: value for key, value in cast("dict[str, Any]", verdict).items() if key != "turn"}


_DEFAULT_QUESTION = Question(key="correct")


@evaluator(check=lambda given, _: check_questions(given.questions, "/parameters/questions"))
async def human(
    case: Case,  # noqa: ARG001 - reviewers read it
    questions: Questions = [_DEFAULT_QUESTION],  # noqa: B006 - never changed
) -> None:
    """Reviewers answer questions about the answer. Skipped until a reviewer has answered."""
    raise Skip("awaiting_review", f"unanswered questions: {len(questions)}")
