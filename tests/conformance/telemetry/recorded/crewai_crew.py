"""A crew of CrewAI, instrumented by OpenInference."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation import using_attributes
from openinference.instrumentation.crewai import CrewAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
CrewAIInstrumentor().instrument(tracer_provider=provider)


@tool("weather")
def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


agent = Agent(
    role="forecaster",
    goal="Tell the weather.",
    backstory="Be brief.",
    tools=[weather],
    llm=LLM(model="openai/gpt-4o-mini"),
)
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    with using_attributes(session_id="s-1", user_id="u-1"):
        task = Task(description=question, expected_output="A sentence.", agent=agent)
        Crew(agents=[agent], tasks=[task], verbose=False).kickoff()
provider.shutdown()
