"""exact_match: whether the answer equals the expected text, messages or JSON."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta

from palaver.core.messages import Message, Refusal, ToolCall
from palaver.evaluation import json_search
from palaver.evaluation.case import Case, read_messages
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.json_equality import json_equal
from palaver.evaluation.score import Score
from palaver.evaluation.target import Target

_SPACE = re.compile(r"\s+")


@evaluator(title="Exact match", needs={"expected"})
async def exact_match(
    case: Case,
    target: Target,
    *,
    trim: Annotated[bool, Meta(description="Leave out white space at both ends.")] = False,
    collapse_space: Annotated[bool, Meta(description="Take any white space as one blank.")] = False,
    tolerance: Annotated[float, Meta(ge=0, description="By how much numbers may differ.")] = 0,
) -> Score:
    """The answer is what is expected: the same text, the same messages, or the same JSON."""
    expected = target.expected(case)

    def normal(text: str) -> str:
        text = _SPACE.sub(" ", text) if collapse_space else text
        return target.fold_case(text.strip() if trim else text)

    if isinstance(expected, str):
        return _compare_texts(normal(target.text(case)), normal(expected))
    if case.flags.is_chat and target.target == "text" and (messages := read_messages(expected)) is not None:
        return _compare_messages(case, messages, normal, one=isinstance(expected, dict), tolerance=tolerance)
    return _compare_values(case, target, expected, tolerance)


def _compare_texts(actual: str, expected: str) -> Score:
    if actual == expected:
        return Score(passed=True)
    pairs = enumerate(zip(actual, expected, strict=False))
    place = next((at for at, (one, other) in pairs if one != other), min(len(actual), len(expected)))
    return Score(passed=False, reason=f"the text differs from what is expected at character {place + 1}")


def _compare_messages(
    case: Case, expected: Sequence[Message], normal: Callable[[str], str], *, one: bool, tolerance: float
) -> Score:
    actual: Sequence[Message] = case.messages
    if one:
        actual = [message for message in actual if message.role == "assistant"][-1:]
    some, others = _message_gists(actual, normal), _message_gists(expected, normal)
    for place, (mine, yours) in enumerate(zip(some, others, strict=False)):
        for what, value in yours.items():
            if not json_equal(mine[what], value, tolerance=tolerance):
                return Score(passed=False, reason=f"message {place + 1} differs in its {what}")
    if len(some) != len(others):
        return Score(passed=False, reason=f"there are {len(some)} messages, and {len(others)} are expected")
    return Score(passed=True)


def _message_gists(messages: Sequence[Message], normal: Callable[[str], str]) -> list[dict[str, Any]]:
    """What is compared of each message, without messages that have none of it."""
    gists = [
        {
            "role": message.role,
            "text": normal(message.text),
            "refusal": normal("".join(part.text for part in message.parts if isinstance(part, Refusal))),
            "calls": [_call_gist(call) for call in message.tool_calls],
            "results": [_parse_output(result.output) for result in message.tool_results],
        }
        for message in messages
    ]
    return [gist for gist in gists if gist["text"] or gist["refusal"] or gist["calls"] or gist["results"]]


def _call_gist(call: ToolCall) -> list[Any]:
    return [call.name, call.parsed]


def _parse_output(output: Any) -> Any:
    value = json_search.parse_whole(output) if isinstance(output, str) else UNSET
    return output if value is UNSET else value


def _compare_values(case: Case, target: Target, expected: Any, tolerance: float) -> Score:
    actual = target.raw(case)
    if isinstance(actual, str):
        actual = json_search.parse_whole(actual)
    if actual is UNSET:
        return Score(passed=False, reason="the answer is no JSON as a whole")
    if json_equal(target.fold_value(actual), target.fold_value(expected), tolerance=tolerance):
        return Score(passed=True)
    return Score(passed=False, reason="the value differs from what is expected")
