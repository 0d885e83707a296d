"""tool_not_called: none of the given tools was called, or no tool at all."""

from typing import Any

import pytest

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_summary

CASE = case_with_calls(call("search"), call("search", "{", "d"), call("fetch", "{}", "e"))


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, (False, 0, "called search 2×, fetch 1×")),
        ({"names": "search"}, (False, 0, "called search 2×")),
        ({"names": ["save", "fetch"]}, (False, 0, "called fetch 1×")),
        ({"names": ["save"]}, (True, 1, "")),
    ],
)
async def test_none_of_the_named_tools_may_be_called(parameters: dict[str, Any], expected: Any) -> None:
    assert await score_summary("tool_not_called", CASE, parameters) == expected


async def test_an_answer_without_calls_passes() -> None:
    assert await score_summary("tool_not_called", chat(Message.assistant("Hi"))) == (True, 1, "")
    assert await score_summary("tool_not_called", chat()) == (True, 1, "")


def test_an_empty_list_of_names_is_rejected() -> None:
    assert bind_error("tool_not_called", {"names": []}) == (
        "/parameters/names",
        "Evaluator 'tool_not_called': 'names' must not be empty. Omit it to check for calls to any tool.",
    )
