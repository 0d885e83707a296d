"""Evaluation cases: the text, notes, tool calls, value and turns of an answer."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Data, File, Message, Reasoning, Refusal, ToolCall, ToolResult, Usage
from palaver.core.runs import Reply
from palaver.evaluation.case import (
    Case,
    CaseToolCall,
    Flags,
    Turn,
    case_of_turn,
    case_with_turns,
    last_user_message,
    make_turn,
    read_tool_calls,
)
from palaver.evaluation.target import answer_json

CALL = ToolCall(call_id="c1", name="search", arguments='{"q": 1}')
CHAT_FLAGS, WORKFLOW_FLAGS = Flags(is_chat=True), Flags(is_chat=False)


def chat_case(*messages: Message) -> Case:
    """A chat's answer."""
    turn = make_turn(Reply(run_id="", messages=messages, finish="stop"), is_chat=True)
    return case_with_turns(Case(flags=CHAT_FLAGS), [turn])


def value_case(value: Any) -> Case:
    """A workflow's answer."""
    turn = make_turn(Reply(run_id="", value=value, finish="stop"), is_chat=False)
    return case_with_turns(Case(flags=WORKFLOW_FLAGS), [turn])


@pytest.mark.parametrize(
    ("messages", "text", "notes", "json"),
    [
        ([Message.assistant("Hello ", "you")], "Hello you", set(), UNSET),
        ([Message.assistant("first"), Message.assistant("last")], "last", set(), UNSET),
        ([Message.assistant('{"a": 1}')], '{"a": 1}', set(), {"a": 1}),
        ([Message.assistant("So: ", '```json\n{"a": 1}\n```')], 'So: ```json\n{"a": 1}\n```', set(), {"a": 1}),
        ([Message.assistant("So: {“a”} {}")], "So: {“a”} {}", set(), {}),
        ([Message.assistant(Reasoning(text="hm"), "x")], "x", set(), UNSET),
        ([Message.assistant("x", CALL)], "x", set(), UNSET),
        ([Message.assistant("x", Refusal(text="no"))], "x", set(), UNSET),
        ([Message.assistant("x", Data(name="d", value=1))], "x", set(), UNSET),
        ([Message.assistant("x"), Message.assistant(CALL)], "", {"no_text"}, UNSET),
        ([Message.assistant(CALL), Message.tool("c1", {"r": 1})], "", {"no_text"}, UNSET),
        ([Message.assistant(CALL, Data(name="d", value=1))], "", {"no_text"}, UNSET),
        ([Message.assistant(CALL), Message.tool("c1", "r"), Message.assistant("done")], "done", set(), UNSET),
        ([], "", {"empty"}, UNSET),
        ([Message.assistant()], "", {"empty"}, UNSET),
        ([Message.assistant("")], "", {"empty"}, UNSET),
        ([Message.assistant(" \n")], " \n", {"empty"}, UNSET),
        ([Message.assistant(Reasoning(text="hm"))], "", {"empty"}, UNSET),
        ([Message.assistant(File(media_type="image/png", url="https://example.org/x"))], "", {"empty"}, UNSET),
        ([Message.assistant(Refusal(text="I will not."))], "", {"refusal"}, UNSET),
        ([Message.assistant(Refusal(text="no"), Data(name="d", value=1))], "", {"refusal"}, UNSET),
        ([Message.assistant(Data(name="edit", value={"a": 1}))], "", {"data_only"}, {"a": 1}),
        ([Message.assistant(Data(name="edit", value="text"))], "", {"data_only"}, "text"),
        ([Message.assistant(Data(name="a", value=1), Data(name="b", value=2))], "", {"data_only"}, 2),
        ([Message.assistant("x"), Message.assistant(Data(name="d", value=[1]))], "", {"data_only"}, [1]),
    ],
)
def test_text_notes_and_json_of_a_chats_answer(messages: list[Message], text: str, notes: set[str], json: Any) -> None:
    case = chat_case(*messages)

    assert (case.text, case.notes, answer_json(case), case.value) == (text, notes, json, UNSET)


@pytest.mark.parametrize(
    ("value", "text", "json"),
    [
        ("a text", "a text", UNSET),
        ("  as it is ", "  as it is ", UNSET),
        ('{"a": 1}', '{"a": 1}', {"a": 1}),
        ("", "", UNSET),
        ({"a": 1}, "", {"a": 1}),
        ([1, 2], "", [1, 2]),
        (5, "", 5),
        (None, "", None),
        (False, "", False),
        ({"role": "assistant", "content": "hi"}, "", {"role": "assistant", "content": "hi"}),
    ],
)
def test_text_and_json_of_a_workflows_value(value: Any, text: str, json: Any) -> None:
    case = value_case(value)

    assert (case.text, case.notes, answer_json(case), case.value) == (text, frozenset(), json, value)


