"""tool_arguments_valid: the arguments of every call are JSON and match the tool's schema, where known."""

from typing import Any

import pytest

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_record, score_summary

SCHEMAS = {"search": {"type": "object", "required": ["q"]}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (['{"q": 1}'], (True, 1, "")),
        (['{"q": 1}', "{}"], (False, 0.5, "search: the value: 'q' is a required property")),
        (
            ['{"q": ', '{"q": 1}', '{"q": 1}', ""],
            (False, 0.5, "search: the arguments are not JSON; search: the value: 'q' is a required property"),
        ),
        ([], (True, 1, "")),
    ],
)
async def test_every_call_has_valid_arguments(arguments: list[str], expected: Any) -> None:
    case = case_with_calls(*[call("search", text, f"c{index}") for index, text in enumerate(arguments)])

    assert await score_summary("tool_arguments_valid", case, {"schemas": SCHEMAS}) == expected


async def test_without_a_schema_any_json_is_valid() -> None:
    case = case_with_calls(call("a", ""), call("b", "[1]", "d"), call("c", "3", "e"), call("d", "nonsense", "f"))

    scored = await score_record("tool_arguments_valid", case)

    assert (scored.passed, scored.score, scored.reason) == (False, 0.75, "d: the arguments are not JSON")
    assert scored.details == {"faults": [{"index": 3, "name": "d", "faults": ["the arguments are not JSON"]}]}


async def test_an_answer_without_calls_is_valid() -> None:
    assert await score_summary("tool_arguments_valid", chat(Message.assistant("Hi"))) == (True, 1, "")


def test_an_invalid_schema_is_rejected_with_a_pointer() -> None:
    assert bind_error("tool_arguments_valid", {"schemas": {"a/b": {"type": 1}}})[0] == "/parameters/schemas/a~1b"
