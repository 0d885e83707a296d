"""Verdicts of judges: ask for one, check it against its schema, combine several.

A judge is asked again if its verdict does not match the schema. Several verdicts are combined field by field: numbers
by their mean, booleans by majority (a draw is false), anything else by frequency.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palaver.core import json
from palaver.core.messages import Message, Usage
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.context import EvaluatorContext, record_spending
from palaver.evaluation.json_schema import schema_errors
from palaver.evaluation.score import Score, ScoringError
from palaver.outbound import printable

Scale = Annotated[
    tuple[float, float] | None, Meta(description="Lowest and highest score that the judge may give (default: 0 and 1).")
]
Samples = Annotated[int, Meta(ge=1, le=20, description="Number of verdicts to ask for and combine.")]
Retries = Annotated[
    int, Meta(ge=0, le=10, description="Maximum number of retries for verdicts that don't match the schema.")
]

_SCORE_FIELDS: Final = frozenset({"passed", "score", "label", "reason"})


def verdict_schema(scale: tuple[float, float] | None) -> dict[str, Any]:
    """Return the default schema. The reason comes first, so that the judge reasons before it decides."""
    lowest, best = scale or (0, 1)
    return {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "passed": {"type": "boolean"},
            "score": {"type": "number", "minimum": lowest, "maximum": best},
        },
        "required": ["reason", "passed", "score"],
    }


def check_scale(scale: tuple[float, float] | None) -> None:
    """Raise InvalidValue unless the scale is increasing."""
    if scale is not None and not scale[0] < scale[1]:
        raise InvalidValue("scale must be [lowest, highest], with lowest < highest.", pointer="/parameters/scale")


def check_optional_judge(parameters: Any, context: EvaluatorContext) -> None:
    """Raise InvalidValue if the parameters name a judge that can never answer."""
    if parameters.judge is not None:
        context.check_judge(parameters.judge, "/parameters/judge")


def combine_verdicts(verdicts: Sequence[Any], scale: tuple[float, float] | None) -> Any:
    """Combine verdicts into a Score, or into an object of the evaluator's own schema."""
    if not all(isinstance(verdict, dict) for verdict in verdicts):
        value = _combine_values(list(verdicts))
        return _normalize(value, scale) if _is_number(value) else value
    objects = [cast("dict[str, Any]", verdict) for verdict in verdicts]
    keys = dict.fromkeys(key for verdict in objects for key in verdict)
    merged = {key: _combine_values([verdict[key] for verdict in objects if key in verdict]) for key in keys}
    if not merged.keys() & {"passed", "score"}:
        return merged
    number = merged.get("score")
    passed = merged.get("passed", number if isinstance(number, bool) else None)
    label, details = merged.get("label"), {key: value for key, value in merged.items() if key not in _SCORE_FIELDS}
    if len(objects) > 1:
        details["verdicts"] = objects
    if scale is not None and _is_number(number):
        details["on_scale"] = number
    return Score(
        passed=passed if isinstance(passed, bool) else None,
        score=_normalize(number, scale) if _is_number(number) else None,
        label=label if isinstance(label, str) else None,
        reason=_agreeing_reason(objects, passed),
        details=details,
    )


def most_frequent(values: Sequence[Any]) -> Any:
    """Return the most frequent value; of equally frequent ones, the first."""
    texts = [json.encode(value) for value in values]
    return values[texts.index(Counter(texts).most_common(1)[0][0])]


def _combine_values(values: list[Any]) -> Any:
    if all(isinstance(value, bool) for value in values):
        return sum(values) * 2 > len(values)
    if all(_is_number(value) for value in values):
        return sum(values) / len(values) if len(values) > 1 else values[0]
    return most_frequent(values)


def _agreeing_reason(objects: Sequence[Mapping[str, Any]], passed: Any) -> str:
    """Return the first reason of a verdict that agrees with the result, else the first one."""
    reasoned = [verdict for verdict in objects if isinstance(verdict.get("reason"), str)]
    agreeing = [verdict for verdict in reasoned if verdict.get("passed", verdict.get("score")) == passed]
    return next((verdict["reason"] for verdict in (*agreeing, *reasoned)), "")


def _normalize(number: Any, scale: tuple[float, float] | None) -> float:
    if scale is None:
        return float(number)
    return min(1.0, max(0.0, (number - scale[0]) / (scale[1] - scale[0])))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


DEFAULT_RETRIES: Final = 2
"""Number of retries after an answer that does not match the schema."""
_MAX_ANSWER_LENGTH: Final = 20_000
"""Characters of an invalid answer that are shown to the judge again."""

VerdictSchema = Mapping[str, Any]


class JudgeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    text: str = ""
    value: Any | UnsetType = UNSET
    """Set if the model returned a value instead of text."""
    usage: Usage | None = None
    cost: float | None = None


class JudgeModel(Protocol):
    """A model or workflow that gives verdicts."""

    async def answer(self, messages: Sequence[Message], schema: VerdictSchema) -> JudgeAnswer:
        """Answer the messages. Raises ScoringError."""
        ...


async def ask_verdict(model: JudgeModel, prompt: str, schema: VerdictSchema, *, retries: int = DEFAULT_RETRIES) -> Any:
    """Ask for a verdict. Invalid answers count as spending as well. Raises ScoringError."""
    messages = [Message.system(_system_prompt(schema)), Message.user(prompt)]
    faults: list[str] = []
    for _ in range(retries + 1):
        answer = await model.answer(messages, schema)
        record_spending(answer.usage, answer.cost)
        value = json_values.find_json(answer.text) if answer.value is UNSET else answer.value
        if isinstance(value, str) and answer.value is not UNSET:
            value = json_values.find_json(value)
        # In a thread, because validating against a client's schema may be slow.
        faults = ["it is not JSON"] if value is UNSET else await asyncio.to_thread(schema_errors, value, schema)
        if not faults:
            return value
        messages += [Message.assistant(_previous_answer(answer)), Message.user(_retry_prompt(faults))]
    raise ScoringError("bad_verdict", f"invalid verdict: {printable('; '.join(faults))}")


def _system_prompt(schema: VerdictSchema) -> str:
    return (
        "You are a judge. Judge only what you are asked to judge, and give no other help.\n"
        "Answer with one JSON value that matches this JSON Schema and with nothing else, without text around it:\n"
        f"{json.encode(json.to_builtins(schema)).decode()}"
    )


def _previous_answer(answer: JudgeAnswer) -> str:
    text = answer.text if answer.value is UNSET else json.encode(json.to_builtins(answer.value)).decode()
    return text[:_MAX_ANSWER_LENGTH] or "(nothing)"


def _retry_prompt(faults: Sequence[str]) -> str:
    return (
        f"That answer cannot be used: {'; '.join(faults)}.\n"
        "Answer the same question again with one JSON value that matches the schema, and with nothing else."
    )
