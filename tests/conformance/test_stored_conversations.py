"""openai for Python: conversations are created, updated, listed, and answered one turn at a time."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import openai
import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import Response

from tests.conformance.stored_server import GET_TIME, StoredServer, error_fields

HELLO: Any = {"type": "message", "role": "user", "content": "Hello"}
LOCKED = {"status": 409, "type": "invalid_request", "code": "conversation_locked", "param": None}


@pytest.fixture
def client(keeper: StoredServer) -> Iterator[openai.OpenAI]:
    with keeper.openai() as client:
        yield client


def received_messages(response: Response) -> list[list[str]]:
    return json.loads(response.output_text)


def texts(client: openai.OpenAI, conversation: str) -> list[str]:
    """The texts of a conversation, oldest first."""
    return [_text(item) for item in client.conversations.items.list(conversation, order="asc")]


def _text(item: ConversationItem) -> str:
    assert item.type == "message"
    return "".join(part.text for part in item.content if part.type == "input_text" or part.type == "output_text")  # noqa: PLR1714 - so checkers understand it


def test_a_conversation_is_created_read_changed_and_deleted(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(metadata={"topic": "time"})
    changed = client.conversations.update(conversation.id, metadata={"topic": "space", "lang": "en"})

    assert conversation.to_dict() == {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": {"topic": "time"},
    }
    assert conversation.id.startswith("conv_")
    assert changed.to_dict() == conversation.to_dict() | {"metadata": {"topic": "space", "lang": "en"}}
    assert client.conversations.retrieve(conversation.id).to_dict() == changed.to_dict()
    assert client.conversations.delete(conversation.id).to_dict() == {
        "id": conversation.id,
        "object": "conversation.deleted",
        "deleted": True,
    }
    for call_deleted in (
        lambda: client.conversations.retrieve(conversation.id),
        lambda: client.conversations.update(conversation.id, metadata={}),
        lambda: client.conversations.delete(conversation.id),
        lambda: client.conversations.items.list(conversation.id),
        lambda: client.conversations.items.create(conversation.id, items=[HELLO]),
    ):
        with pytest.raises(openai.NotFoundError):
            call_deleted()
    with pytest.raises(openai.NotFoundError) as raised:
        client.responses.create(model="heard", input="Hi", conversation=conversation.id)
    assert raised.value.param == "conversation"


def test_items_are_added_listed_read_and_deleted(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[HELLO])
    call: Any = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
    result: Any = {"type": "function_call_output", "call_id": "c1", "output": "12:00"}

    added = client.conversations.items.create(conversation.id, items=[call, result])
    items = list(client.conversations.items.list(conversation.id, order="asc"))

    assert [item.type for item in added.data] == ["function_call", "function_call_output"]
    assert [item.to_dict() for item in items[1:]] == [item.to_dict() for item in added.data]
    assert _text(items[0]) == "Hello"
    for item in items:
        assert item.id is not None
        assert client.conversations.items.retrieve(item.id, conversation_id=conversation.id).to_dict() == item.to_dict()
    first = items[0].id
    assert first is not None
    assert client.conversations.items.delete(first, conversation_id=conversation.id).to_dict() == conversation.to_dict()
    assert [item.type for item in client.conversations.items.list(conversation.id)] == [
        "function_call_output",
        "function_call",
    ]
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(first, conversation_id=conversation.id)


def test_items_are_paginated(client: openai.OpenAI) -> None:
    sent = [f"{number}." for number in range(7)]
    items: Any = [{"role": "user", "content": text} for text in sent]
    conversation = client.conversations.create(items=items)

    for limit in (1, 3, 7, 100):
        pages = client.conversations.items.list(conversation.id, limit=limit, order="asc")
        assert [_text(item) for item in pages] == sent
    newest = client.conversations.items.list(conversation.id, limit=2)
    assert ([_text(item) for item in newest.data], newest.has_more) == (["6.", "5."], True)


def test_a_turn_receives_earlier_turns_without_their_instructions(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[HELLO])

    first = client.responses.create(model="heard", input="One?", conversation=conversation.id, instructions="Be brief.")
    second = client.responses.create(model="heard", input="Two?", conversation={"id": conversation.id})

    assert received_messages(first) == [["system", "Be brief."], ["user", "Hello"], ["user", "One?"]]
    assert received_messages(second) == [
        ["user", "Hello"],
        ["user", "One?"],
        ["assistant", first.output_text],
        ["user", "Two?"],
    ]
    assert second.conversation is not None
    assert second.conversation.id == conversation.id
    assert texts(client, conversation.id) == ["Hello", "One?", first.output_text, "Two?", second.output_text]


def test_a_conversation_leaves_out_failed_turns_but_keeps_cancelled_ones(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    fails = json.dumps([{"text": "One. "}, {"fail": {"code": "model_down", "message": "The model is down."}}])
    with pytest.raises(openai.InternalServerError, match="The model is down"):
        client.responses.create(model="scripted", input=fails, conversation=conversation.id)

    assert texts(client, conversation.id) == []

    stream = client.responses.create(
        model="gated", input=(gate := uuid4().hex), conversation=conversation.id, stream=True
    )
    first = next(stream)
    assert first.type == "response.created"
    for event in stream:
        if event.type == "response.output_text.delta":
            client.responses.cancel(first.response.id)

    assert texts(client, conversation.id) == [gate, "One. "]


def test_a_tool_result_answers_a_stored_call_of_the_conversation(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    [tool_call] = client.responses.create(
        model="heard", input="What time is it?", conversation=conversation.id, tools=[GET_TIME]
    ).output
    assert tool_call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": tool_call.call_id, "output": "12:00"}

    answer = client.responses.create(model="heard", input=[result], conversation=conversation.id)

    assert received_messages(answer) == [
        ["user", "What time is it?"],
        ["assistant", "c1: get_time"],
        ["tool", "c1: 12:00"],
    ]


# Concurrent turns


def test_a_concurrent_second_turn_is_rejected(client: openai.OpenAI, keeper: StoredServer) -> None:
    conversation = client.conversations.create()
    gate = uuid4().hex
    stream = client.responses.create(model="gated", input=gate, conversation=conversation.id, stream=True)
    next(stream)

    with pytest.raises(openai.ConflictError) as raised:
        client.responses.create(model="heard", input="And?", conversation=conversation.id)
    keeper.open(gate)

    assert error_fields(raised.value) == LOCKED
    assert raised.value.response.headers["retry-after"] == "1"
    assert list(stream)[-1].type == "response.completed"
    assert texts(client, conversation.id) == [gate, "One. Two."]
    after = client.responses.create(model="heard", input="And?", conversation=conversation.id)
    assert received_messages(after) == [["user", gate], ["assistant", "One. Two."], ["user", "And?"]]


def test_a_client_with_retries_succeeds_once_the_conversation_is_unlocked(keeper: StoredServer) -> None:
    gate, refused = uuid4().hex, threading.Event()

    def note(response: Any) -> None:
        if response.status_code == 409:
            refused.set()

    hooks: dict[str, list[Any]] = {"response": [note]}
    with (
        openai.DefaultHttpxClient(event_hooks=hooks) as http_client,
        openai.OpenAI(
            base_url=f"{keeper.url}/v1", api_key=keeper.key, http_client=http_client, max_retries=5
        ) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        conversation = client.conversations.create()
        stream = client.responses.create(model="gated", input=gate, conversation=conversation.id, stream=True)
        next(stream)

        second = pool.submit(client.responses.create, model="heard", input="And?", conversation=conversation.id)
        assert refused.wait(30)
        keeper.open(gate)
        assert list(stream)[-1].type == "response.completed"

        assert received_messages(second.result(30)) == [["user", gate], ["assistant", "One. Two."], ["user", "And?"]]
        assert texts(client, conversation.id)[:3] == [gate, "One. Two.", "And?"]