def test_tool_calls_of_all_assistant_messages_are_paired_with_their_results() -> None:
    case = chat_case(
        Message.assistant("Let me see", CALL, ToolCall(call_id="c2", name="broken", arguments="{")),
        Message.tool("c2", {"why": "no"}, is_error=True),
        Message.tool("c1", None),
        Message.tool("c9", "nobody asked"),
        Message.assistant(ToolCall(call_id="c3", name="time")),
        Message.assistant("Done."),
    )

    assert case.tool_calls == (
        CaseToolCall(call_id="c1", name="search", arguments='{"q": 1}', parsed={"q": 1}, result=None, index=0),
        CaseToolCall(call_id="c2", name="broken", arguments="{", result={"why": "no"}, is_error=True, index=1),
        CaseToolCall(call_id="c3", name="time", arguments="", parsed={}, index=2),
    )
    assert case.turns[0].tool_calls == case.tool_calls


def test_results_of_a_repeated_call_id_are_assigned_in_order() -> None:
    calls = read_tool_calls(
        [
            Message.assistant(CALL, CALL),
            Message.tool("c1", 1),
            Message(role="assistant", parts=(ToolResult(call_id="c1", output=2), CALL)),
        ]
    )

    assert [call.result for call in calls] == [1, 2, UNSET]


def test_arguments_are_parsed_only_if_they_are_json() -> None:
    (call,) = read_tool_calls([Message.assistant(ToolCall(call_id="c", name="f", arguments="not json"))])

    assert (call.arguments, call.parsed) == ("not json", UNSET)
    assert read_tool_calls([Message.assistant(ToolCall(call_id="c", name="f", arguments='"text"'))])[0].parsed == "text"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ([{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}], ["f"]),
        ([{"function": {"name": "f", "arguments": {"x": 1}}}, {"function": {"name": "g"}}], ["f", "g"]),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]}, ["f"]),
        ([{"role": "assistant", "content": "no calls"}], []),
        ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], ["f"]),
        ([{"function": {"name": "f"}}, 5], []),
        ({"function": {"name": "f"}}, []),
        ("f()", []),
        ([], []),
        (None, []),
    ],
)
def test_tool_calls_are_read_from_a_workflows_value(value: Any, names: list[str]) -> None:
    assert [call.name for call in value_case(value).tool_calls] == names


def test_arguments_given_as_an_object_are_encoded_as_json() -> None:
    (call,) = value_case([{"id": 7, "function": {"name": "f", "arguments": {"x": 1}}}]).tool_calls

    assert call == CaseToolCall(call_id="7", name="f", arguments='{"x":1}', parsed={"x": 1})


def conversation_case() -> Case:
    """Two turns, and one that was not reached."""
    first = make_turn(
        Reply(run_id="", messages=(Message.assistant("One", CALL),), usage=Usage(1, 2, cost=0.5), finish="tool-calls"),
        is_chat=True,
        user=Message.user("first"),
        latency=1.5,
        first_output=0.25,
        expect={"text": "One"},
    )
    second = make_turn(
        Reply(run_id="", messages=(Message.assistant("Two", CALL, CALL),), usage=Usage(10, 20), finish="stop"),
        is_chat=True,
        user=Message.user("second"),
        latency=2.0,
    )
    case = Case(id="cell_1", history=(Message.system("Be brief."),), flags=CHAT_FLAGS)
    return case_with_turns(case, [first, second, Turn(user=Message.user("third"), reached=False)])


def test_a_case_aggregates_all_its_turns() -> None:
    case = conversation_case()

    assert (case.text, case.finish, case.latency, case.first_output) == ("Two", "stop", 3.5, 0.25)
    assert case.usage == Usage(11, 22, cost=0.5)
    assert [message.text for message in case.messages] == ["One", "Two"]
    assert [(call.turn, call.index) for call in case.tool_calls] == [(0, 0), (1, 1), (1, 2)]
    assert [turn.expect for turn in case.turns] == [{"text": "One"}, None, None]


def test_case_of_turn_holds_one_turn_with_the_history_before_it() -> None:
    case = case_of_turn(conversation_case(), 1)

    assert [message.text for message in case.history] == ["Be brief.", "first", "One", "second"]
    assert (case.id, case.text, case.latency, case.usage) == ("cell_1", "Two", 2.0, Usage(10, 20))
    assert [(call.turn, call.index) for call in case.tool_calls] == [(1, 0), (1, 1)]
    assert len(case.turns) == 1


def test_case_of_turn_of_a_single_turn_case_is_the_same_case() -> None:
    history = (Message.system("s"), Message.user("a"))
    case = case_with_turns(Case(history=history, flags=CHAT_FLAGS), [Turn(user=Message.user("a"))])

    assert case_of_turn(case, 0) == case


def test_a_case_without_turns_is_empty() -> None:
    case = case_with_turns(Case(flags=CHAT_FLAGS), [])

    assert (case.text, case.usage, case.tool_calls, case.latency) == ("", None, (), 0)


def test_last_user_message_is_returned_or_none() -> None:
    history = [Message.user("a"), Message.user("b"), Message.assistant("c")]

    assert last_user_message(history) == Message.user("b")
    assert last_user_message(history[2:]) is None
