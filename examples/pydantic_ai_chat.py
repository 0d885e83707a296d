"""An agent of Pydantic AI as a chat: `palaver serve examples/pydantic_ai_chat.py`.

It runs without a key, because the framework's own test model plays the model: it calls every tool once and then speaks.
A real agent says `Agent("openai:…")` instead.
"""

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from palaver import Context, chat

agent = Agent(
    TestModel(custom_output_text="It is sunny everywhere."), name="weather", instructions="Be short.", deps_type=Context
)


@agent.tool
async def weather(ctx: RunContext[Context], city: str) -> str:
    """Tells the weather of a city."""
    ctx.deps.log(f"looking at the sky over {city}")
    return f"sunny in {city}"


weather_chat = chat(agent, description="Tells the weather.")
