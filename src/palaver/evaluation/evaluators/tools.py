"""Evaluators of tool calls: which were made, in what order, with what arguments, and whether results were used."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.core import json
from palaver.core.messages import Message, Text, ToolCall, ToolResult
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case, CaseToolCall
from palaver.evaluation.context import EvaluatorContext, offload
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.evaluators.expected_tool_calls import (
    ArgumentMatch,
    ExpectedFrom,
    SequenceComparison,
    SequenceMode,
    arguments_match,
    as_name_list,
    compare_calls,
    describe_call,
    read_expected_calls,
)
from palaver.evaluation.json_schema import Schema, check_schema, schema_errors
from palaver.evaluation.judge_prompt import PromptMarks
from palaver.evaluation.judge_verdict import check_optional_judge
from palaver.evaluation.score import Score, Skip
from palaver.evaluation.target import Target


def _check_tool_called(parameters: Any, _context: EvaluatorContext) -> None:
    if not as_name_list(parameters.names):
        raise InvalidValue("names must not be empty.", pointer="/parameters/names")
    if parameters.max is not None and parameters.max < parameters.min:
        raise InvalidValue("max must not be less than min.", pointer="/parameters/max")
    if parameters.match == "schema" and parameters.arguments is not None:
        check_schema(parameters.arguments, "/parameters/arguments")


@evaluator(needs={"tools"}, check=_check_tool_called)
def tool_called(
    case: Case,
    names: Annotated[str | list[str], Meta(description="Tool name, or list of names.")],
    *,
    mode: Annotated[
        Literal["all", "any"], Meta(description="Whether all of the tools or only one of them must be called.")
    ] = "all",
    min: Annotated[int, Meta(ge=0, description="Minimum number of calls to each tool.")] = 1,
    max: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="Maximum number of calls to each tool.")] = None,
    arguments: Annotated[Any, Meta(description="Count only calls with these arguments.")] = None,
    match: Annotated[ArgumentMatch, Meta(description="How to compare the arguments.")] = "subset",
) -> Score:
    """Every tool (or any one, if `mode` is `any`) was called between `min` and `max` times with matching arguments.

    The score is the share of tools called as required.
    """
    expected = UNSET if arguments is None else arguments
    counts = {
        name: sum(call.name == name and arguments_match(call, expected, match) for call in case.tool_calls)
        for name in as_name_list(names)
    }
    is_met = {name: min <= count and (max is None or count <= max) for name, count in counts.items()}
    mismatches = [f"{name} {counts[name]}×" for name in counts if not is_met[name]]
    wanted_count = f"{min} or more" if max is None else f"{min}" if min == max else f"{min} to {max}"
    return Score(
        passed=all(is_met.values()) if mode == "all" else any(is_met.values()),
        score=sum(is_met.values()) / len(is_met),
        reason=f"calls: {', '.join(mismatches)}; expected {wanted_count}" if mismatches else "",
        details={"counts": counts},
    )


def _check_tool_not_called(parameters: Any, _context: EvaluatorContext) -> None:
    if parameters.names is not None and not as_name_list(parameters.names):
        raise InvalidValue(
            "'names' must not be empty. Omit it to check for calls to any tool.", pointer="/parameters/names"
        )


@evaluator(needs={"tools"}, check=_check_tool_not_called)
async def tool_not_called(
    case: Case,
    names: Annotated[
        str | list[str] | None, Meta(description="Tool name, or list of names (default: any tool).")
    ] = None,
) -> Score:
    """None of the named tools was called, or no tool at all if `names` is omitted."""
    unwanted = None if names is None else as_name_list(names)
    counts = Counter(call.name for call in case.tool_calls if unwanted is None or call.name in unwanted)
    return Score(
        passed=not counts,
        reason=f"called {', '.join(f'{name} {count}×' for name, count in counts.items())}" if counts else "",
        details={"counts": dict(counts)},
    )


def _check_tool_arguments(parameters: Any, _context: EvaluatorContext) -> None:
    if parameters.arguments is not None and parameters.schema is not None:
        raise InvalidValue("'arguments' can't be combined with 'schema'.", pointer="/parameters/schema")
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")
    elif parameters.match == "schema":
        if parameters.arguments is None:
            raise InvalidValue("match 'schema' requires the parameter 'schema'.", pointer="/parameters/schema")
        check_schema(parameters.arguments, "/parameters/arguments")


@evaluator(needs={"tools"}, check=_check_tool_arguments)
def tool_arguments(
    case: Case,
    tool: Annotated[str, Meta(description="Tool name.")],
    *,
    arguments: Annotated[Any, Meta(description="Expected arguments (default: those of the expected call).")] = None,
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="JSON Schema for the arguments, instead of `arguments`.")
    ] = None,
    match: Annotated[Literal["exact", "subset", "schema"], Meta(description="How to compare the arguments.")] = "exact",
    which: Annotated[
        Literal["any", "first", "last", "all"], Meta(description="Which calls of the tool must match.")
    ] = "any",
    expected_from: ExpectedFrom = None,
) -> Score:
    """The tool was called with the expected arguments; `which` sets which of its calls must match."""
    if schema is not None:
        arguments, match = schema, "schema"
    expected: Any = _expected_arguments(case, tool, expected_from) if arguments is None else arguments
    calls = [call for call in case.tool_calls if call.name == tool]
    if not calls:
        return Score(passed=False, reason=f"{tool} was not called")
    matches = [arguments_match(call, expected, match) for call in calls]
    passed = {"any": any(matches), "first": matches[0], "last": matches[-1], "all": all(matches)}[which]
    details: dict[str, Any] = {
        "calls": [{"arguments": call.arguments, "fits": matched} for call, matched in zip(calls, matches, strict=True)]
    }
    if passed:
        return Score(passed=True, details=details)
    mismatch = calls[-1 if which == "last" else 0 if which == "first" else matches.index(False)]
    return Score(passed=False, reason=_arguments_reason(mismatch.parsed, expected, match, tool), details=details)


def _expected_arguments(case: Case, tool: str, expected_from: str | None) -> Any:
    calls = read_expected_calls(Target(expected_from=expected_from).expected(case))
    expected = next((call for call in calls or () if call.name == tool), None)
    if expected is None or expected.arguments is UNSET:
        raise Skip("no_expected", f"the expected answer has no arguments for a call to {tool}")
    return expected.arguments


def _arguments_reason(parsed: Any, expected: Schema, match: str, tool: str) -> str:
    if parsed is UNSET:
        return f"the arguments of {tool} are not JSON"
    if match == "schema":
        return f"the arguments of {tool} do not match the schema: {'; '.join(schema_errors(parsed, expected))}"
    difference = "differ from" if match == "exact" else "do not include"
    return f"the arguments of {tool} {difference} the expected ones"


def _check_schemas(parameters: Any, _context: EvaluatorContext) -> None:
    for name, schema in parameters.schemas.items():
        check_schema(schema, f"/parameters/schemas/{json.escape_pointer(name)}")


@evaluator(needs={"tools"}, check=_check_schemas)
def tool_arguments_valid(
    case: Case,
    schemas: Annotated[dict[str, dict[str, Any] | bool], Meta(description="JSON Schemas by tool name.")] = {},  # noqa: B006 - never changed
) -> Score:
    """The arguments of every call are JSON and match the tool's schema. The score is the share of valid calls."""
    faults = [_argument_errors(call, schemas) for call in case.tool_calls]
    invalid = [(call, errors) for call, errors in zip(case.tool_calls, faults, strict=True) if errors]
    return Score(
        passed=not invalid,
        score=1 - len(invalid) / len(faults) if faults else 1.0,
        reason="; ".join(f"{call.name}: {errors[0]}" for call, errors in invalid[:3]),
        details={"faults": [{"index": call.index, "name": call.name, "faults": errors} for call, errors in invalid]},
    )


