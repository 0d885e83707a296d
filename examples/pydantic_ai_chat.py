"""An agent of Pydantic AI, served as it is; its tool finds the run in `ctx.deps`.

palaver serve examples/pydantic_ai_chat.py
"""

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from palaver import Context, chat

# The framework's test model needs no key: it calls every tool once, with any arguments, and then says this. A real
# agent names its model: Agent("openai:…", …).
agent = Agent(
    TestModel(custom_output_text="Take an umbrella."), name="forecast", instructions="Be short.", deps_type=Context
)


@agent.tool
async def chance_of_rain(ctx: RunContext[Context], city: str) -> str:
    """Tells how likely rain is in a city."""
    ctx.deps.log(f"looking at the sky over {city}")  # A status line: shown while it happens.
    return f"80 % in {city}"


forecast = chat(agent, description="Says what to take along.")
