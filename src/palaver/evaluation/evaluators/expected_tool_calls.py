"""Expected tool calls, and how actual calls match them.

Expected calls are messages in any dialect, `{"tool_calls": […]}`, or a list of names and `{name, arguments}`. A name
alone expects no particular arguments.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palaver.core import dialects, json
from palaver.core.dialects.detection import split_by_dialect
from palaver.core.json import is_list, is_object, json_equal
from palaver.core.messages import Message
from palaver.evaluation.case import CaseToolCall
from palaver.evaluation.json_schema import schema_errors
from palaver.testsets.scripts import json_contains

ArgumentMatch = Literal["exact", "subset", "schema", "ignore"]
SequenceMode = Literal["strict", "in_order", "unordered", "subset", "superset"]
ExpectedFrom = Annotated[
    str | None, Meta(description="Column, or path within the row, that holds the expected answer.")
]
"""Parameter of evaluators that compare with the expected answer but take no Target."""

_ARGUMENTS_KEYS: Final = ("arguments", "args", "input", "parameters")
_ARGUMENT_MATCHES: Final = frozenset(get_args(ArgumentMatch))
_MESSAGE_KEYS: Final = ("role", "content", "parts", "output")


class ExpectedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    arguments: Any | UnsetType = UNSET
    """A value, or text that could not be parsed; UNSET accepts any."""
    match: ArgumentMatch | None = None
    """Overrides the evaluator's `match` for this call."""


def read_expected_calls(value: object) -> tuple[ExpectedCall, ...] | None:
    """Read the expected calls in order; None if the value cannot hold any."""
    if is_list(value):
        calls = [_read_call(item) for item in value]
        return cast("tuple[ExpectedCall, ...]", tuple(calls)) if None not in calls else _calls_in_dialect(value)
    if not is_object(value):
        return None
    if (call := _read_call(value)) is not None:
        return (call,)
    if (from_messages := _calls_in_dialect(value)) is not None:
        return from_messages
    for key in ("tool_calls", "messages"):
        if is_list(value.get(key)):
            return read_expected_calls(value[key])
    return None


def calls_in_messages(messages: Sequence[Message]) -> tuple[ExpectedCall, ...]:
    return tuple(
        ExpectedCall(name=call.name, arguments=call.parsed) for message in messages for call in message.tool_calls
    )


def _calls_in_dialect(value: object) -> tuple[ExpectedCall, ...] | None:
    segments = split_by_dialect(value)
    try:
        return calls_in_messages(dialects.read_segments(segments)) if segments is not None else None
    except json.NotJson:
        return None


def _read_call(item: object) -> ExpectedCall | None:
    """Read a name, `{name, arguments}`, or Chat Completions' `{"function": {name, arguments}}`."""
    if isinstance(item, str):
        return ExpectedCall(name=item)
    if not is_object(item) or any(key in item for key in _MESSAGE_KEYS):
        return None
    function = item.get("function")
    call = function if is_object(function) else item
    name = call.get("name")
    if not isinstance(name, str):
        return None
    raw: Any = next((call[key] for key in _ARGUMENTS_KEYS if call.get(key) is not None), UNSET)
    arguments = json.parse_or_text(raw or "{}") if isinstance(raw, str) else raw
    match = item.get("match")
    return ExpectedCall(name=name, arguments=arguments, match=match if match in _ARGUMENT_MATCHES else None)


def as_name_list(names: str | Sequence[str]) -> list[str]:
    """Return one name or several as a list without duplicates."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def describe_call(call: ExpectedCall | CaseToolCall) -> dict[str, Any]:
    """Describe a call for the details of a score."""
    arguments = call.arguments if isinstance(call, ExpectedCall) or call.parsed is UNSET else call.parsed
    return {"name": call.name} if arguments is UNSET else {"name": call.name, "arguments": arguments}


# Single calls


def call_matches(call: CaseToolCall, expected: ExpectedCall, match: ArgumentMatch) -> bool:
    """Whether name and arguments match. The expected call's own `match` takes precedence."""
    return call.name == expected.name and arguments_match(call, expected.arguments, expected.match or match)


def arguments_match(call: CaseToolCall, expected: Any | UnsetType, match: ArgumentMatch) -> bool:
    """Whether the arguments match. Unparsable arguments match only if none are expected."""
    if match == "ignore" or expected is UNSET:
        return True
    if call.parsed is UNSET:
        return False
    match match:
        case "exact":
            return json_equal(call.parsed, expected)
        case "subset":
            return json_contains(call.parsed, expected)
        case "schema":
            return not schema_errors(call.parsed, expected)


# Sequences of calls


class SequenceComparison(msgspec.Struct, frozen=True):
    passed: bool
    score: float
    missing: tuple[ExpectedCall, ...]
    """Expected, but not made."""
    unexpected: tuple[CaseToolCall, ...]
    """Made, but not expected."""


def compare_calls(
    calls: Sequence[CaseToolCall], expected: Sequence[ExpectedCall], *, mode: SequenceMode, match: ArgumentMatch
) -> SequenceComparison:
    """Assign each expected call to the first free match; `strict` and `in_order` also check the order."""
    table = [[call_matches(call, expected_call, match) for call in calls] for expected_call in expected]
    assigned = _assign_calls(table)
    assigned_count = len(assigned)
    longest = max(len(calls), len(expected))
    match mode:
        case "strict":
            passed = len(calls) == len(expected) and all(row[index] for index, row in enumerate(table))
            score = _share(_longest_common_subsequence(table), longest)
        case "in_order":
            score = _share(_longest_common_subsequence(table), len(expected))
            passed = score == 1
        case "unordered":
            passed = assigned_count == len(calls) == len(expected)
            score = _share(assigned_count, longest)
        case "subset":
            passed = assigned_count == len(calls)
            score = _share(assigned_count, len(calls))
        case "superset":
            passed = assigned_count == len(expected)
            score = _share(assigned_count, len(expected))
    return SequenceComparison(
        passed=passed,
        score=score,
        missing=tuple(expected_call for index, expected_call in enumerate(expected) if index not in assigned),
        unexpected=tuple(call for index, call in enumerate(calls) if index not in assigned.values()),
    )


def _share(part: int, total: int) -> float:
    return part / total if total else 1.0


def _assign_calls(table: Sequence[Sequence[bool]]) -> dict[int, int]:
    """Return the index of the call that is assigned to each expected call, by the index of the latter."""
    assigned: dict[int, int] = {}
    used: set[int] = set()
    for expected_index, row in enumerate(table):
        index = next((index for index, matches in enumerate(row) if matches and index not in used), None)
        if index is not None:
            assigned[expected_index] = index
            used.add(index)
    return assigned


def _longest_common_subsequence(table: Sequence[Sequence[bool]]) -> int:
    lengths = [0] * (len(table[0]) + 1) if table else [0]
    for row in table:
        previous = lengths
        lengths = [0]
        for index, matches in enumerate(row, 1):
            lengths.append(previous[index - 1] + 1 if matches else max(previous[index], lengths[index - 1]))
    return lengths[-1]