def _argument_errors(call: CaseToolCall, schemas: dict[str, dict[str, Any] | bool]) -> list[str]:
    if call.parsed is UNSET:
        return ["the arguments are not JSON"]
    return schema_errors(call.parsed, schemas[call.name]) if call.name in schemas else []


def _check_tool_sequence(parameters: Any, _context: EvaluatorContext) -> None:
    if parameters.calls is None:
        return
    calls = read_expected_calls(parameters.calls)
    if calls is None:
        raise InvalidValue(
            "calls must be a list of names or {name, arguments} objects, or messages.", pointer="/parameters/calls"
        )
    for index, call in enumerate(calls):
        if call.match == "schema" and call.arguments is not UNSET:
            check_schema(call.arguments, f"/parameters/calls/{index}/arguments")


@evaluator(needs={"tools"}, check=_check_tool_sequence)
def tool_sequence(
    case: Case,
    calls: Annotated[
        Any, Meta(description="Tool names or {name, arguments} objects (default: the expected calls).")
    ] = None,
    *,
    mode: Annotated[SequenceMode, Meta(description="How the calls must match.")] = "strict",
    arguments: Annotated[
        Literal["ignore", "exact", "subset"], Meta(description="Whether and how to compare arguments.")
    ] = "ignore",
    expected_from: ExpectedFrom = None,
) -> Score:
    """The tool calls match the expected ones. `mode` sets whether order, extra calls and missing calls matter."""
    expected = read_expected_calls(Target(expected_from=expected_from).expected(case) if calls is None else calls)
    if expected is None:
        raise Skip("no_expected", "the expected answer contains no tool calls")
    comparison = compare_calls(case.tool_calls, expected, mode=mode, match=arguments)
    return Score(
        passed=comparison.passed,
        score=comparison.score,
        reason="" if comparison.passed else _sequence_reason(comparison, mode),
        details={
            "made": [call.name for call in case.tool_calls],
            "wanted": [call.name for call in expected],
            "missing": [describe_call(call) for call in comparison.missing],
            "unexpected": [describe_call(call) for call in comparison.unexpected],
        },
    )


