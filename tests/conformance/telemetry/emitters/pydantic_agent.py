"""A Pydantic AI agent with a tool, in every form that its instrumentation can write: two turns each, each a trace."""

import warnings

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, InstrumentationSettings

warnings.simplefilter("ignore")  # Old versions are deprecated.
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
agent = Agent("openai-chat:gpt-4o-mini", name="forecaster", instructions="Be brief.")


@agent.tool_plain
def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


for version in (2, 3, 4, 5, 6):
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider, version=version))
    history = None
    for question in ("What is the weather in Oslo?", "And in Bergen?"):
        result = agent.run_sync(question, message_history=history, conversation_id=f"v{version}")
        history = result.all_messages()
provider.shutdown()
