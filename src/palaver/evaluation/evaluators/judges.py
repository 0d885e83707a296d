"""Evaluators that ask a judge or a person: llm_judge, goal_reached, human."""

from collections.abc import Mapping, Sequence
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


def _check_llm_judge(parameters: Any, context: EvaluatorContext) -> None:
    context.check_judge(parameters.judge, "/parameters/judge")
    parse_template(parameters.prompt, "/parameters/prompt")
    check_scale(parameters.scale)
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="LLM judge", threshold=0.5, check=_check_llm_judge)
async def llm_judge(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    *,
    judge: JudgeName = DEFAULT_JUDGE,
    prompt: Prompt,
    schema: Annotated[dict[str, Any] | None, Meta(description="What it has to answer, as a JSON Schema.")] = None,
    scale: Scale = None,
    samples: Samples = 1,
    retries: Retries = 2,
) -> Any:
    """What a judge says of the answer: whether it passed, a score from 0 to 1, and why.

    Slots of the prompt: {{inputs.x}}, {{text}}, {{expected}}, {{conversation}}, {{tool_calls}}. An answer that does
    not fit the schema is asked for again; a judge that cannot be reached is an error, and no score.
    """
    answer_schema = schema or verdict_schema(scale)
    verdicts: list[Any] = []
    for _ in range(samples):
        marks = PromptMarks()
        question = parse_template(prompt, "").fill(case, target, marks)
        verdicts.append(
            await context.judge(judge, f"{marks.rule}\n\n{question}", schema=answer_schema, retries=retries)
        )
    return combine_verdicts(verdicts, scale)


_GOAL_SLOTS: Final = ("goal", *SLOT_NAMES)
_GOAL_PROMPT: Final = (
    "A user talked with an assistant. Was the user's goal reached?\n\nThe goal: {{goal}}\n\n{{conversation}}\n\n"
    "`turn` is the number of the turn in which it was reached first, as its mark says, or null if it was not reached. "
    "`score` says how far it was reached."
)


def _check_goal_reached(parameters: Any, context: EvaluatorContext) -> None:
    context.check_judge(parameters.judge, "/parameters/judge")
    parse_template(parameters.prompt or _GOAL_PROMPT, "/parameters/prompt", _GOAL_SLOTS)
    check_scale(parameters.scale)
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(threshold=0.5, check=_check_goal_reached)
async def goal_reached(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    *,
    judge: JudgeName = DEFAULT_JUDGE,
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
    answer_schema = schema or _goal_schema(scale)
    slots = {"goal": goal or _find_goal(case, target)}
    verdicts: list[Any] = []
    for _ in range(samples):
        marks = PromptMarks()
        question = parse_template(prompt or _GOAL_PROMPT, "", _GOAL_SLOTS).fill(case, target, marks, slots)
        verdicts.append(
            await context.judge(judge, f"{marks.rule}\n\n{question}", schema=answer_schema, retries=retries)
        )
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
        raise Skip("no_goal", "neither the parameters nor the case say what the goal is")
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


def _check_human(parameters: Any, _context: EvaluatorContext) -> None:
    check_questions(parameters.questions, "/parameters/questions")


_DEFAULT_QUESTION = Question(key="correct")


@evaluator(check=_check_human)
async def human(
    case: Case,  # noqa: ARG001 - reviewers read it
    questions: Questions = [_DEFAULT_QUESTION],  # noqa: B006 - never changed
) -> None:
    """Skipped until people have answered the questions in a review."""
    raise Skip("awaiting_review", f"{len(questions)} questions wait for a person")
