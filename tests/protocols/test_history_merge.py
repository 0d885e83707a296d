"""Merging a request's messages with the stored history: item references, copies and contradictions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from palaver.core.messages import Data, Message, Reasoning, Text, ToolCall, ToolResult
from palaver.core.runs import Call
from palaver.errors import HistoryConflict, ItemNotFound
from palaver.protocols.history_merge import new_messages
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses import store
from palaver.protocols.responses.request import ResponsesRequest, continue_history, resolve_references
from tests.core.strategies import messages
from tests.protocols.fixed_run import find, json, request

CALL = ToolCall(call_id="c1", name="now", arguments="{}")
STORED = [
    Message(role="user", parts=(Text(text="Time?"),), id="u1"),
    Message(role="assistant", parts=(Reasoning(text="Hm."), Text(text="Let me see."), CALL), id="a1"),
]
STORED_WITH_RESULT = [*STORED, Message.tool("c1", {"is": "noon"})]


def decode(body: Any) -> tuple[Call, ResponsesRequest]:
    return responses.decode(replace(request(body), route="v1/responses"), find)


def merge_one(sent: Message, stored: list[Message] = STORED_WITH_RESULT, **options: Any) -> Message | None:
    return new_messages(stored, [sent], **options).get(0)


def reference(name: str) -> dict[str, str]:
    return {"type": "item_reference", "id": name}


# References


def test_item_reference_is_replaced_by_the_stored_item() -> None:
    stored = store.message_items(STORED_WITH_RESULT, "conv_1")
    body = {"instructions": "Be brief.", "input": [reference("a1"), reference("fc_c1"), reference("fco_c1"), {
        "role": "user", "content": "And now?"}]}  # fmt: skip
    call, parsed = resolve_references(*decode(body), {one.id: one.item for one in stored})

    assert call.messages == (
        Message.system("Be brief."),
        Message(role="assistant", parts=(Text(text="Let me see."), CALL), id="a1"),
        Message.tool("c1", '{"is":"noon"}'),
        Message.user("And now?"),
    )
    assert (call.preface, parsed.unresolved, parsed.references) == (1, (), [])
    assert parsed.places == ("instructions", "input[0]", "input[2]", "input[3]")


def test_reference_to_an_unknown_item_is_not_found() -> None:
    call, parsed = decode({"input": [{"role": "user", "content": "x"}, reference("msg_1")]})
    with pytest.raises(ItemNotFound) as caught:
        resolve_references(call, parsed, {})

    assert json(responses.encode_error(caught.value, parsed, status=404))["error"] == {
        "message": "Item 'msg_1' not found.",
        "type": "not_found",
        "code": "item_not_found",
        "param": "input[1].id",
    }


def test_request_without_references_is_unchanged() -> None:
    call, parsed = decode({"input": "x"})
    same = resolve_references(call, parsed, {})

    assert same[0] is call
    assert same[1] is parsed


# Continuing a stored history


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_stored_history_comes_before_the_new_input(field: str) -> None:
    call, parsed = decode({"instructions": "Be brief.", "input": "And now?", field: "resp_1"})
    call, parsed = continue_history(call, parsed, STORED_WITH_RESULT)

    assert call.messages == (Message.system("Be brief."), *STORED_WITH_RESULT, Message.user("And now?"))
    assert call.preface == 1
    assert parsed.places == ("instructions", field, field, field, "input")


def test_request_without_input_continues_the_stored_history() -> None:
    call, parsed = continue_history(*decode({"previous_response_id": "resp_1"}), STORED_WITH_RESULT)

    assert (call.messages, parsed.places) == (tuple(STORED_WITH_RESULT), ("previous_response_id",) * 3)


def test_history_conflict_points_to_the_item_in_the_request() -> None:
    items = [{"role": "user", "content": "x"}, {"type": "function_call_output", "call_id": "c1", "output": "midnight"}]
    call, parsed = decode({"instructions": "Be brief.", "previous_response_id": "resp_1", "input": items})
    with pytest.raises(HistoryConflict) as caught:
        continue_history(call, parsed, STORED_WITH_RESULT)

    assert json(responses.encode_error(caught.value, parsed, status=400))["error"] == {
        "message": "The result of call 'c1' differs from the stored result.",
        "type": "invalid_request",
        "code": "history_conflict",
        "param": "input[1]",
    }


def test_copies_of_stored_items_are_dropped_from_the_input() -> None:
    items = [
        {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"is":"noon"}'},
        {"role": "user", "content": "And now?"},
    ]
    call, parsed = decode({"conversation": "conv_1", "input": items})
    call, parsed = continue_history(call, parsed, STORED_WITH_RESULT)

    assert call.messages == (*STORED_WITH_RESULT, Message.user("And now?"))
    assert parsed.places == (*["conversation"] * 3, "input[2]")


# Copies and contradictions


@pytest.mark.parametrize(
    "copy",
    [
        STORED[0],
        STORED[1],
        replace(STORED[0], parts=(Text(text="Time?"), Data(name="x", value=1))),
        replace(STORED[1], parts=(Text(text="Let me see."),)),
        replace(STORED[1], parts=(Text(text="Let me see."), Reasoning(text="Hm."), Data(name="x", value=1))),
        Message.assistant(CALL),
        Message.tool("c1", {"is": "noon"}),
        Message.tool("c1", '{"is":"noon"}'),
    ],
)
def test_copy_of_a_stored_message_is_dropped(copy: Message) -> None:
    assert merge_one(copy) is None


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (replace(STORED[0], parts=(Text(text="Date?"),)), "Message 'u1' differs from the stored message."),
        (replace(STORED[0], role="assistant"), "Message 'u1' differs from the stored message."),
        (replace(STORED[1], parts=(Text(text="Let me"),)), "Message 'a1' differs from the stored message."),
        (Message.assistant(replace(CALL, arguments="[]")), "Call 'c1' differs from the stored call."),
        (Message.assistant(replace(CALL, name="rm")), "Call 'c1' differs from the stored call."),
        (Message.tool("c1", "midnight"), "The result of call 'c1' differs from the stored result."),
        (Message.tool("c1", {"is": "noon"}, is_error=True), "The result of call 'c1' differs from the stored result."),
    ],
)
def test_message_that_contradicts_the_stored_history_is_rejected(sent: Message, message: str) -> None:
    with pytest.raises(HistoryConflict) as caught:
        merge_one(sent)

    assert (caught.value.message, caught.value.pointer) == (message, "/messages/0")


def test_new_messages_and_calls_are_returned() -> None:
    fresh = [Message.user("And now?"), Message.assistant(ToolCall(call_id="c2", name="now")), Message.tool("c2", "x")]

    assert new_messages(STORED_WITH_RESULT, fresh, start=5) == {5: fresh[0], 6: fresh[1], 7: fresh[2]}
    both = Message.assistant(CALL, ToolCall(call_id="c2", name="now"))
    assert merge_one(both) == Message.assistant(ToolCall(call_id="c2", name="now"))


def test_result_is_accepted_only_for_calls_that_the_client_may_answer() -> None:
    result = Message.tool("c1", "noon")

    assert merge_one(result, STORED) == result
    assert merge_one(result, STORED, answerable={"c1"}) == result
    with pytest.raises(HistoryConflict, match="Call 'c1' can't be answered by the client"):
        merge_one(result, STORED, answerable=())


def test_repeated_call_id_accepts_a_new_result() -> None:
    repeated = [*STORED_WITH_RESULT, Message.assistant(CALL)]
    result = Message.tool("c1", "midnight")

    assert merge_one(result, repeated) == result


@given(st.lists(messages, max_size=4))
def test_full_copy_of_the_history_is_never_a_conflict(given: list[Message]) -> None:
    named = [
        replace(
            message,
            id=f"m{index}",
            parts=tuple(part for part in message.parts if not isinstance(part, ToolCall | ToolResult)),
        )
        for index, message in enumerate(given)
    ]

    assert new_messages(named, named) == {}
