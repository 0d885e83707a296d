"""Two servers on one PostgreSQL: what one runs, openai's client reads, resumes and cancels through the other."""

import json
from collections.abc import Iterator
from uuid import uuid4

import openai
import pytest
from openai.types.responses import ResponseCreatedEvent, ResponseStreamEvent

from tests.conformance.stored_server import StoredServer, run_second_server, run_stored_server
from tests.postgres import Postgres

Both = tuple[StoredServer, StoredServer]


@pytest.fixture(scope="module")
def both(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    url = postgres.create()
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    with run_stored_server(folders[0], url) as here, run_second_server(folders[1], here) as there:
        yield here, there
    postgres.drop(url)


def begun(client: openai.OpenAI, gate: str) -> tuple[Iterator[ResponseStreamEvent], list[ResponseStreamEvent], str]:
    stream = iter(client.responses.create(model="gated", input=gate, stream=True))
    seen: list[ResponseStreamEvent] = []
    for event in stream:
        seen.append(event)
        if event.type == "response.output_text.delta":
            break
    assert isinstance(seen[0], ResponseCreatedEvent)
    return stream, seen, seen[0].response.id


def test_a_stream_is_resumed_elsewhere_while_it_goes_on(both: Both) -> None:
    gate = uuid4().hex
    with both[0].openai() as here, both[1].openai() as there:
        stream, seen, name = begun(here, gate)
        running = there.responses.retrieve(name)
        elsewhere = there.responses.retrieve(name, stream=True, starting_after=0)
        after = [next(elsewhere)]

        both[0].open(gate)
        whole = [*seen, *stream]
        after += elsewhere

        assert running.status == "in_progress"
        assert [event.to_dict() for event in after] == [event.to_dict() for event in whole[1:]]
        assert there.responses.retrieve(name).to_dict() == here.responses.retrieve(name).to_dict()


def test_a_run_is_cancelled_elsewhere(both: Both) -> None:
    with both[0].openai() as here, both[1].openai() as there:
        stream, _, name = begun(here, uuid4().hex)

        cancelled = there.responses.cancel(name)

        assert (cancelled.status, cancelled.output_text) == ("cancelled", "One. ")
        last = list(stream)[-1]
        assert last.type == "response.incomplete"
        assert last.response.to_dict() == cancelled.to_dict() == here.responses.cancel(name).to_dict()


def test_what_ended_here_goes_on_there_at_once(both: Both) -> None:
    with both[0].openai() as here, both[1].openai() as there:
        for _ in range(5):
            first = here.responses.create(model="heard", input="Hi")
            second = there.responses.create(model="heard", input="And?", previous_response_id=first.id)
            third = here.responses.create(model="heard", input="And?", previous_response_id=second.id)
            heard = [role for role, _ in json.loads(third.output_text)]
            assert heard == ["user", "assistant", "user", "assistant", "user"]


def test_turns_of_a_conversation_wait_for_each_other_wherever_they_are(both: Both) -> None:
    gate = uuid4().hex
    with both[0].openai() as here, both[1].openai() as there:
        conversation = here.conversations.create().id
        stream = here.responses.create(model="gated", input=gate, conversation=conversation, stream=True)
        next(stream)

        with pytest.raises(openai.ConflictError):
            there.responses.create(model="heard", input="And?", conversation=conversation)
        both[0].open(gate)
        list(stream)

        assert there.responses.create(model="heard", input="And?", conversation=conversation).status == "completed"
