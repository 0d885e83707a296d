"""examples/pydantic_ai_chat.py: the agent calls its tool, which reports progress, and then answers."""

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import create_response, invoke, stream_chat

CALL = "pyd_ai_tool_call_id__chance_of_rain"


async def test_the_agent_answers_with_the_forecast_over_invoke_and_responses(example: Example) -> None:
    async with client(*example("pydantic_ai_chat")) as http:
        messages = await invoke(http, "forecast", "Oslo")
        _, items = await create_response(http, "forecast", "Rome")

    call = {"name": "chance_of_rain", "arguments": '{"city":"a"}'}
    assert messages == [
        {"role": "assistant", "content": None, "tool_calls": [{"id": CALL, "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": CALL, "content": "80% in a"},
        {"role": "assistant", "content": "Take an umbrella."},
    ]
    assert items == [
        ("call", "chance_of_rain", '{"city":"a"}', "80% in a"),
        ("message", "Take an umbrella."),
    ]


async def test_the_tool_reports_its_status_to_the_run(example: Example) -> None:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Oslo"}]}
    async with client(*example("pydantic_ai_chat")) as http:
        parts = await stream_chat(http, "forecast", message)

    assert [part["data"] for part in parts if part["type"] == "data-status"] == ["checking the sky over a"]
