"""openai for Python: background responses are queued, read by any client, and survive disconnects."""

from collections.abc import Iterator
from uuid import uuid4

import openai
import pytest
from openai.types.responses import ResponseCreatedEvent, ResponseStreamEvent

from tests.conformance.stored_server import StoredServer


@pytest.fixture
def client(keeper: StoredServer) -> Iterator[openai.OpenAI]:
    with keeper.openai() as client:
        yield client


def test_a_background_response_is_queued_and_read_when_completed(client: openai.OpenAI, keeper: StoredServer) -> None:
    gate = uuid4().hex
    queued = client.responses.create(model="gated", input=gate, background=True)
    keeper.open(gate)

    last = list(client.responses.retrieve(queued.id, stream=True))[-1]

    assert (queued.status, queued.background, queued.output) == ("queued", True, [])
    assert last.type == "response.completed"
    done = client.responses.retrieve(queued.id)
    assert (done.status, done.background, done.output_text) == ("completed", True, "One. Two.")
    assert done.to_dict() == last.response.to_dict()
    assert [item.type for item in client.responses.input_items.list(queued.id)] == ["message"]
    after = client.responses.create(model="heard", input="And?", previous_response_id=queued.id)
    assert after.status == "completed"


def test_a_background_run_continues_after_a_disconnect_and_its_stream_is_resumed(
    client: openai.OpenAI, keeper: StoredServer
) -> None:
    gate = uuid4().hex
    first_events: list[ResponseStreamEvent] = []
    with client.responses.create(model="gated", input=gate, background=True, stream=True) as stream:
        for event in stream:
            first_events.append(event)
            if event.type == "response.output_text.delta":
                break
    assert isinstance(first_events[0], ResponseCreatedEvent)
    name = first_events[0].response.id

    running = client.responses.retrieve(name)
    keeper.open(gate)
    rest = list(client.responses.retrieve(name, stream=True, starting_after=first_events[-1].sequence_number))

    assert running.status == "in_progress"
    all_events = [event.to_dict() for event in [*first_events, *rest]]
    assert [event["sequence_number"] for event in all_events] == list(range(len(all_events)))
    assert all_events == [event.to_dict() for event in client.responses.retrieve(name, stream=True)]
    assert client.responses.retrieve(name).output_text == "One. Two."


def test_a_background_response_is_cancelled_at_once(client: openai.OpenAI) -> None:
    queued = client.responses.create(model="gated", input=uuid4().hex, background=True)

    cancelled = client.responses.cancel(queued.id)

    assert cancelled.status == "cancelled"
    assert client.responses.cancel(queued.id).to_dict() == cancelled.to_dict()
    assert client.responses.retrieve(queued.id).to_dict() == cancelled.to_dict()


def test_a_background_response_must_be_stored(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="gated", input="x", background=True, store=False)
