"""Rows and scripts from recorded calls."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Data, File, Message, Text, ToolCall
from palaver.errors import InvalidValue
from palaver.testsets import from_traces
from palaver.testsets.from_traces import (
    RecordedCall,
    accept_answer,
    call_from_conversation,
    make_row,
    make_script,
    make_script_row,
)
from palaver.testsets.scripts import read_script
from palaver.traces.model import Span


def _with_id(message: Message, message_id: str) -> Message:
    return Message(message.role, message.parts, message_id)


CALL = ToolCall("c1", "search_docs", '{ "q":"http" }')
CONVERSATION = [
    _with_id(Message.system("Be kind."), "m0"),
    _with_id(Message.assistant("Hello! What is it?"), "m1"),
    _with_id(Message.user("Which adaptor?"), "m2"),
    _with_id(Message.assistant(CALL), "m3"),
    _with_id(Message.tool("c1", {"hits": 1}), "m4"),
    _with_id(Message.assistant("The http one."), "m5"),
    _with_id(Message.user("Thanks"), "m6"),
    _with_id(Message.assistant("You are welcome."), "m7"),
]
REQUEST = [
    {"role": "system", "content": "Be kind."},
    {"role": "assistant", "content": "Hello! What is it?"},
    {"role": "user", "content": "Which adaptor?"},
]
TOOL_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search_docs", "arguments": '{ "q":"http" }'}},
    ],
}
REPLY = [
    TOOL_CALL,
    {"role": "tool", "tool_call_id": "c1", "content": '{"hits":1}'},
    {"role": "assistant", "content": "The http one."},
]


def test_a_conversation_is_split_after_the_last_user_message() -> None:
    row = make_row(call_from_conversation(CONVERSATION, inputs={"lang": "en", "page": {"n": 1}}))

    assert row == {
        "messages": [*REQUEST, *REPLY, {"role": "user", "content": "Thanks"}],
        "lang": "en",
        "page": {"n": 1},
        "expected": {"role": "assistant", "content": "You are welcome."},
    }
    assert list(row) == ["messages", "lang", "page", "expected"]


@pytest.mark.parametrize("upto", ["m2", "m3", "m4", "m5"])
def test_upto_splits_earlier_and_a_reply_of_several_messages_is_a_list(upto: str) -> None:
    assert make_row(call_from_conversation(CONVERSATION, upto=upto)) == {"messages": REQUEST, "expected": REPLY}


def test_a_lone_tool_call_has_its_exact_arguments_and_null_content() -> None:
    assert make_row(call_from_conversation(CONVERSATION[:4])) == {"messages": REQUEST, "expected": TOOL_CALL}


def test_a_row_without_a_reply_has_no_expected_column() -> None:
    assert make_row(call_from_conversation(CONVERSATION[:3])) == {"messages": REQUEST}


@pytest.mark.parametrize(("upto", "message"), [("m9", "Message 'm9' not found"), ("m1", "no user message")])
def test_an_invalid_upto_is_rejected(upto: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message) as caught:
        call_from_conversation(CONVERSATION, upto=upto)
    assert caught.value.pointer == "/source/upto"


def test_columns_can_be_renamed() -> None:
    call = RecordedCall([Message.user("hi")], {"lang": "en"}, [Message.assistant("ho")])

    row = make_row(call, {"messages": "chat", "expected": "answer"})

    assert row == {
        "chat": [{"role": "user", "content": "hi"}],
        "lang": "en",
        "answer": {"role": "assistant", "content": "ho"},
    }
    for columns, message in (({"lang": "expected"}, "Two columns"), ({"x": "y"}, "Cannot rename column 'x'")):
        with pytest.raises(InvalidValue, match=message):
            make_row(call, columns)


def test_an_input_named_expected_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="Two columns would be named 'expected'"):
        make_row(RecordedCall([], {"expected": 1}, [Message.assistant("ho")]))


def test_the_value_of_a_workflow_is_expected_unchanged() -> None:
    assert make_row(RecordedCall(inputs={"a": 1}, value=None)) == {"a": 1, "expected": None}
    assert make_row(RecordedCall(inputs={"a": 1}, value=[{"role": "user"}])) == {"a": 1, "expected": [{"role": "user"}]}


def test_a_script_has_a_turn_per_user_message_and_expects_the_called_tools() -> None:
    row = make_script_row(call_from_conversation(CONVERSATION, inputs={"lang": "en"}))

    assert row == {
        "script": {
            "start": REQUEST[:2],
            "turns": [
                {"user": "Which adaptor?", "expect": {"tools": [{"name": "search_docs"}]}},
                {"user": "Thanks"},
            ],
        },
        "lang": "en",
    }
    read_script(row["script"])


def test_a_script_preserves_user_messages_with_files() -> None:
    image = File("image/png", url="https://example.org/a.png")

    script = make_script([Message.user("Look:", image), Message.assistant(Data("chart", 1), CALL, CALL)])

    assert script == {
        "turns": [
            {
                "user": {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look:"},
                        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                    ],
                },
                "expect": {"tools": [{"name": "search_docs"}, {"name": "search_docs"}]},
            }
        ]
    }
    read_script(script)
    with pytest.raises(InvalidValue, match="the conversation has no user message"):
        make_script([Message.assistant("hello?")])


def _span(**fields: Any) -> Span:
    return Span(trace_id="a" * 32, span_id="b" * 16, start=datetime(2026, 11, 16, tzinfo=UTC), **fields)


HI, HO = Message.user("hi"), Message.assistant(Text("ho"))
HI_JSON, HO_JSON = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        # A model call: only its messages, not the other fields of the request.
        (
            {
                "kind": "llm",
                "messages_in": (HI,),
                "messages_out": (HO,),
                "inputs": {"messages": [HI_JSON], "temperature": 0},
                "outputs": {"choices": [{"message": HO_JSON}]},
            },
            {"messages": [HI_JSON], "expected": HO_JSON},
        ),
        # A Palaver chat, with inputs in addition to the messages.
        (
            {"conventions": ("palaver",), "messages_in": (HI,), "messages_out": (HO,), "inputs": {"lang": "en"}},
            {"messages": [HI_JSON], "lang": "en", "expected": HO_JSON},
        ),
        # A Palaver workflow: inputs and outputs are used unchanged, even if they contain a conversation.
        (
            {
                "conventions": ("palaver",),
                "messages_in": (HI,),
                "messages_out": (HO,),
                "inputs": {"data": {"messages": [HI_JSON]}},
                "outputs": {"messages": [HO_JSON]},
            },
            {"data": {"messages": [HI_JSON]}, "expected": {"messages": [HO_JSON]}},
        ),
        # Another application: a list of messages among the inputs stays in its column.
        (
            {
                "kind": "workflow",
                "messages_in": (HI,),
                "inputs": {"messages": [HI_JSON], "country": "Chad"},
                "outputs": "N'Djamena",
            },
            {"messages": [HI_JSON], "country": "Chad", "expected": "N'Djamena"},
        ),
        (
            {"messages_in": (HI,), "inputs": {"body": {"messages": [HI_JSON]}, "n": 1}},
            {"messages": [HI_JSON], "n": 1},
        ),
        # The question beside a history is the last user message.
        (
            {
                "messages_in": (HI, HO, Message.user("And?")),
                "inputs": {"question": "And?", "history": [HI_JSON, HO_JSON], "lang": "en"},
                "outputs": "Well.",
            },
            {
                "messages": [HI_JSON, HO_JSON, {"role": "user", "content": "And?"}],
                "lang": "en",
                "expected": "Well.",
            },
        ),
        # The messages of the span lack the question, so it stays in its column.
        (
            {"messages_in": (HI, HO), "inputs": {"question": "And?", "history": [HI_JSON, HO_JSON]}},
            {"messages": [HI_JSON, HO_JSON], "question": "And?"},
        ),
        ({"inputs": {"a": 1, "b": None}, "outputs": {"c": []}}, {"a": 1, "b": None, "expected": {"c": []}}),
        ({"inputs": "a question", "outputs": 5}, {"input": "a question", "expected": 5}),
        ({"outputs": False}, {"expected": False}),
        # If the answer repeats the request, only the messages after it are expected.
        ({"messages_in": (HI,), "messages_out": (HI, HO)}, {"messages": [HI_JSON], "expected": HO_JSON}),
        # Messages under a key of the other side are not used for this side.
        (
            {"messages_in": (HO,), "inputs": {"output_messages": [HO_JSON]}},
            {"output_messages": [HO_JSON]},
        ),
        (
            {"messages_in": (HI,), "messages_out": (HI,), "outputs": {"input_messages": [HI_JSON]}},
            {"messages": [HI_JSON], "expected": {"input_messages": [HI_JSON]}},
        ),
    ],
)
def test_a_span_becomes_a_row(fields: dict[str, Any], row: dict[str, Any]) -> None:
    assert make_row(from_traces.call_from_span(_span(**fields))) == row


def test_a_span_without_recorded_data_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="no recorded input or output"):
        from_traces.call_from_span(_span())


def test_accepting_an_answer_sets_the_expected_column() -> None:
    row = {"q": 1, "expected": "old", "note": "x"}

    assert accept_answer(row, RecordedCall(reply=[HO])) == {"q": 1, "expected": HO_JSON, "note": "x"}
    assert accept_answer(row, RecordedCall(value=None), column="answer") == {**row, "answer": None}
    assert row["expected"] == "old"
    with pytest.raises(InvalidValue, match="has no answer"):
        accept_answer(row, RecordedCall(value=UNSET))
