"""An unmodified agent of the OpenAI Agents SDK, with one tool.

palaver serve examples/openai_agents_chat.py
"""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from palaver import chat


class Offline(ScriptedModel):
    """A stand-in for a real model (`model="gpt-…"` below): it calls the tool, then reports its result."""

    async def stream_response(
        self, system_instructions: Any, input: Any, *more: Any, **named: Any
    ) -> AsyncIterator[Any]:
        last = input[-1]
        if last.get("type") == "function_call_output":
            self.enqueue([assistant_message(f"The weather: {last['output']}.")])
        else:
            self.enqueue([function_call("weather", {"city": last["content"]}, call_id=f"call_{len(input)}")])
        async for event in super().stream_response(system_instructions, input, *more, **named):
            yield event


@function_tool
def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


agent = Agent(name="Weather", instructions="You report the weather.", model=Offline(), tools=[weather])
weather_chat = chat(agent, name="weather", description="Reports the weather.")
