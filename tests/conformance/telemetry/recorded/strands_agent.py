"""A Strands agent: its messages are in span events, by default one per message."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.telemetry import StrandsTelemetry

telemetry = StrandsTelemetry()
telemetry.setup_otlp_exporter()


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


agent = Agent(
    name="forecaster",
    model=OpenAIModel(model_id="gpt-4o-mini"),
    system_prompt="Be brief.",
    tools=[weather],
    trace_attributes={"session.id": "s-1", "user.id": "u-1"},
    callback_handler=None,
)
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    agent(question)
telemetry.tracer_provider.force_flush()
