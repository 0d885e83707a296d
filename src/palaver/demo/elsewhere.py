"""What another program would send: the trace of a travel desk's agent, in OpenTelemetry's own words for models."""

from typing import Any

import msgspec

_SECOND = 1_000_000_000
_ASKED = "Is there a train to Bergen tonight?"
_FOUND = {"departs": "23:25", "arrives": "06:52", "berths": 3}
_SAID = "Yes: the night train leaves at 23:25 and arrives at 06:52. Three berths are left."
_CALL = {"type": "tool_call", "id": "call_1", "name": "timetable", "arguments": {"to": "Bergen", "after": "20:00"}}
_BACK = {"type": "tool_call_response", "id": "call_1", "response": _FOUND}


def sent(now: int) -> dict[str, Any]:
    """An OTLP request, as if that program had answered just before `now` (nanoseconds)."""
    begun = now - 3 * _SECOND
    trace = f"{now:016x}" * 2
    model = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.operation.name": "chat"}
    asked = [_message("user", {"type": "text", "content": _ASKED})]
    called = _message("assistant", _CALL)
    answer = _message("assistant", {"type": "text", "content": _SAID})
    spans = [
        _span(trace, 1, None, "invoke_agent travel desk", begun, 2.9, {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "travel desk",
            "gen_ai.conversation.id": "desk-7",
            "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [answer],
        }),
        _span(trace, 2, 1, "chat gpt-4o-mini", begun + _SECOND // 10, 1.1, model | {
            "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [called],
            "gen_ai.usage.input_tokens": 212,
            "gen_ai.usage.output_tokens": 24,
        }),
        _span(trace, 3, 1, "execute_tool timetable", begun + 12 * _SECOND // 10, 0.4, {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "timetable",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.call.arguments": _CALL["arguments"],
            "gen_ai.tool.call.result": _FOUND,
        }),
        _span(trace, 4, 1, "chat gpt-4o-mini", begun + 17 * _SECOND // 10, 1.2, model | {
            "gen_ai.input.messages": [*asked, called, _message("tool", _BACK)],
            "gen_ai.output.messages": [answer],
            "gen_ai.usage.input_tokens": 261,
            "gen_ai.usage.output_tokens": 31,
        }),
    ]  # fmt: skip
    resource = {"attributes": _attributes({"service.name": "travel-desk"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "demo"}, "spans": spans}]}]}


def _message(role: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def _span(
    trace: str, number: int, parent: int | None, name: str, begun: int, seconds: float, attributes: dict[str, Any]
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + int(seconds * _SECOND)),
        "attributes": _attributes(attributes),
        "status": {},
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value if isinstance(value, str) else msgspec.json.encode(value).decode()}
