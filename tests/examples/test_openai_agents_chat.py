"""examples/openai_agents_chat.py: the agent calls its tool and answers with the result."""

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import create_response, invoke


async def test_the_agent_answers_with_the_weather_over_invoke_and_responses(example: Example) -> None:
    async with client(*example("openai_agents_chat")) as http:
        messages = await invoke(http, "weather", "Oslo")
        _, items = await create_response(http, "weather", "Rome")

    assert messages == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny in Oslo"},
        {"role": "assistant", "content": "The weather: sunny in Oslo."},
    ]
    assert items == [
        ("call", "weather", '{"city":"Rome"}', "sunny in Rome"),
        ("message", "The weather: sunny in Rome."),
    ]
