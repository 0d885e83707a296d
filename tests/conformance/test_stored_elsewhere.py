"""Two servers on one PostgreSQL: openai's client reads, resumes and cancels runs through either of them."""

import json
from collections.abc import Iterator
from uuid import uuid4

import openai
import pytest
from openai.types.responses import ResponseCreatedEvent, ResponseStreamEvent

from tests.conformance.stored_server import StoredServer, run_second_server, run_stored_server
from tests.postgres import Postgres

ServerPair = tuple[StoredServer, StoredServer]


@pytest.fixture(scope="module")
def servers(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPair]:
    url = postgres.create()
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    with (
        run_stored_server(folders[0], url) as first_server,
        run_second_server(folders[1], first_server) as second_server,
    ):
        yield first_server, second_server
    postgres.drop(url)


def start_stream(
    client: openai.OpenAI, gate: str
) -> tuple[Iterator[ResponseStreamEvent], list[ResponseStreamEvent], str]:
    stream = iter(client.responses.create(model="gated", input=gate, stream=True))
    first_events: list[ResponseStreamEvent] = []
    for event in stream:
        first_events.append(event)
        if event.type == "response.output_text.delta":
            break
    assert isinstance(first_events[0], ResponseCreatedEvent)
    return stream, first_events, first_events[0].response.id


def test_a_running_stream_is_resumed_through_the_other_server(servers: ServerPair) -> None:
    gate = uuid4().hex
    with servers[0].openai() as client_a, servers[1].openai() as client_b:
        stream, first_events, name = start_stream(client_a, gate)
        running = client_b.responses.retrieve(name)
        resumed = client_b.responses.retrieve(name, stream=True, starting_after=0)
        resumed_events = [next(resumed)]

        servers[0].open(gate)
        all_events = [*first_events, *stream]
        resumed_events += resumed

        assert running.status == "in_progress"
        assert [event.to_dict() for event in resumed_events] == [event.to_dict() for event in all_events[1:]]
        assert client_b.responses.retrieve(name).to_dict() == client_a.responses.retrieve(name).to_dict()


def test_a_run_is_cancelled_through_the_other_server(servers: ServerPair) -> None:
    with servers[0].openai() as client_a, servers[1].openai() as client_b:
        stream, _, name = start_stream(client_a, uuid4().hex)

        cancelled = client_b.responses.cancel(name)

        assert (cancelled.status, cancelled.output_text) == ("cancelled", "One. ")
        last = list(stream)[-1]
        assert last.type == "response.incomplete"
        assert last.response.to_dict() == cancelled.to_dict() == client_a.responses.cancel(name).to_dict()


def test_a_completed_response_is_continued_through_the_other_server_at_once(servers: ServerPair) -> None:
    with servers[0].openai() as client_a, servers[1].openai() as client_b:
        for _ in range(5):
            first = client_a.responses.create(model="heard", input="Hi")
            second = client_b.responses.create(model="heard", input="And?", previous_response_id=first.id)
            third = client_a.responses.create(model="heard", input="And?", previous_response_id=second.id)
            roles = [role for role, _ in json.loads(third.output_text)]
            assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_a_conversation_is_locked_on_both_servers_while_a_turn_runs(servers: ServerPair) -> None:
    gate = uuid4().hex
    with servers[0].openai() as client_a, servers[1].openai() as client_b:
        conversation = client_a.conversations.create().id
        stream = client_a.responses.create(model="gated", input=gate, conversation=conversation, stream=True)
        next(stream)

        with pytest.raises(openai.ConflictError):
            client_b.responses.create(model="heard", input="And?", conversation=conversation)
        servers[0].open(gate)
        list(stream)

        assert client_b.responses.create(model="heard", input="And?", conversation=conversation).status == "completed"
