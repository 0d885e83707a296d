"""An agent of Google's ADK, which writes messages to log records by default."""

import asyncio

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types
from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans, logs = TracerProvider(), LoggerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
trace.set_tracer_provider(spans)
set_logger_provider(logs)


def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


async def main() -> None:
    agent = Agent(name="forecaster", model="gemini-2.5-flash", instruction="Be brief.", tools=[weather])
    runner = InMemoryRunner(agent=agent, app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="u-1", session_id="s-1")
    for question in ("What is the weather in Oslo?", "And in Bergen?"):
        message = types.Content(role="user", parts=[types.Part(text=question)])
        async for _ in runner.run_async(user_id="u-1", session_id=session.id, new_message=message):
            pass


asyncio.run(main())
logs.shutdown()
spans.shutdown()
