"""tool_results_used: results of tools appear in later text or calls."""

from typing import Any

import pytest

from palaver.core.messages import Message, Text, ToolResult
from tests.evaluation.evaluators.fake_judge import call, chat, score_record, score_summary


@pytest.mark.parametrize(
    ("output", "text", "used"),
    [
        ({"city": "Oslo", "degrees": 21}, "It is warm in OSLO.", True),
        ({"city": "Oslo", "degrees": 21}, "It is 21 degrees there.", True),
        ({"city": "Oslo", "degrees": 21}, "It is 121 degrees, or 2.1.", False),
        ({"degrees": 21.0}, "About 21°C.", True),
        ({"degrees": -5}, "It is -5 outside.", True),
        ({"people": 1234567}, "There are 1,234,567 people.", True),
        ({"found": True}, "True enough.", False),
        (None, "null", False),
        ({}, "Nothing.", False),
        ("ok", "ok then", False),
        ("Oslo", "oslo", True),
        (" Oslo\n", "In Oslo.", True),
        ('{"city": "Oslo"}', "In Oslo.", True),
        ([{"type": "text", "text": '["Bergen"]'}], "In Bergen.", True),
        ({"a": [{"b": ["deep inside"]}]}, "Deep inside it is.", True),
        ("a long sentence", "a sentence", False),
        ([10**5000], "A lot.", False),
    ],
)
async def test_a_result_is_used_if_part_of_it_is_in_a_later_text(output: Any, text: str, used: bool) -> None:
    case = chat(Message.assistant(call("weather")), Message.tool("c", output), Message.assistant(text))

    expected = (True, 1, "") if used else (False, 0, "unused results: weather")
    assert await score_summary("tool_results_used", case) == expected


async def test_text_before_the_result_does_not_use_it() -> None:
    case = chat(
        Message.assistant(Text("I look up Oslo."), call("weather", {"city": "Oslo"})),
        Message.tool("c", {"city": "Oslo"}),
        Message.assistant("It is warm."),
    )

    assert await score_summary("tool_results_used", case) == (False, 0, "unused results: weather")


async def test_a_result_may_be_used_in_a_later_call() -> None:
    case = chat(
        Message.assistant(call("find", {"q": "Müller"}, "c1")),
        Message.tool("c1", {"id": "user-77", "name": "Müller"}),
        Message.assistant(call("load", '{"id": "USER-77"}', "c2")),
        Message.tool("c2", {"age": 40}),
        Message.assistant(call("say", '{"n": "fort\\u0079"}', "c3")),
    )

    scored = await score_record("tool_results_used", case)

    assert (scored.passed, scored.score) == (False, 0.5)
    assert scored.details == {
        "results": [
            {"call_id": "c1", "name": "find", "used": True},
            {"call_id": "c2", "name": "load", "used": False},
        ]
    }


async def test_escaped_characters_in_later_arguments_are_decoded() -> None:
    case = chat(
        Message.assistant(call("find")),
        Message.tool("c", {"name": "Müller"}),
        Message.assistant(call("load", '{"name": "M\\u00fcller"}', "d")),
    )

    assert await score_summary("tool_results_used", case) == (True, 1, "")


async def test_failed_results_are_ignored_and_parallel_results_checked_separately() -> None:
    case = chat(
        Message.assistant(call("a", "{}", "c1"), call("b", "{}", "c2"), call("c", "{}", "c3")),
        Message(
            role="tool",
            parts=(
                ToolResult(call_id="c1", output="Oslo"),
                ToolResult(call_id="c2", output="Bergen"),
                ToolResult(call_id="c3", output="no such city", is_error=True),
            ),
        ),
        Message.assistant("Only Bergen."),
    )

    assert await score_summary("tool_results_used", case) == (False, 0.5, "unused results: a")


async def test_an_answer_without_tool_results_passes() -> None:
    assert await score_summary("tool_results_used", chat(Message.assistant("Hi"))) == (True, 1, "")
    assert await score_summary("tool_results_used", chat(Message.assistant(call("a")))) == (True, 1, "")


async def test_min_length_allows_shorter_texts() -> None:
    case = chat(Message.assistant(call("a")), Message.tool("c", "ok"), Message.assistant("It is ok."))

    assert (await score_record("tool_results_used", case, {"min_length": 2})).passed


async def test_an_unavailable_judge_is_an_error() -> None:
    case = chat(Message.assistant(call("a")), Message.tool("c", "Oslo"), Message.assistant("There."))

    scored = await score_record("tool_results_used", case, {"judge": "tutor"})

    assert (scored.status, scored.reason) == (
        "error",
        "not_available: the judge 'tutor' is not available in an offline context",
    )