def _sequence_reason(comparison: SequenceComparison, mode: SequenceMode) -> str:
    missing, unexpected = [[call.name for call in calls] for calls in (comparison.missing, comparison.unexpected)]
    reasons = [f"missing {', '.join(missing)}"] if missing and mode != "subset" else []
    reasons += [f"unexpected {', '.join(unexpected)}"] if unexpected and mode not in ("superset", "in_order") else []
    return "; ".join(reasons) or "in a different order"


@evaluator(needs={"tools"})
async def no_repeated_tool_call(
    case: Case,
    same: Annotated[
        Literal["name+arguments", "name"], Meta(description="What makes two calls the same.")
    ] = "name+arguments",
    max: Annotated[int, Meta(ge=1, description="Maximum number of times that the same call may be made.")] = 1,
) -> Score:
    """The same call is made at most `max` times. The score is distinct calls / total calls."""
    keys = [_call_key(call, same) for call in case.tool_calls]
    counts = Counter(keys)
    names = {key: call.name for key, call in zip(keys, case.tool_calls, strict=True)}
    repeated = [{"name": names[key], "times": times} for key, times in counts.items() if times > max]
    return Score(
        passed=not repeated,
        score=len(counts) / len(keys) if keys else 1.0,
        reason="; ".join(f"{call['name']} was called {call['times']}×" for call in repeated),
        details={"repeated": repeated},
    )


def _call_key(call: CaseToolCall, same: str) -> Hashable:
    if same == "name":
        return call.name
    return call.name, call.arguments if call.parsed is UNSET else _hashable_json(call.parsed)


def _hashable_json(value: Any) -> Hashable:
    """Return a hashable value that is equal for equal JSON: 1 equals 1.0, true is not 1."""
    match value:
        case dict():
            items = cast("dict[str, Any]", value).items()
            return "object", frozenset((key, _hashable_json(item)) for key, item in items)
        case list():
            return "array", tuple(map(_hashable_json, cast("list[Any]", value)))
        case _:
            return type(value) is bool, value


_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_USED_SCHEMA: Final = {
    "type": "object",
    "properties": {"used": {"type": "boolean"}},
    "required": ["used"],
}


class _AssistantText(msgspec.Struct, frozen=True):
    """All text and arguments of the assistant, case-folded."""

    text: str
    starts: Sequence[int]
    """The offset of each message, and of the end."""
    numbers: Mapping[Decimal, int]
    """The last offset of each number."""


