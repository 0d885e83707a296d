"""Expected tool calls are parsed from many formats, and matched with the actual calls."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core import json
from palaver.core.messages import Message, ToolCall
from palaver.evaluation.case import CaseToolCall
from palaver.evaluation.evaluators.expected_tool_calls import (
    ArgumentMatch,
    ExpectedCall,
    SequenceMode,
    arguments_match,
    compare_calls,
    read_expected_calls,
)

SEARCH = ExpectedCall(name="search", arguments={"q": "http"})
ANY_SEARCH = ExpectedCall(name="search")


def tool_call(name: str, arguments: str = "{}") -> CaseToolCall:
    parsed = json.parse_or_text(arguments) if json.is_json(arguments) else UNSET
    return CaseToolCall(call_id="c", name=name, arguments=arguments, parsed=parsed)


FUNCTION_CALL = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"q": "http"}'}}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ([], ()),
        (["search"], (ANY_SEARCH,)),
        ([{"name": "search", "arguments": {"q": "http"}}], (SEARCH,)),
        ([{"name": "search", "arguments": '{"q":"http"}'}], (SEARCH,)),
        ([{"name": "search", "args": {"q": "http"}, "id": "c", "type": "tool_call"}], (SEARCH,)),
        ([{"type": "tool_use", "id": "t", "name": "search", "input": {"q": "http"}}], (SEARCH,)),
        (["search", {"name": "search"}, {"name": "search", "arguments": None}], (ANY_SEARCH, ANY_SEARCH, ANY_SEARCH)),
        ([{"name": "search", "arguments": ""}], (ExpectedCall(name="search", arguments={}),)),
        ([{"name": "search", "arguments": '{"q'}], (ExpectedCall(name="search", arguments='{"q'),)),
        (
            [{"name": "search", "arguments": {}, "match": "exact"}],
            (ExpectedCall(name="search", arguments={}, match="exact"),),
        ),
        ([FUNCTION_CALL], (SEARCH,)),
        ({"tool_calls": [FUNCTION_CALL, FUNCTION_CALL]}, (SEARCH, SEARCH)),
        ({"tool_calls": []}, ()),
        ({"name": "search", "arguments": {"q": "http"}}, (SEARCH,)),
        ({"role": "assistant", "content": None, "tool_calls": [FUNCTION_CALL]}, (SEARCH,)),
        ({"role": "assistant", "content": "No."}, ()),
        (
            [
                {"role": "assistant", "content": None, "tool_calls": [FUNCTION_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "found"},
                {"role": "assistant", "content": "Found."},
            ],
            (SEARCH,),
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "search", "input": {"q": "http"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "found"}]},
            ],
            (SEARCH,),
        ),
        (
            [
                {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"q": "http"}'},
                {"type": "function_call_output", "call_id": "c", "output": "found"},
            ],
            (SEARCH,),
        ),
        ([{"role": "model", "parts": [{"functionCall": {"name": "search", "args": {"q": "http"}}}]}], (SEARCH,)),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": [FUNCTION_CALL]}]}, (SEARCH,)),
        ("search", None),
        (None, None),
        (3, None),
        ({"a": 1}, None),
        ([1], None),
        ([["search"]], None),
        ({"tool_calls": [3]}, None),
    ],
)
def test_expected_calls_are_read_from_many_formats(value: Any, wanted: Any) -> None:
    assert read_expected_calls(value) == wanted


def test_expected_calls_are_read_from_palaver_messages() -> None:
    message = Message.assistant(ToolCall(call_id="c", name="search", arguments='{"q": "http"}'))

    assert read_expected_calls([json.to_builtins(message)]) == (SEARCH,)


@pytest.mark.parametrize(
    ("arguments", "wanted", "match", "is_match"),
    [
        ('{"b": 2, "a": 1}', {"a": 1, "b": 2}, "exact", True),
        ('{"a": 1.0}', {"a": 1}, "exact", True),
        ('{"a": true}', {"a": 1}, "exact", False),
        ('{"a": 1, "b": 2}', {"a": 1}, "exact", False),
        ('{"a": 1, "b": 2}', {"a": 1}, "subset", True),
        ('{"a": {"b": 1, "c": 2}}', {"a": {"c": 2.0}}, "subset", True),
        ('{"a": [1, 2]}', {"a": [1]}, "subset", False),
        ('{"a": [{"b": 1, "c": 2}]}', {"a": [{"b": 1}]}, "subset", True),
        ('{"a": null}', {"a": None}, "subset", True),
        ("{}", {"a": None}, "subset", False),
        ("{}", {}, "exact", True),
        ('{"a": 1}', {"type": "object", "required": ["a"]}, "schema", True),
        ('{"b": 1}', {"type": "object", "required": ["a"]}, "schema", False),
        ('{"a', {}, "subset", False),
        ('{"a', True, "schema", False),
        ('{"a', '{"a', "exact", False),
        ('{"a', {"a": 1}, "ignore", True),
        ('{"a', UNSET, "exact", True),
        ("[1]", [1.0], "exact", True),
    ],
)
def test_arguments_are_compared_by_the_match_mode(
    arguments: str, wanted: Any, match: ArgumentMatch, is_match: bool
) -> None:
    assert arguments_match(tool_call("search", arguments), wanted, match) is is_match


A, B, C = tool_call("a"), tool_call("b"), tool_call("c")


@pytest.mark.parametrize(
    ("calls", "names", "mode", "passed", "score"),
    [
        ([A, B], "ab", "strict", True, 1),
        ([B, A], "ab", "strict", False, 1 / 2),
        ([A, B, C], "ab", "strict", False, 2 / 3),
        ([A], "ab", "strict", False, 1 / 2),
        ([], "", "strict", True, 1),
        ([A], "", "strict", False, 0),
        ([A, C, B], "ab", "in_order", True, 1),
        ([B, A], "ab", "in_order", False, 1 / 2),
        ([], "a", "in_order", False, 0),
        ([A], "", "in_order", True, 1),
        ([B, A], "ab", "unordered", True, 1),
        ([A, A], "ab", "unordered", False, 1 / 2),
        ([A, B, A], "ab", "unordered", False, 2 / 3),
        ([], "", "unordered", True, 1),
        ([A], "ab", "subset", True, 1),
        ([A, A], "ab", "subset", False, 1 / 2),
        ([], "ab", "subset", True, 1),
        ([C], "", "subset", False, 0),
        ([B, A, C], "ab", "superset", True, 1),
        ([A, C], "ab", "superset", False, 1 / 2),
        ([A], "aa", "superset", False, 1 / 2),
        ([A], "", "superset", True, 1),
    ],
)
def test_call_sequences_are_compared_by_the_mode(
    calls: list[CaseToolCall], names: str, mode: SequenceMode, passed: bool, score: float
) -> None:
    result = compare_calls(calls, [ExpectedCall(name=name) for name in names], mode=mode, match="ignore")

    assert (result.passed, result.score) == (passed, score)


def test_each_expected_call_takes_the_first_unused_matching_call() -> None:
    first, second, third = tool_call("a", '{"n": 1}'), tool_call("a", '{"n": 2}'), tool_call("b")
    expected_calls = [ExpectedCall(name="a", arguments={"n": 2}), ExpectedCall(name="a"), ExpectedCall(name="a")]

    result = compare_calls([first, second, third], expected_calls, mode="superset", match="exact")

    assert (result.passed, result.score) == (False, 2 / 3)
    assert result.missing == (expected_calls[2],)
    assert result.unexpected == (third,)


def test_an_expected_call_can_override_the_match_mode_of_its_arguments() -> None:
    expected_calls = [ExpectedCall(name="a", arguments={"n": 1}, match="subset")]

    assert compare_calls([tool_call("a", '{"n": 1, "m": 2}')], expected_calls, mode="strict", match="exact").passed
    assert not compare_calls([tool_call("a", '{"n": 2}')], expected_calls, mode="strict", match="ignore").passed
