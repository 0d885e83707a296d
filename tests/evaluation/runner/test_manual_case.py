"""Cases given by hand instead of by a run."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Message, Usage
from palaver.errors import InvalidMessages, InvalidValue
from palaver.evaluation.case import CaseToolCall, Flags
from palaver.evaluation.runner.manual_case import read_manual_case, reply_from_output

MESSAGES_WITH_CALL = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "2"},
    {"role": "assistant", "content": "Two."},
]


@pytest.mark.parametrize(
    ("output", "text", "notes"),
    [
        ("Hi", "Hi", set()),
        ("", "", {"empty"}),
        (None, "", {"empty"}),
        ({"role": "assistant", "content": "Hi"}, "Hi", set()),
        ({"role": "assistant", "parts": [{"type": "text", "text": "Hi"}]}, "Hi", set()),
        ({"messages": [{"role": "assistant", "content": "Hi"}]}, "Hi", set()),
        ([{"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}], "Hi", set()),
        ([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}], "Hi", set()),
        (MESSAGES_WITH_CALL, "Two.", set()),
        (MESSAGES_WITH_CALL[:1], "", {"no_text"}),
        ({"role": "assistant", "content": None, "refusal": "No."}, "", {"refusal"}),
        ({"role": "assistant", "parts": [{"type": "data", "name": "d", "value": 1}]}, "", {"data_only"}),
        ({"any": "json"}, "", {"data_only"}),
        ([1, 2], "", {"data_only"}),
        ([], "", {"data_only"}),
    ],
)
def test_the_output_of_a_chat_may_be_text_messages_or_json(output: Any, text: str, notes: set[str]) -> None:
    case = read_manual_case({"output": output, "flags": {"is_chat": True}})

    assert (case.text, case.notes, case.value) == (text, notes, UNSET)


@pytest.mark.parametrize("output", ["Hi", "", None, 0, False, {"a": 1}, [1], MESSAGES_WITH_CALL])
def test_the_output_of_any_other_workflow_is_its_value(output: Any) -> None:
    case = read_manual_case({"output": output, "flags": {"is_chat": False}})

    assert case.value == output
    assert case.text == (output if isinstance(output, str) else "")


def test_an_empty_document_is_a_chat_case_with_an_empty_answer() -> None:
    case = read_manual_case({})

    assert (case.text, case.notes, case.messages, case.expected) == ("", {"empty"}, (), UNSET)
    assert case.flags == Flags(is_chat=True, is_chat_source="derived")
    assert read_manual_case({"flags": {"is_chat": False}}).value is None


def test_all_fields_of_the_document_are_in_the_case() -> None:
    case = read_manual_case(
        {
            "inputs": {"topic": "maths"},
            "expected": None,
            "output": MESSAGES_WITH_CALL,
            "history": [{"role": "user", "content": "What?"}],
            "usage": {"input_tokens": 3, "cost": 0.5},
            "latency": 2,
            "first_output": 0.5,
            "finish": "content-filter",
            "unheard_of": 1,
        }
    )

    assert (case.inputs, case.expected) == ({"topic": "maths"}, None)
    assert case.row == {"topic": "maths", "expected": None}
    assert (case.history, case.turns[0].user) == ((Message.user("What?"),), Message.user("What?"))
    assert case.usage == Usage(3, 0, cost=0.5)
    assert (case.latency, case.first_output, case.finish) == (2.0, 0.5, "content-filter")
    assert case.tool_calls == (CaseToolCall(call_id="a", name="f", arguments='{"x":1}', parsed={"x": 1}, result="2"),)


def test_an_answer_that_ends_with_an_open_tool_call_has_the_finish_tool_calls() -> None:
    assert read_manual_case({"output": MESSAGES_WITH_CALL[:1]}).finish == "tool-calls"
    assert read_manual_case({"output": MESSAGES_WITH_CALL[:2]}).finish == "stop"


def test_messages_repeated_from_the_history_are_left_out_of_the_answer() -> None:
    history = [{"role": "user", "content": "What?"}]

    assert [
        one.text for one in read_manual_case({"history": history, "output": [*history, MESSAGES_WITH_CALL[2]]}).messages
    ] == ["Two."]


def test_turns_become_a_conversation() -> None:
    case = read_manual_case(
        {
            "history": "A word first.",
            "turns": [
                {"user": "One?", "output": "1", "expect": {"text": "1"}, "latency": 1, "usage": {"output_tokens": 1}},
                {"user": {"role": "user", "content": "Two?"}, "output": MESSAGES_WITH_CALL, "latency": 2},
                {"user": [{"type": "text", "text": "Three?"}], "output": None},
            ],
        }
    )

    assert [turn.user and turn.user.text for turn in case.turns] == ["One?", "Two?", "Three?"]
    assert [turn.text for turn in case.turns] == ["1", "Two.", ""]
    assert [turn.expect for turn in case.turns] == [{"text": "1"}, None, None]
    assert (case.text, case.notes, case.latency, case.usage) == ("", {"empty"}, 3.0, Usage(0, 1))
    assert case.history == (Message.user("A word first."),)


@pytest.mark.parametrize(
    ("document", "message", "pointer"),
    [
        (5, "A case must be an object.", "/case"),
        ([], "A case must be an object.", "/case"),
        ({"latency": "x"}, "/case/latency must be a number, not a string.", "/case/latency"),
        ({"latency": -1}, "/case/latency must be at least 0.", "/case/latency"),
        ({"flags": {"is_chat": 1}}, "/case/flags/is_chat must be a boolean, not an integer.", "/case/flags/is_chat"),
        ({"inputs": []}, "/case/inputs must be an object, not a list.", "/case/inputs"),
        (
            {"usage": {"input_tokens": 0.5}},
            "/case/usage/input_tokens must be an integer, not a number.",
            "/case/usage/input_tokens",
        ),
        ({"finish": "well"}, "/case/finish has an invalid value: 'well'.", "/case/finish"),
        ({"turns": []}, "/case/turns must not be empty.", "/case/turns"),
        ({"turns": [{"user": "a"}], "output": 1}, "'turns' can't be combined with 'output'.", "/case/turns"),
        (
            {"turns": [{"user": "a"}, {"user": [{"role": "user", "content": "b"}, {"role": "user", "content": "c"}]}]},
            "A turn must have exactly one user message.",
            "/case/turns/1/user",
        ),
        (
            {"turns": [{"user": "a", "latency": "x"}]},
            "/case/turns/0/latency must be a number, not a string.",
            "/case/turns/0/latency",
        ),
    ],
)
def test_invalid_documents_are_rejected_with_a_pointer(document: Any, message: str, pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_manual_case(document)

    assert (refused.value.message, refused.value.pointer) == (message, pointer)


@pytest.mark.parametrize(
    ("document", "pointer"),
    [({"history": [1]}, "/case/history/0"), ({"turns": [{"user": 5}]}, "/case/turns/0/user")],
)
def test_invalid_messages_are_rejected_with_a_pointer(document: Any, pointer: str) -> None:
    with pytest.raises(InvalidMessages) as refused:
        read_manual_case(document)

    assert refused.value.pointer == pointer


def test_repeated_tool_calls_and_lone_tool_results_can_still_be_scored() -> None:
    repeated = [
        MESSAGES_WITH_CALL[0],
        MESSAGES_WITH_CALL[1],
        MESSAGES_WITH_CALL[0],
        {"role": "assistant", "content": "Two."},
    ]

    reply = reply_from_output(repeated, is_chat=True)

    assert [call.name for message in reply.messages for call in message.tool_calls] == ["f", "f"]
    assert reply.finish == "tool-calls"
    assert reply_from_output(MESSAGES_WITH_CALL[1:2], is_chat=True).messages[0].tool_results[0].output == "2"
