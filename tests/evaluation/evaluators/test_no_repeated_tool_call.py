"""no_repeated_tool_call: no tool is called twice with the same arguments."""

from typing import Any

import pytest

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_record, score_summary


@pytest.mark.parametrize(
    ("calls", "parameters", "expected"),
    [
        ([], {}, (True, 1, "")),
        (["{}"], {}, (True, 1, "")),
        (['{"a": 1}', '{"a": 2}'], {}, (True, 1, "")),
        (['{"a": 1, "b": 2}', '{"b":2.0,"a":1}'], {}, (False, 0.5, "search was called 2×")),
        (['{"a": 1}', '{"a": true}'], {}, (True, 1, "")),
        (['{"a": [1, 2]}', '{"a": [2, 1]}'], {}, (True, 1, "")),
        (['{"a": [1, {"b": null}]}', '{"a": [1.0, {"b": null}]}'], {}, (False, 0.5, "search was called 2×")),
        (["{", "{"], {}, (False, 0.5, "search was called 2×")),
        (["{", "{ "], {}, (True, 1, "")),
        (["", "{}"], {}, (False, 0.5, "search was called 2×")),
        (['{"a": 1}', '{"a": 2}'], {"same": "name"}, (False, 0.5, "search was called 2×")),
        (['{"a": 1}', '{"a": 1}'], {"max": 2}, (True, 0.5, "")),
        (['{"a": 1}', '{"a": 1}', '{"a": 1}'], {"max": 2}, (False, 0.3333, "search was called 3×")),
    ],
)
async def test_the_same_call_is_not_repeated_beyond_the_limit(
    calls: list[str], parameters: dict[str, Any], expected: Any
) -> None:
    case = case_with_calls(*[call("search", text, f"c{index}") for index, text in enumerate(calls)])

    assert await score_summary("no_repeated_tool_call", case, parameters) == expected


async def test_calls_of_two_tools_with_the_same_arguments_are_not_repeats() -> None:
    assert await score_summary("no_repeated_tool_call", case_with_calls(call("a"), call("b", "{}", "d"))) == (
        True,
        1,
        "",
    )


async def test_calls_of_all_messages_count_together() -> None:
    case = chat(Message.assistant(call("a")), Message.tool("c", 1), Message.assistant(call("a", "{}", "d")))

    assert (await score_record("no_repeated_tool_call", case)).details == {"repeated": [{"name": "a", "times": 2}]}


def test_max_must_be_at_least_one() -> None:
    assert bind_error("no_repeated_tool_call", {"max": 0})[0] == "/parameters/max"
