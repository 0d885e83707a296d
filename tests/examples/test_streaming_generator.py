"""examples/streaming_generator.py: streamed words, and a run that is cancelled."""

from typing import Any

import msgspec

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import user

STORY = "Once there was a duck. Nobody believed in a duck, until it rained. Then everybody did."
QUICK_REQUEST = {"messages": [user("a duck")], "parameters": {"pause": 0.0}}


async def test_the_story_is_the_same_complete_and_streamed(example: Example) -> None:
    async with client(*example("streaming_generator")) as http:
        complete = await http.post("/storyteller/invoke", json=QUICK_REQUEST)
        body = {"model": "storyteller", "stream": True, "stream_options": {"include_usage": True}, **QUICK_REQUEST}
        stream = await http.post("/v1/chat/completions", json=body)

    *frames, end = [line.removeprefix("data: ") for line in stream.text.splitlines() if line]
    chunks = [msgspec.json.decode(frame) for frame in frames]
    deltas = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    first, *words = STORY.split(" ")

    assert complete.json() == {"role": "assistant", "content": STORY}
    assert [delta for delta in deltas if delta] == [first, *(f" {word}" for word in words)]
    assert (chunks[-1]["usage"]["prompt_tokens"], chunks[-1]["usage"]["completion_tokens"]) == (2, 16)
    assert end == "[DONE]"


async def test_words_are_streamed_one_at_a_time_and_cancelling_ends_the_stream(example: Example) -> None:
    slow = {"messages": [user("a duck")], "parameters": {"pause": 3600.0}}
    events: list[dict[str, Any]] = []
    async with (
        client(*example("streaming_generator")) as http,
        http.stream("POST", "/storyteller/invoke", json=slow, headers={"accept": "application/x-ndjson"}) as answer,
    ):
        async for line in answer.aiter_lines():
            events.append(msgspec.json.decode(line))
            if events[-1]["type"] == "message_delta":
                (await http.post(f"/api/runs/{answer.headers['x-palaver-run-id']}/cancel")).raise_for_status()

    assert [event["type"] for event in events] == ["data", "message_start", "message_delta", "message_end", "done"]
    assert events[0]["data"]["value"] == "thinking of a plot…"
    assert events[2]["data"]["delta"] == "Once"
    assert events[4]["data"]["stopReason"] == "cancelled"


async def test_a_blank_message_gets_a_story_with_the_default_hero(example: Example) -> None:
    async with client(*example("streaming_generator")) as http:
        response = await http.post("/storyteller/invoke", json={**QUICK_REQUEST, "messages": [user(" ")]})

    assert response.json()["content"] == STORY.replace("a duck", "a stranger")
