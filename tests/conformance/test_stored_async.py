"""openai for Python, async client: stored responses and conversations, the main cases of the sync tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import openai
import pytest
from openai.types.responses import ResponseCreatedEvent, ResponseStreamEvent

from tests.conformance.stored_server import StoredServer


@pytest.fixture
async def client(keeper: StoredServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{keeper.url}/v1", api_key=keeper.key, max_retries=0) as client:
        yield client


async def start_stream(
    client: openai.AsyncOpenAI, gate: str, **more: Any
) -> tuple[Any, list[ResponseStreamEvent], str]:
    """Start a run that waits at the gate; return its stream, its events up to the first text, and its id."""
    stream = await client.responses.create(model="gated", input=gate, stream=True, **more)
    first_events: list[ResponseStreamEvent] = []
    async for event in stream:
        first_events.append(event)
        if event.type == "response.output_text.delta":
            break
    assert isinstance(first_events[0], ResponseCreatedEvent)
    return stream, first_events, first_events[0].response.id


async def collect_events(stream: Any) -> list[dict[str, Any]]:
    return [event.to_dict() async for event in await stream]


async def test_a_response_is_retrieved_and_continued(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="heard", input="One?", instructions="Be brief.")
    second = await client.responses.create(model="heard", input="Two?", previous_response_id=first.id)

    assert (await client.responses.retrieve(first.id)).to_dict() == first.to_dict()
    assert json.loads(second.output_text) == [["user", "One?"], ["assistant", first.output_text], ["user", "Two?"]]
    items = [item.type async for item in client.responses.input_items.list(second.id, limit=1)]
    assert items == ["message", "message", "message"]
    await client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError) as raised:
        await client.responses.create(model="heard", input="And?", previous_response_id=second.id)
    assert raised.value.code == "previous_response_not_found"


async def test_a_stream_is_resumed_during_the_run_and_afterwards(
    client: openai.AsyncOpenAI, keeper: StoredServer
) -> None:
    gate = uuid4().hex
    stream, first_events, name = await start_stream(client, gate)
    live = [
        asyncio.create_task(collect_events(client.responses.retrieve(name, stream=True, starting_after=number)))
        for number in range(5)
    ]

    await asyncio.to_thread(keeper.open, gate)
    all_events = [event.to_dict() for event in [*first_events, *[event async for event in stream]]]

    assert [event["sequence_number"] for event in all_events] == list(range(len(all_events)))
    assert await asyncio.gather(*live) == [all_events[number + 1 :] for number in range(5)]
    for number in range(len(all_events) + 1):
        assert (
            await collect_events(client.responses.retrieve(name, stream=True, starting_after=number))
            == all_events[number + 1 :]
        )


async def test_concurrent_cancellations_return_the_same_response(client: openai.AsyncOpenAI) -> None:
    stream, _, name = await start_stream(client, uuid4().hex)

    cancelled = await asyncio.gather(*[client.responses.cancel(name) for _ in range(4)])
    last = [event async for event in stream][-1]

    stored = (await client.responses.retrieve(name)).to_dict()
    assert [response.to_dict() for response in cancelled] == [stored] * 4
    assert last.response.to_dict() == stored
    assert stored["status"] == "cancelled"
    done = await client.responses.create(model="scripted", input="Hello")
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.cancel(done.id)
    assert raised.value.code == "not_cancellable"


async def test_only_one_of_several_concurrent_turns_is_answered(
    client: openai.AsyncOpenAI, keeper: StoredServer
) -> None:
    conversation = (await client.conversations.create()).id
    gate = uuid4().hex

    async def turn() -> str | None:
        try:
            return (await client.responses.create(model="gated", input=gate, conversation=conversation)).output_text
        except openai.ConflictError as error:
            return error.code

    pending, refused = {asyncio.create_task(turn()) for _ in range(8)}, set[asyncio.Task[str | None]]()
    while len(pending) > 1:
        ended, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        refused |= ended
    await asyncio.to_thread(keeper.open, gate)

    assert [task.result() for task in refused] == ["conversation_locked"] * 7
    assert [await task for task in pending] == ["One. Two."]
    items = [item async for item in client.conversations.items.list(conversation, order="asc")]
    assert [item.role for item in items if item.type == "message"] == ["user", "assistant"]


async def test_a_conversation_is_created_changed_filled_and_deleted(client: openai.AsyncOpenAI) -> None:
    created = await client.conversations.create(metadata={"topic": "time"})
    hello: Any = {"role": "user", "content": "Hello"}
    [added] = (await client.conversations.items.create(created.id, items=[hello])).data
    assert added.id is not None

    changed = await client.conversations.update(created.id, metadata={})
    one = await client.conversations.items.retrieve(added.id, conversation_id=created.id)

    assert changed.to_dict() == created.to_dict() | {"metadata": {}}
    assert (await client.conversations.retrieve(created.id)).to_dict() == changed.to_dict()
    assert one.to_dict() == added.to_dict()
    await client.conversations.items.delete(added.id, conversation_id=created.id)
    assert (await client.conversations.items.list(created.id)).data == []
    await client.conversations.delete(created.id)
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(created.id)
