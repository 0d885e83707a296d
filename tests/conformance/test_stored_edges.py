"""Stored responses, conversations and other protocols combined: deletion, concurrent turns, shared runs."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest

from tests.conformance.stored_server import StoredServer

HELLO: Any = {"role": "user", "content": "Hello"}
CALL: Any = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
RESULT: Any = {"type": "function_call_output", "call_id": "c1", "output": "12:00"}


@pytest.fixture
def client(keeper: StoredServer) -> Iterator[openai.OpenAI]:
    with keeper.openai() as client:
        yield client


@pytest.fixture
def http(keeper: StoredServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=keeper.url, headers=keeper.headers, timeout=30) as client:
        yield client


def start_waiting_run(client: openai.OpenAI, conversation: str, gate: str) -> tuple[Any, str]:
    """A turn that waits at the gate: its stream and its id."""
    stream = client.responses.create(model="gated", input=gate, conversation=conversation, stream=True)
    first = next(stream)
    assert first.type == "response.created"
    return stream, first.response.id


def kinds(client: openai.OpenAI, conversation: str) -> list[str]:
    return [item.type for item in client.conversations.items.list(conversation, order="asc")]


# Conversations while a turn runs


def test_items_cannot_be_added_while_a_turn_runs(client: openai.OpenAI, keeper: StoredServer) -> None:
    conversation, gate = client.conversations.create().id, uuid4().hex
    stream, _ = start_waiting_run(client, conversation, gate)

    with pytest.raises(openai.ConflictError) as raised:
        client.conversations.items.create(conversation, items=[HELLO])
    keeper.open(gate)
    list(stream)
    client.conversations.items.create(conversation, items=[HELLO])

    assert raised.value.code == "conversation_locked"
    answer = client.responses.create(model="heard", input="And?", conversation=conversation)
    assert json.loads(answer.output_text) == [
        ["user", gate],
        ["assistant", "One. Two."],
        ["user", "Hello"],
        ["user", "And?"],
    ]


def test_a_conversation_cannot_be_deleted_while_a_turn_runs(client: openai.OpenAI, keeper: StoredServer) -> None:
    conversation, gate = client.conversations.create().id, uuid4().hex
    stream, _ = start_waiting_run(client, conversation, gate)

    with pytest.raises(openai.BadRequestError) as raised:
        client.conversations.delete(conversation)
    keeper.open(gate)

    assert raised.value.code == "still_running"
    assert list(stream)[-1].type == "response.completed"
    client.conversations.delete(conversation)


# Cascading deletion


def test_deleting_a_conversation_deletes_its_responses(client: openai.OpenAI) -> None:
    conversation = client.conversations.create().id
    name = client.responses.create(model="heard", input="Hi", conversation=conversation).id

    client.conversations.delete(conversation)

    for method in (client.responses.retrieve, client.responses.input_items.list, client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            method(name)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="heard", input="And?", previous_response_id=name)


def test_a_deleted_response_leaves_its_turn_in_the_conversation(client: openai.OpenAI) -> None:
    conversation = client.conversations.create().id
    first = client.responses.create(model="heard", input="Hi", conversation=conversation)

    client.responses.delete(first.id)

    assert kinds(client, conversation) == ["message", "message"]
    second = client.responses.create(model="heard", input="And?", conversation=conversation)
    assert json.loads(second.output_text) == [["user", "Hi"], ["assistant", first.output_text], ["user", "And?"]]


def test_a_response_of_a_conversation_can_be_continued_outside_it(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[HELLO]).id
    first = client.responses.create(model="heard", input="Hi", conversation=conversation)
    client.responses.create(model="heard", input="And?", conversation=conversation)

    continued = client.responses.create(model="heard", input="Or?", previous_response_id=first.id)

    assert json.loads(continued.output_text) == [
        ["user", "Hello"],
        ["user", "Hi"],
        ["assistant", first.output_text],
        ["user", "Or?"],
    ]
    assert len(kinds(client, conversation)) == 5


def test_deleting_a_tool_call_deletes_its_result(client: openai.OpenAI) -> None:
    second_turn: Any = [{**CALL, "name": "later"}, {**RESULT, "output": "13:00"}]
    conversation = client.conversations.create(items=[HELLO, CALL, RESULT, *second_turn]).id
    first = next(
        item.id for item in client.conversations.items.list(conversation, order="asc") if item.type != "message"
    )
    assert first is not None

    client.conversations.items.delete(first, conversation_id=conversation)

    answer = client.responses.create(model="heard", input="And?", conversation=conversation)
    assert json.loads(answer.output_text) == [
        ["user", "Hello"],
        ["assistant", "c1: later"],
        ["tool", "c1: 13:00"],
        ["user", "And?"],
    ]


def test_a_tool_call_whose_result_was_deleted_accepts_another_result(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[HELLO, CALL, RESULT]).id

    client.conversations.items.delete("fco_c1", conversation_id=conversation)

    assert kinds(client, conversation) == ["message", "function_call"]
    other: Any = {**RESULT, "output": "13:00"}
    answer = client.responses.create(model="heard", input=[other], conversation=conversation)
    assert json.loads(answer.output_text)[-1] == ["tool", "c1: 13:00"]


# Other protocols


def test_a_run_of_invocations_is_retrieved_and_replayed_as_a_response(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    sent = {"input": [{"role": "user", "content": "Hello there"}], "stream": True}
    with http.stream("POST", "/scripted/invocations", json=sent) as answer:
        name = f"resp_{answer.headers['x-palaver-run-id'].removeprefix('run_')}"
        answer.read()

    events = list(client.responses.retrieve(name, stream=True))

    assert client.responses.retrieve(name).output_text == "Hello there"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/scripted/v1/chat/completions", {"messages": [HELLO]}),
        ("/scripted/invoke", {"messages": [HELLO]}),
        ("/scripted/api/chat", {"messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}),
    ],
)
def test_a_run_of_another_protocol_is_not_found_as_a_response(
    client: openai.OpenAI, http: httpx.Client, path: str, body: Any
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 200
    name = f"resp_{answer.headers['x-request-id'].removeprefix('run_')}"

    for method in (client.responses.retrieve, client.responses.input_items.list, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            method(name)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="scripted", input="And?", previous_response_id=name)
