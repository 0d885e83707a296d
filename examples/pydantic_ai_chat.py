"""An unmodified Pydantic AI agent; its tool accesses the run through `ctx.deps`.

palaver serve examples/pydantic_ai_chat.py
"""

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from palaver import Context, chat

# The framework's test model needs no key: it calls every tool once with arbitrary arguments, then returns this
# text. A real agent names its model: Agent("openai:…", …).
agent = Agent(
    TestModel(custom_output_text="Take an umbrella."), name="forecast", instructions="Be brief.", deps_type=Context
)


@agent.tool
async def chance_of_rain(ctx: RunContext[Context], city: str) -> str:
    """Return the chance of rain in a city."""
    ctx.deps.log(f"checking the sky over {city}")  # Shown as a status line while the tool runs.
    return f"80% in {city}"


forecast = chat(agent, description="Tells you what to pack.")
