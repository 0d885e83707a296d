"""tool_called: the expected tools were called, and the expected number of times."""

from typing import Any

import pytest

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_record, score_summary

CASE = case_with_calls(
    call("search", {"q": "a", "n": 1}, "c1"), call("fetch", "{", "c2"), call("search", {"q": "b"}, "c3")
)


@pytest.mark.parametrize(
    ("parameters", "passed", "score", "reason"),
    [
        ({"names": "search"}, True, 1, ""),
        ({"names": ["search", "fetch"]}, True, 1, ""),
        ({"names": ["search", "search"]}, True, 1, ""),
        ({"names": ["search", "save"]}, False, 0.5, "calls: save 0×; expected 1 or more"),
        ({"names": ["search", "save"], "mode": "any"}, True, 0.5, "calls: save 0×; expected 1 or more"),
        ({"names": ["Search"], "mode": "any"}, False, 0, "calls: Search 0×; expected 1 or more"),
        ({"names": "search", "min": 2, "max": 2}, True, 1, ""),
        ({"names": "search", "max": 1}, False, 0, "calls: search 2×; expected 1"),
        ({"names": ["search", "fetch"], "min": 2, "max": 3}, False, 0.5, "calls: fetch 1×; expected 2 to 3"),
        ({"names": "save", "min": 0, "max": 0}, True, 1, ""),
        ({"names": "search", "arguments": {"q": "a"}}, True, 1, ""),
        ({"names": "search", "arguments": {"q": "a"}, "min": 2}, False, 0, "calls: search 1×; expected 2 or more"),
        (
            {"names": "search", "arguments": {"q": "a"}, "match": "exact"},
            False,
            0,
            "calls: search 0×; expected 1 or more",
        ),
        ({"names": "search", "arguments": {"n": 1.0, "q": "a"}, "match": "exact"}, True, 1, ""),
        ({"names": "search", "arguments": {"required": ["n"]}, "match": "schema"}, True, 1, ""),
        ({"names": "fetch", "arguments": {}}, False, 0, "calls: fetch 0×; expected 1 or more"),
        ({"names": "fetch", "arguments": {}, "match": "ignore"}, True, 1, ""),
    ],
)
async def test_tools_must_be_called_the_expected_number_of_times(
    parameters: dict[str, Any], passed: bool, score: float, reason: str
) -> None:
    assert await score_summary("tool_called", CASE, parameters) == (passed, score, reason)


async def test_an_answer_without_calls_does_not_pass() -> None:
    assert await score_summary("tool_called", chat(Message.assistant("Hi")), {"names": "search"}) == (
        False,
        0,
        "calls: search 0×; expected 1 or more",
    )


async def test_the_counts_are_in_the_details() -> None:
    assert (await score_record("tool_called", CASE, {"names": ["search", "save"]})).details == {
        "counts": {"search": 2, "save": 0}
    }


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"names": []}, "/parameters/names"),
        ({"names": "a", "min": 2, "max": 1}, "/parameters/max"),
        ({"names": "a", "min": -1}, "/parameters/min"),
        ({"names": "a", "match": "schema", "arguments": {"type": 3}}, "/parameters/arguments"),
        ({"names": "a", "match": "near"}, "/parameters/match"),
        ({"names": "a", "tool": "b"}, "/parameters/tool"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("tool_called", parameters)[0] == pointer
