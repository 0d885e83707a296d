"""OpenTelemetry's own SDK, gen_ai's attributes set by hand: as protobuf by its exporter, then as JSON by hand."""

import gzip
import json
import os
import urllib.request
from collections.abc import Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

MODEL = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.request.temperature": 0.0}
SYSTEM = json.dumps([{"type": "text", "content": "Be brief."}])
WEATHER = {"Oslo": "4 °C", "Bergen": "9 °C"}


class JsonExporter(SpanExporter):
    """Exports spans as OTLP JSON, which the SDK doesn't support."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        scopes = [{"scope": {"name": "shop"}, "spans": [encode_span(span) for span in spans]}]
        resource = {"attributes": key_values(dict(spans[0].resource.attributes))}
        body = json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode()
        name, _, header_value = os.environ["OTEL_EXPORTER_OTLP_TRACES_HEADERS"].partition("=")
        request = urllib.request.Request(
            os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"],
            gzip.compress(body),
            {
                name: header_value.replace("%20", " "),
                "content-type": "application/json",
                "content-encoding": "gzip",
            },
        )
        with urllib.request.urlopen(request) as answer:
            return SpanExportResult.SUCCESS if answer.read() == b"{}" else SpanExportResult.FAILURE


def encode_span(span: ReadableSpan) -> dict[str, Any]:
    context: Any = span.get_span_context()
    parent = span.parent
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        **({"parentSpanId": f"{parent.span_id:016x}"} if parent else {}),
        "name": span.name,
        "kind": "SPAN_KIND_INTERNAL",
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": key_values(dict(span.attributes or {})),
        "status": {},
    }


def key_values(attributes: dict[str, Any]) -> list[Any]:
    return [{"key": name, "value": any_value(attribute)} for name, attribute in attributes.items()]


def any_value(attribute: Any) -> dict[str, Any]:
    match attribute:
        case int():
            return {"intValue": str(attribute)}
        case float():
            return {"doubleValue": attribute}
        case tuple():
            return {"arrayValue": {"values": [any_value(item) for item in attribute]}}
        case _:
            return {"stringValue": attribute}


def text_message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def chat(tracer: trace.Tracer, messages: list[Any], answer: Any, tokens: tuple[int, int], end: str) -> None:
    with tracer.start_as_current_span("chat gpt-4o-mini", kind=trace.SpanKind.CLIENT) as span:
        span.set_attributes({"gen_ai.operation.name": "chat", **MODEL, "gen_ai.system_instructions": SYSTEM})
        span.set_attribute("gen_ai.input.messages", json.dumps(messages))
        span.set_attribute("gen_ai.output.messages", json.dumps([answer]))
        span.set_attribute("gen_ai.usage.input_tokens", tokens[0])
        span.set_attribute("gen_ai.usage.output_tokens", tokens[1])
        span.set_attribute("gen_ai.response.finish_reasons", [end])


def turn(tracer: trace.Tracer, session: str, messages: list[Any], question: str, city: str) -> list[Any]:
    """Emit the trace of one turn; return the messages for the next turn."""
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "forecaster"}
    with tracer.start_as_current_span("invoke_agent forecaster", attributes=agent) as root:
        root.set_attributes({"gen_ai.conversation.id": session, "user.id": "u-1"})
        request = [*messages, text_message("user", question)]
        call = {"type": "tool_call", "id": f"call_{city.lower()}", "name": "weather", "arguments": {"city": city}}
        chat(tracer, request, {"role": "assistant", "parts": [call]}, (20, 7), "tool_call")
        with tracer.start_as_current_span("execute_tool weather") as tool:
            tool.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"})
            tool.set_attribute("gen_ai.tool.call.id", call["id"])
            tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"city": city}))
            tool.set_attribute("gen_ai.tool.call.result", WEATHER[city])
        result = {"type": "tool_call_response", "id": call["id"], "response": WEATHER[city]}
        messages_with_result = [*request, {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
        answer = text_message("assistant", f"It is {WEATHER[city]} in {city}.")
        chat(tracer, messages_with_result, answer, (30, 9), "stop")
    return [*messages_with_result, answer]


for session, exporter in (("protobuf", OTLPSpanExporter()), ("json", JsonExporter())):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer, history = provider.get_tracer("shop"), []
    for question, city in (("What is the weather in Oslo?", "Oslo"), ("And in Bergen?", "Bergen")):
        history = turn(tracer, session, history, question, city)
    provider.shutdown()
