"""An agent of smolagents, instrumented by OpenInference."""

from openinference.instrumentation import using_attributes
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
SmolagentsInstrumentor().instrument(tracer_provider=provider)


@tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


agent = ToolCallingAgent(
    tools=[weather], model=OpenAIServerModel("gpt-4o-mini"), instructions="Be brief.", verbosity_level=0, max_steps=3
)
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    with using_attributes(session_id="s-1", user_id="u-1"):
        agent.run(question, reset=False)
provider.shutdown()
