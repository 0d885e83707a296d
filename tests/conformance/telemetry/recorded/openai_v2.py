"""OpenAI's SDK with OpenTelemetry's own instrumentation, which writes messages to log records by default."""

import json
from typing import Any

import openai
from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans, logs = TracerProvider(), LoggerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
trace.set_tracer_provider(spans)
set_logger_provider(logs)
OpenAIInstrumentor().instrument()
client: Any = openai.OpenAI()

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA},
}

messages: list[Any] = [{"role": "system", "content": "Be brief."}]
for question, answer in (("What is the weather in Oslo?", "4 °C"), ("And in Bergen?", "9 °C")):
    messages.append({"role": "user", "content": question})
    with trace.get_tracer("shop").start_as_current_span("answer", attributes={"session.id": "s-1"}):
        while True:
            response = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or []:
                assert json.loads(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
            if not message.tool_calls:
                break
logs.shutdown()
spans.shutdown()
