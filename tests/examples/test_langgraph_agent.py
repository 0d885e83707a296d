"""examples/langgraph_agent.py: the graph calls its tool and streams the result word by word."""

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import create_response, invoke, stream_chat


async def test_the_agent_counts_letters_over_invoke_and_responses(example: Example) -> None:
    async with client(*example("langgraph_agent")) as http:
        messages = await invoke(http, "counter", "Hello, you!")
        _, items = await create_response(http, "counter", "Hi")

    call = {"name": "count_letters", "arguments": '{"text": "Hello, you!"}'}
    assert messages == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "count-1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "count-1", "content": "8"},
        {"role": "assistant", "content": "That has 8 letters."},
    ]
    assert items == [
        ("call", "count_letters", '{"text": "Hi"}', "2"),
        ("message", "That has 2 letters."),
    ]


async def test_the_answer_is_streamed_token_by_token(example: Example) -> None:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
    async with client(*example("langgraph_agent")) as http:
        parts = await stream_chat(http, "counter", message)

    assert [part["delta"] for part in parts if part["type"] == "text-delta"] == ["That ", "has ", "2 ", "letters."]
