"""tool_arguments: a tool was called with the expected arguments."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_record, score_summary

CASE = case_with_calls(
    call("search", '{"q": "a", "n": 1}', "c1"),
    call("fetch", {"url": "u"}, "c2"),
    call("search", '{"n":1.0,"q":"b"}', "c3"),
    call("broken", '{"q": ', "c4"),
)
MISMATCH_REASON = "the arguments of search differ from the expected ones"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"arguments": {"q": "a", "n": 1}}, (True, 1, "")),
        ({"arguments": {"n": 1, "q": "b"}}, (True, 1, "")),
        ({"arguments": {"q": "c"}}, (False, 0, MISMATCH_REASON)),
        ({"arguments": {"q": "a"}}, (False, 0, MISMATCH_REASON)),
        ({"arguments": {"q": "a"}, "match": "subset"}, (True, 1, "")),
        ({"arguments": {"q": "a"}, "match": "subset", "which": "first"}, (True, 1, "")),
        (
            {"arguments": {"q": "a"}, "match": "subset", "which": "last"},
            (False, 0, "the arguments of search do not include the expected ones"),
        ),
        (
            {"arguments": {"q": "a"}, "match": "subset", "which": "all"},
            (False, 0, "the arguments of search do not include the expected ones"),
        ),
        ({"arguments": {"n": 1}, "match": "subset", "which": "all"}, (True, 1, "")),
        ({"schema": {"required": ["q"]}, "which": "all"}, (True, 1, "")),
        ({"arguments": {"required": ["q"]}, "match": "schema"}, (True, 1, "")),
        (
            {"schema": {"properties": {"q": {"const": "a"}}}, "which": "last"},
            (False, 0, "the arguments of search do not match the schema: /q: 'a' was expected"),
        ),
        ({"tool": "broken", "arguments": {}, "match": "subset"}, (False, 0, "the arguments of broken are not JSON")),
        ({"tool": "broken", "schema": True}, (False, 0, "the arguments of broken are not JSON")),
        ({"tool": "save", "arguments": {}}, (False, 0, "save was not called")),
    ],
)
async def test_arguments_of_a_call_are_compared(parameters: dict[str, Any], expected: Any) -> None:
    assert await score_summary("tool_arguments", CASE, {"tool": "search", **parameters}) == expected


@pytest.mark.parametrize(
    ("expected", "summary"),
    [
        ([{"name": "search", "arguments": {"q": "b", "n": 1}}], (True, 1, "")),
        ({"tool_calls": [{"function": {"name": "search", "arguments": '{"q":"a","n":1}'}}]}, (True, 1, "")),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "x", "type": "function", "function": {"name": "search", "arguments": "{}"}}],
            },
            (False, 0, MISMATCH_REASON),
        ),
        (UNSET, (None, None, "no_expected: the row has no expected answer")),
        ("search", (None, None, "no_expected: the expected answer has no arguments for a call to search")),
        (["search"], (None, None, "no_expected: the expected answer has no arguments for a call to search")),
        (
            [{"name": "fetch", "arguments": {}}],
            (None, None, "no_expected: the expected answer has no arguments for a call to search"),
        ),
    ],
)
async def test_arguments_default_to_those_of_the_expected_call(expected: Any, summary: Any) -> None:
    case = case_with_calls(
        call("search", {"n": 1, "q": "a"}), call("search", {"n": 1, "q": "b"}, "d"), expected=expected
    )

    assert await score_summary("tool_arguments", case, {"tool": "search"}) == summary


async def test_the_expected_calls_may_be_in_another_column() -> None:
    case = chat(Message.assistant(call("search", {"q": 1})), row={"calls": [{"name": "search", "arguments": {"q": 1}}]})

    assert await score_summary("tool_arguments", case, {"tool": "search", "expected_from": "calls"}) == (True, 1, "")


async def test_each_call_is_in_the_details_with_its_exact_text() -> None:
    scored = await score_record("tool_arguments", CASE, {"tool": "search", "arguments": {"q": "b", "n": 1}})

    assert scored.details == {
        "calls": [
            {"arguments": '{"q": "a", "n": 1}', "fits": False},
            {"arguments": '{"n":1.0,"q":"b"}', "fits": True},
        ]
    }


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"arguments": {}, "schema": {}}, "/parameters/schema"),
        ({"schema": {"type": "nothing"}}, "/parameters/schema"),
        ({"schema": {"$ref": "http://example.com"}}, "/parameters/schema"),
        ({"match": "schema"}, "/parameters/schema"),
        ({"match": "schema", "arguments": {"pattern": "("}}, "/parameters/arguments"),
        ({"match": "ignore"}, "/parameters/match"),
        ({"which": "second"}, "/parameters/which"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("tool_arguments", {"tool": "search", **parameters})[0] == pointer
