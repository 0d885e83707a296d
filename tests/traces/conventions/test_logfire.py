"""Logfire and Pydantic AI: the messages of an agent run in one attribute, split into input and output."""

from typing import Any

import pytest

from palaver.core import json
from palaver.core.messages import Message, ToolCall
from palaver.traces.conventions import gen_ai, pydantic_ai
from palaver.traces.model import Tool
from tests.traces.conventions.convention_cases import read_fields


def text(value: Any) -> str:
    return json.encode(value).decode()


def text_message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


CALL = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "now", "arguments": "{}"}]}
RESULT = {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "name": "now", "result": "noon"}]}
CALL_MESSAGE, RESULT_MESSAGE = Message.assistant(ToolCall("c", "now", "{}")), Message.tool("c", "noon")
TURN = [
    text_message("system", "Be brief."),
    text_message("user", "Time?"),
    CALL,
    RESULT,
    text_message("assistant", "Noon."),
]
TURN_IN = (Message.system("Be brief."), Message.user("Time?"))
TURN_OUT = (CALL_MESSAGE, RESULT_MESSAGE, Message.assistant("Noon."))
NEXT_TURN = [text_message("user", "Sure?"), text_message("assistant", "Yes.")]
NEXT_TURN_IN = (*TURN_IN, *TURN_OUT, Message.user("Sure?"))


@pytest.mark.parametrize(
    ("messages", "index", "messages_in", "messages_out"),
    [
        (TURN, None, TURN_IN, TURN_OUT),
        ([*TURN, *NEXT_TURN], 5, NEXT_TURN_IN, (Message.assistant("Yes."),)),
        # One Pydantic AI request became two messages, system and user: the index is one too small.
        ([*TURN, *NEXT_TURN], 4, NEXT_TURN_IN, (Message.assistant("Yes."),)),
        ([*TURN, *NEXT_TURN], None, NEXT_TURN_IN, (Message.assistant("Yes."),)),
        ([*TURN, *NEXT_TURN], "5", NEXT_TURN_IN, (Message.assistant("Yes."),)),
        ([*TURN, *NEXT_TURN], -1, NEXT_TURN_IN, (Message.assistant("Yes."),)),
        ([*TURN, *NEXT_TURN], 99, (*NEXT_TURN_IN, Message.assistant("Yes.")), ()),
        # The run continues from a call that the caller answered.
        (TURN, 3, (*TURN_IN, CALL_MESSAGE, RESULT_MESSAGE), (Message.assistant("Noon."),)),
        (
            [text_message("system", "a"), text_message("assistant", "b")],
            None,
            (Message.system("a"),),
            (Message.assistant("b"),),
        ),
        ([text_message("system", "a")], None, (Message.system("a"),), ()),
        ([], None, (), ()),
    ],
    ids=repr,
)
def test_all_messages_are_split_before_the_answer_of_this_run(
    messages: Any, index: Any, messages_in: Any, messages_out: Any
) -> None:
    attributes = {"pydantic_ai.all_messages": text(messages), "pydantic_ai.new_message_index": index}

    assert pydantic_ai.agent_conversation(attributes) == (messages_in, messages_out)


EVENTS = [
    {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief."},
    {"event.name": "gen_ai.user.message", "role": "user", "content": "Time?", "gen_ai.message.index": 0},
    {
        "event.name": "gen_ai.assistant.message",
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}],
    },
    {"event.name": "gen_ai.tool.message", "role": "tool", "id": "c", "name": "now", "content": "noon"},
]
NAMED_RESULT = Message("tool", RESULT_MESSAGE.parts, None, "now")


def test_an_event_list_gives_input_messages_and_choices_as_output() -> None:
    choice = {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Noon."}}

    assert pydantic_ai.agent_conversation({"events": text([*EVENTS, choice, {"event.name": "other"}, 7])}) == (
        (*TURN_IN, CALL_MESSAGE, NAMED_RESULT),
        (Message.assistant("Noon."),),
    )


def test_events_of_a_run_are_split_after_its_prompt() -> None:
    answer = {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Noon."}

    assert pydantic_ai.agent_conversation({"all_messages_events": text([*EVENTS, answer])}) == (
        TURN_IN,
        (CALL_MESSAGE, NAMED_RESULT, Message.assistant("Noon.")),
    )


@pytest.mark.parametrize("value", [None, 7, "", "later", "[]", "[1]", '[{"event.name":3}]', "{}"], ids=repr)
def test_an_invalid_event_list_gives_no_messages(value: Any) -> None:
    assert pydantic_ai.agent_conversation({"events": value, "all_messages_events": value}) == ((), ())


def test_an_agent_run_has_its_conversation_and_its_result() -> None:
    attributes = {
        "agent_name": "clock",
        "pydantic_ai.all_messages": text(TURN),
        "final_result": '{"time":"noon"}',
    }

    assert read_fields(gen_ai, attributes) == {
        "kind": "agent",
        "messages_in": TURN_IN,
        "messages_out": TURN_OUT,
        "outputs": {"time": "noon"},
        "workflow": "clock",
    }
    assert read_fields(gen_ai, {"final_result": "42"}) == {"outputs": "42"}


def test_legacy_attributes_of_a_tool_span_are_read() -> None:
    attributes = {
        "gen_ai.tool.name": "now",
        "gen_ai.tool.call.id": "c",
        "tool_arguments": '{"tz":"UTC"}',
        "tool_response": "noon",
    }

    assert read_fields(gen_ai, attributes) == {
        "kind": "tool",
        "tool": Tool(name="now", call_id="c"),
        "inputs": {"tz": "UTC"},
        "outputs": "noon",
    }