@evaluator(needs={"tools"}, check=check_optional_judge)
async def tool_results_used(
    case: Case,
    context: EvaluatorContext,
    min_length: Annotated[
        int, Meta(ge=1, description="Ignore strings in results shorter than this many characters.")
    ] = 3,
    judge: Annotated[str | None, Meta(description="Judge for results that are not quoted verbatim.")] = None,
) -> Score:
    """Text or a number from each successful result appears in a later answer or call. The score is the share used.

    If a judge is set, it decides on results that are not quoted verbatim.
    """
    results = [
        (result, index + 1)
        for index, message in enumerate(case.messages)
        for result in message.tool_results
        if not result.is_error
    ]
    used, assistant = await offload(context, _find_used_results, case.messages, results, min_length)
    if judge is not None:
        for index, (result, next_message) in enumerate(results):
            used[index] = used[index] or await _judge_result(
                context, judge, result, assistant.text[assistant.starts[next_message] :]
            )
    names = {call.call_id: call.name for call in case.tool_calls}
    details = [
        {"call_id": result.call_id, "name": names.get(result.call_id, ""), "used": is_used}
        for (result, _), is_used in zip(results, used, strict=True)
    ]
    unused = [str(item["name"]) for item in details if not item["used"]]
    return Score(
        passed=not unused,
        score=sum(used) / len(used) if used else 1.0,
        reason=f"unused results: {', '.join(unused)}" if unused else "",
        details={"results": details},
    )


def _find_used_results(
    messages: Sequence[Message], results: Sequence[tuple[ToolResult, int]], min_length: int
) -> tuple[list[bool], _AssistantText]:
    assistant = _assistant_text(messages)
    return [
        any(_mentions(leaf, assistant, assistant.starts[next_message], min_length) for leaf in _leaves(result.output))
        for result, next_message in results
    ], assistant


def _assistant_text(messages: Sequence[Message]) -> _AssistantText:
    pieces: list[str] = []
    starts = [0]
    for message in messages:
        texts = [text.casefold() for text in _message_texts(message)] if message.role == "assistant" else []
        pieces += texts
        starts.append(starts[-1] + sum(len(text) + 1 for text in texts))
    text = "".join(f"{piece}\n" for piece in pieces)
    numbers = {Decimal(match[0].replace(",", "")): match.start() for match in _NUMBER.finditer(text)}
    return _AssistantText(text=text, starts=starts, numbers=numbers)


def _message_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, ToolCall):
            yield part.arguments
            yield from (leaf for leaf in _leaves(part.parsed) if isinstance(leaf, str))


def _mentions(leaf: Any, assistant: _AssistantText, start: int, min_length: int) -> bool:
    if isinstance(leaf, str):
        needle = leaf.strip().casefold()
        return len(needle) >= min_length and assistant.text.find(needle, start) >= 0
    if isinstance(leaf, bool) or not isinstance(leaf, int | float):
        return False
    try:
        return assistant.numbers.get(abs(Decimal(str(leaf))), -1) >= start
    except (InvalidOperation, ValueError):  # An integer of thousands of digits.
        return False


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a value, also of JSON in text."""
    for _, leaf in json_values.iterate_leaves(value):
        inner = json.parse_or_text(leaf) if isinstance(leaf, str) and leaf.lstrip()[:1] in ("{", "[") else leaf
        if inner is leaf:
            yield leaf
        else:
            yield from (inner_leaf for _, inner_leaf in json_values.iterate_leaves(inner))


async def _judge_result(context: EvaluatorContext, judge: str, result: ToolResult, afterwards: str) -> bool:
    marks = PromptMarks()
    output = marks.wrap("result", json.encode(json.to_builtins(result.output)).decode())
    prompt = (
        f"{marks.rule}\n\nA tool gave the result below. Does what was said and asked afterwards make use of it?\n\n"
        f"{output}\n\n{marks.wrap('afterwards', json.replace_surrogates(afterwards))}"
    )
    verdict = await context.judge(judge, prompt, schema=_USED_SCHEMA)
    return isinstance(verdict, dict) and verdict.get("used") is True  # pyright: ignore[reportUnknownMemberType]  # JSON
