"""tool_sequence: the sequence of tool calls matches the expected one."""

from typing import Any

import pytest

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_record, score_summary


def sequence_case(names: str) -> Any:
    return case_with_calls(*[call(name, {"n": index}, f"c{index}") for index, name in enumerate(names)])


@pytest.mark.parametrize(
    ("names", "wanted", "mode", "passed", "score", "reason"),
    [
        ("ab", "ab", "strict", True, 1, ""),
        ("ba", "ab", "strict", False, 0.5, "in a different order"),
        ("abc", "ab", "strict", False, 0.6667, "unexpected c"),
        ("", "", "strict", True, 1, ""),
        ("", "a", "strict", False, 0, "missing a"),
        ("axb", "ab", "in_order", True, 1, ""),
        ("ba", "ab", "in_order", False, 0.5, "in a different order"),
        ("aa", "aab", "in_order", False, 0.6667, "missing b"),
        ("ba", "ab", "unordered", True, 1, ""),
        ("aab", "abb", "unordered", False, 0.6667, "missing b; unexpected a"),
        ("a", "ab", "subset", True, 1, ""),
        ("", "ab", "subset", True, 1, ""),
        ("ac", "ab", "subset", False, 0.5, "unexpected c"),
        ("cba", "ab", "superset", True, 1, ""),
        ("ca", "ab", "superset", False, 0.5, "missing b"),
        ("abc", "", "superset", True, 1, ""),
    ],
)
async def test_calls_are_compared_by_the_mode(
    names: str, wanted: str, mode: str, passed: bool, score: float, reason: str
) -> None:
    assert await score_summary("tool_sequence", sequence_case(names), {"calls": list(wanted), "mode": mode}) == (
        passed,
        score,
        reason,
    )


@pytest.mark.parametrize(
    ("arguments", "wanted", "passed"),
    [
        ("ignore", {"n": 9}, True),
        ("exact", {"n": 0.0}, True),
        ("exact", {"n": 9}, False),
        ("exact", {}, False),
        ("subset", {}, True),
        ("subset", {"n": 9}, False),
    ],
)
async def test_arguments_are_compared_by_the_arguments_mode(arguments: str, wanted: Any, passed: bool) -> None:
    parameters = {"calls": [{"name": "a", "arguments": wanted}], "arguments": arguments}

    assert (await score_record("tool_sequence", sequence_case("a"), parameters)).passed is passed


async def test_an_expected_name_alone_matches_any_arguments() -> None:
    assert (await score_record("tool_sequence", sequence_case("a"), {"calls": ["a"], "arguments": "exact"})).passed


async def test_unparsable_arguments_match_only_if_arguments_are_ignored() -> None:
    case = case_with_calls(call("a", '{"n": '))

    for arguments, passed in (("ignore", True), ("subset", False), ("exact", False)):
        parameters = {"calls": [{"name": "a", "arguments": {}}], "arguments": arguments}
        assert (await score_record("tool_sequence", case, parameters)).passed is passed


@pytest.mark.parametrize(
    "expected",
    [
        ["a", "b"],
        [{"name": "a"}, "b"],
        {"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}, {"function": {"name": "b"}}]},
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "ok"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "2", "type": "function", "function": {"name": "b", "arguments": "{}"}}],
            },
        ],
        [
            {"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"},
            {"type": "function_call", "call_id": "2", "name": "b", "arguments": "{}"},
        ],
    ],
)
async def test_expected_calls_are_read_from_the_row_in_many_formats(expected: Any) -> None:
    case = chat(Message.assistant(call("a", {}, "c1"), call("b", {}, "c2")), expected=expected)

    assert await score_summary("tool_sequence", case) == (True, 1, "")


async def test_an_expected_message_without_calls_allows_no_calls() -> None:
    message = {"role": "assistant", "content": "Oslo"}

    assert await score_summary("tool_sequence", chat(Message.assistant("Oslo"), expected=message)) == (True, 1, "")
    assert await score_summary("tool_sequence", chat(Message.assistant(call("a")), expected=message)) == (
        False,
        0,
        "unexpected a",
    )


async def test_an_expected_text_is_skipped() -> None:
    scored = await score_record("tool_sequence", chat(Message.assistant("Oslo"), expected="Oslo"))

    assert (scored.status, scored.reason) == (
        "skipped",
        "no_expected: the expected answer contains no tool calls",
    )


async def test_the_details_list_missing_and_unexpected_calls() -> None:
    expected_calls = [{"name": "a", "arguments": {"n": 7}}, "b"]
    scored = await score_record(
        "tool_sequence", sequence_case("ab"), {"calls": expected_calls, "mode": "unordered", "arguments": "exact"}
    )

    assert (scored.passed, scored.score) == (False, 0.5)
    assert scored.details == {
        "made": ["a", "b"],
        "wanted": ["a", "b"],
        "missing": [{"name": "a", "arguments": {"n": 7}}],
        "unexpected": [{"name": "a", "arguments": {"n": 0}}],
    }


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"calls": "a"}, "/parameters/calls"),
        ({"calls": [1]}, "/parameters/calls"),
        ({"calls": [{"name": "a", "match": "schema", "arguments": {"type": 1}}]}, "/parameters/calls/0/arguments"),
        ({"mode": "loose"}, "/parameters/mode"),
        ({"arguments": "schema"}, "/parameters/arguments"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("tool_sequence", parameters)[0] == pointer
