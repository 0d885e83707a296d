"""Builds OTLP spans as JSON and sends them."""

import time
from typing import Any

import httpx

BASE_TIME_NS = time.time_ns() - 120_000_000_000
MILLISECOND_NS = 1_000_000
SPANS_PER_REQUEST = 5_000


def trace_id(number: int) -> str:
    return f"{0xA0 + number:032x}"


def span_id(number: int) -> str:
    return f"{0xB0 + number:016x}"


def any_value(value: Any) -> dict[str, Any]:
    """An AnyValue."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": key_values(value)}}
        case _:
            return {"stringValue": str(value)}


def key_values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(item)} for name, item in attributes.items()]


def make_span(
    trace: int,
    number: int,
    name: str,
    *,
    parent: int | None = None,
    at: float = 0,
    ms: float = 100,
    failed: str | None = None,
    events: list[dict[str, Any]] | None = None,
    attributes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A span; `at` is its start in milliseconds after a point two minutes ago."""
    start = BASE_TIME_NS + int(at * MILLISECOND_NS)
    return {
        "traceId": trace_id(trace),
        "spanId": span_id(number),
        "parentSpanId": "" if parent is None else span_id(parent),
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(ms * MILLISECOND_NS)),
        "attributes": key_values(attributes or {}),
        "events": events or [],
        "status": {} if failed is None else {"code": 2, "message": failed},
    }


def message(role: str, *texts: str) -> dict[str, Any]:
    """A message in the parts form of gen_ai."""
    return {"role": role, "parts": [{"type": "text", "content": text} for text in texts]}


def chat_attributes(input_messages: list[Any], output_messages: list[Any], **more: Any) -> dict[str, Any]:
    """The attributes of a model call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.usage.input_tokens": 31,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.input.messages": input_messages,
        "gen_ai.output.messages": output_messages,
    } | {name.replace("__", "."): item for name, item in more.items()}


def send_spans(url: str, *spans: dict[str, Any], service: str = "shop") -> None:
    """Send spans, a few thousand at a time, and assert that all were accepted."""
    with httpx.Client(base_url=url, trust_env=False, timeout=120) as http:
        for first in range(0, len(spans), SPANS_PER_REQUEST):
            scope = {"scope": {"name": "by.hand"}, "spans": list(spans[first : first + SPANS_PER_REQUEST])}
            resource = {"attributes": key_values({"service.name": service})}
            body = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
            answer = http.post("/v1/traces", json=body)
            assert (answer.status_code, answer.json()) == (200, {}), answer.text
