"""openai for Python: stored responses are retrieved, resumed, cancelled, deleted, listed and chained."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from uuid import uuid4

import openai
import pytest
from openai.types.responses import Response, ResponseCreatedEvent, ResponseStreamEvent

from tests.conformance.stored_server import GET_TIME, StoredServer, error_fields

TEXT_SCRIPT = [
    {"reasoning": "Let me see."},
    {"text": "One. "},
    {"text": "𝄞 Two."},
    {"usage": {"input_tokens": 3, "output_tokens": 4}},
]
TOOL_SCRIPT = [
    {"tool_call": {"name": "get_time", "id": "c1", "arguments": {"tz": "UTC"}}},
    {"tool_result": {"id": "c1", "output": {"at": "12:00"}}},
    {"text": "It is noon."},
]
FAILING_SCRIPT = [{"text": "One. "}, {"fail": {"code": "model_down", "message": "The model is down."}}]


@pytest.fixture
def client(keeper: StoredServer) -> Iterator[openai.OpenAI]:
    with keeper.openai() as client:
        yield client


def start_stream(client: openai.OpenAI, gate: str, **more: Any) -> tuple[Any, list[ResponseStreamEvent], str]:
    """Start a run that waits at the gate; return its stream, its events up to the first text, and its id."""
    stream = client.responses.create(model="gated", input=gate, stream=True, **more)
    first_events: list[ResponseStreamEvent] = []
    for event in stream:
        first_events.append(event)
        if event.type == "response.output_text.delta":
            break
    assert isinstance(first_events[0], ResponseCreatedEvent)
    return stream, first_events, first_events[0].response.id


def as_dicts(events: Sequence[ResponseStreamEvent]) -> list[dict[str, Any]]:
    return [event.to_dict() for event in events]


def received_messages(response: Response) -> list[list[str]]:
    return json.loads(response.output_text)


# Retrieved


@pytest.mark.parametrize("script", [TEXT_SCRIPT, TOOL_SCRIPT, []])
def test_a_response_is_retrieved_as_it_was_created(client: openai.OpenAI, script: list[dict[str, Any]]) -> None:
    request: dict[str, Any] = {"input": json.dumps(script), "metadata": {"a": "b"}, "instructions": "Be brief."}

    created = client.responses.with_raw_response.create(model="scripted", **request)
    retrieved = client.responses.with_raw_response.retrieve(created.parse().id)

    assert retrieved.http_response.content == created.http_response.content
    assert (retrieved.parse().status, retrieved.parse().metadata) == ("completed", {"a": "b"})


def test_a_streamed_response_is_retrieved_as_in_its_last_event(client: openai.OpenAI) -> None:
    last = list(client.responses.create(model="scripted", input=json.dumps(TOOL_SCRIPT), stream=True))[-1]

    assert last.type == "response.completed"
    assert client.responses.retrieve(last.response.id).to_dict() == last.response.to_dict()


def test_a_failed_response_is_stored_with_its_partial_output(client: openai.OpenAI) -> None:
    stream = client.responses.create(model="scripted", input=json.dumps(FAILING_SCRIPT), stream=True)
    first = next(stream)
    assert isinstance(first, ResponseCreatedEvent)
    with pytest.raises(openai.APIError, match="The model is down"):
        list(stream)

    stored = client.responses.retrieve(first.response.id)

    assert (stored.status, stored.output_text) == ("failed", "One. ")
    assert stored.error is not None
    assert (stored.error.code, stored.error.message) == ("model_down", "The model is down.")


def test_a_response_created_with_store_false_is_not_found(client: openai.OpenAI) -> None:
    created = client.responses.create(model="scripted", input="Hello", store=False)

    for method in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
        with pytest.raises(openai.NotFoundError) as raised:
            method(created.id)
        assert error_fields(raised.value) == {
            "status": 404,
            "type": "not_found",
            "code": "response_not_found",
            "param": None,
        }


# Resumed


@pytest.mark.parametrize("script", [TEXT_SCRIPT, TOOL_SCRIPT])
def test_a_finished_stream_is_replayed_from_any_event(client: openai.OpenAI, script: list[dict[str, Any]]) -> None:
    first = list(client.responses.create(model="scripted", input=json.dumps(script), stream=True))
    assert isinstance(first[0], ResponseCreatedEvent)
    name = first[0].response.id

    assert [event.sequence_number for event in first] == list(range(len(first)))
    assert as_dicts(list(client.responses.retrieve(name, stream=True))) == as_dicts(first)
    for number in range(len(first) + 2):
        second = list(client.responses.retrieve(name, stream=True, starting_after=number))
        assert as_dicts(second) == as_dicts(first[number + 1 :])


def test_a_running_stream_is_resumed_by_several_readers_at_different_events(
    client: openai.OpenAI, keeper: StoredServer
) -> None:
    gate = uuid4().hex
    stream, first, name = start_stream(client, gate)
    running = client.responses.retrieve(name)
    others = [client.responses.retrieve(name, stream=True, starting_after=number) for number in (0, 2, 4)]
    before = [next(others[0]), next(others[1])]

    keeper.open(gate)
    all_events = [*first, *stream]
    rest = [list(other) for other in others]

    assert (running.status, running.output, running.usage) == ("in_progress", [], None)
    assert as_dicts([before[0], *rest[0]]) == as_dicts(all_events[1:])
    assert as_dicts([before[1], *rest[1]]) == as_dicts(all_events[3:])
    assert as_dicts(rest[2]) == as_dicts(all_events[5:])
    assert client.responses.retrieve(name).output_text == "One. Two."


def test_a_reader_that_disconnects_does_not_end_the_run(client: openai.OpenAI, keeper: StoredServer) -> None:
    gate = uuid4().hex
    stream, _, name = start_stream(client, gate)
    with client.responses.retrieve(name, stream=True) as reader:
        next(reader)

    keeper.open(gate)

    assert list(stream)[-1].type == "response.completed"


@pytest.mark.parametrize("after", [-1, "x"])
def test_an_invalid_starting_after_is_rejected(client: openai.OpenAI, after: Any) -> None:
    created = client.responses.create(model="scripted", input="Hello")

    with pytest.raises(openai.BadRequestError, match="starting_after") as raised:
        client.responses.retrieve(created.id, stream=True, starting_after=after)

    assert raised.value.param == "starting_after"


# Cancelled


def test_cancelling_a_response_keeps_its_partial_output_and_is_idempotent(client: openai.OpenAI) -> None:
    stream, _, name = start_stream(client, uuid4().hex)

    cancelled = client.responses.with_raw_response.cancel(name)
    second = client.responses.with_raw_response.cancel(name)
    last = list(stream)[-1]

    response = cancelled.parse()
    assert response is not None
    assert (response.status, response.output_text, response.usage) == ("cancelled", "One. ", None)
    assert second.http_response.content == cancelled.http_response.content
    assert last.type == "response.incomplete"
    assert last.response.to_dict() == client.responses.retrieve(name).to_dict() == response.to_dict()


def test_a_client_that_disconnects_cancels_its_run(client: openai.OpenAI) -> None:
    stream, _, name = start_stream(client, uuid4().hex)
    stream.close()

    events = list(client.responses.retrieve(name, stream=True))  # The end comes only if the run is cancelled.

    assert events[-1].type == "response.incomplete"
    assert client.responses.retrieve(name).status == client.responses.cancel(name).status == "cancelled"


def test_a_completed_response_cannot_be_cancelled(client: openai.OpenAI) -> None:
    done = client.responses.create(model="scripted", input=json.dumps(TEXT_SCRIPT))

    with pytest.raises(openai.BadRequestError, match="has already ended and cannot be cancelled") as raised:
        client.responses.cancel(done.id)

    assert error_fields(raised.value) == {
        "status": 400,
        "type": "invalid_request",
        "code": "not_cancellable",
        "param": None,
    }
    assert client.responses.retrieve(done.id).to_dict() == done.to_dict()


# Deleted


def test_a_deleted_response_is_not_found(client: openai.OpenAI) -> None:
    name = client.responses.create(model="scripted", input="Hello").id

    client.responses.delete(name)

    for method in (
        client.responses.retrieve,
        client.responses.delete,
        client.responses.cancel,
        client.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError):
            method(name)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(name, stream=True)


def test_a_running_response_cannot_be_deleted(client: openai.OpenAI) -> None:
    stream, _, name = start_stream(client, uuid4().hex)

    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.delete(name)

    assert raised.value.code == "still_running"
    assert client.responses.retrieve(name).status == "in_progress"
    client.responses.cancel(name)
    client.responses.delete(name)
    stream.close()


# Input items


def test_the_input_items_of_a_response_are_listed_in_pages(client: openai.OpenAI) -> None:
    sent = [f"{number}." for number in range(5)]
    messages: Any = [{"role": "user", "content": text} for text in sent]
    first = client.responses.create(model="heard", input=messages, instructions="Be brief.")
    second = client.responses.create(model="heard", input="More?", previous_response_id=first.id)
    items = client.responses.input_items.list

    def texts(page: Any) -> list[str]:
        return [item.content[0].text for item in page]

    assert texts(items(first.id, order="asc")) == sent
    assert texts(items(first.id)) == sent[::-1]
    assert texts(items(first.id, limit=2, order="asc").data) == sent[:2]
    for limit in (1, 2, 3, 100):
        assert texts(items(second.id, limit=limit, order="asc")) == [*sent, first.output_text, "More?"]
    ids = [item.id for item in items(second.id, limit=2)]
    assert len(set(ids)) == 7
    assert ids == [item.id for item in items(second.id)]
    assert first.output[0].id in ids
    with pytest.raises(openai.NotFoundError):
        items(first.id, after="msg_nobody")


# Chains


def test_a_response_continues_another_without_its_instructions(client: openai.OpenAI) -> None:
    first = client.responses.create(model="heard", input="One?", instructions="Be brief.")
    second = client.responses.create(
        model="heard", input="Two?", previous_response_id=first.id, instructions="Be kind."
    )
    third = client.responses.create(model="heard", input="Three?", previous_response_id=second.id)

    assert received_messages(first) == [["system", "Be brief."], ["user", "One?"]]
    assert received_messages(second) == [
        ["system", "Be kind."],
        ["user", "One?"],
        ["assistant", first.output_text],
        ["user", "Two?"],
    ]
    assert received_messages(third) == [
        *received_messages(second)[1:],
        ["assistant", second.output_text],
        ["user", "Three?"],
    ]
    assert third.previous_response_id == second.id


def test_two_responses_can_continue_the_same_one(client: openai.OpenAI) -> None:
    first = client.responses.create(model="heard", input="One?")
    expected = [["user", "One?"], ["assistant", first.output_text]]

    ends = [client.responses.create(model="heard", input=text, previous_response_id=first.id) for text in "ab"]

    assert [received_messages(end) for end in ends] == [[*expected, ["user", "a"]], [*expected, ["user", "b"]]]


def test_a_tool_result_answers_a_stored_call_of_the_previous_response(client: openai.OpenAI) -> None:
    request = client.responses.create(model="heard", input="What time is it?", tools=[GET_TIME])
    [tool_call] = request.output
    assert tool_call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": tool_call.call_id, "output": "12:00"}

    answer = client.responses.create(model="heard", input=[result], previous_response_id=request.id)

    assert received_messages(answer) == [
        ["user", "What time is it?"],
        ["assistant", "c1: get_time"],
        ["tool", "c1: 12:00"],
    ]
    items = [item.type for item in client.responses.input_items.list(answer.id, order="asc")]
    assert items == ["message", "function_call", "function_call_output"]
    unknown_result: Any = {**result, "call_id": "nobody's"}
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="heard", input=[unknown_result], previous_response_id=request.id)
    assert raised.value.code == "unknown_call"


def test_deleting_a_response_breaks_every_chain_through_it(client: openai.OpenAI) -> None:
    links = [client.responses.create(model="heard", input="0")]
    links += [client.responses.create(model="heard", input="1", previous_response_id=links[0].id)]
    links += [client.responses.create(model="heard", input="2", previous_response_id=links[1].id)]
    assert [newer.previous_response_id == older.id for older, newer in pairwise(links)] == [True, True]

    client.responses.delete(links[1].id)

    for link in links[1:]:
        with pytest.raises(openai.NotFoundError, match=link.id) as raised:
            client.responses.create(model="heard", input="3", previous_response_id=link.id)
        assert error_fields(raised.value) == {
            "status": 404,
            "type": "not_found",
            "code": "previous_response_not_found",
            "param": "previous_response_id",
        }
    assert client.responses.create(model="heard", input="3", previous_response_id=links[0].id).status == "completed"


def test_a_running_response_cannot_be_continued_until_it_is_cancelled(client: openai.OpenAI) -> None:
    stream, _, name = start_stream(client, uuid4().hex)

    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="heard", input="And?", previous_response_id=name)
    client.responses.cancel(name)
    after = client.responses.create(model="heard", input="And?", previous_response_id=name)
    stream.close()

    assert (raised.value.code, raised.value.param) == ("still_running", "previous_response_id")
    assert received_messages(after)[1:] == [["assistant", "One. "], ["user", "And?"]]
