"""Generated spans of chats as an instrumentation sends them over OTLP: 2 KiB each, 20 to a trace, 500 to a request.

Deterministic: a span depends only on its number. As in natural language, few words are common and most are rare.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

SPANS_PER_REQUEST, SPANS_PER_TRACE = 500, 20
USERS, ROUTES = 1_000, 100
FAILURE_PERIOD = 997
"""One in this many spans has failed."""
COMMON_WORD, RARE_WORD = "the0", "word4900"

_WORDS = [f"the{number}" if number < 10 else f"word{number}" for number in range(5_000)]
_WEIGHTS = list(accumulate(1 / (position + 5) for position in range(len(_WORDS))))
_INPUT_WORDS, _OUTPUT_WORDS = 130, 52  # Together they make a span of 2 KiB.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = 1_000_000

Value = str | int | float | list[str]


class Chat(NamedTuple):
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: int
    """Nanoseconds since 1970."""
    end: int
    failed: bool
    attributes: dict[str, Value]


class SpanTimes(NamedTuple):
    """Start times of consecutive spans."""

    since: datetime
    apart: timedelta

    def start(self, number: int) -> int:
        """Nanoseconds since 1970."""
        return (self.since - _EPOCH + number * self.apart) // timedelta(microseconds=1) * 1_000


def chat_requests(first: int, count: int, times: SpanTimes) -> Iterator[list[Chat]]:
    """Yield `count` spans from `first` on, grouped by request."""
    for start in range(first, first + count, SPANS_PER_REQUEST):
        yield make_chats(start, min(SPANS_PER_REQUEST, first + count - start), times)


def make_chats(first: int, count: int, times: SpanTimes) -> list[Chat]:
    return [_chat(number, times) for number in range(first, first + count)]


def _chat(number: int, times: SpanTimes) -> Chat:
    rng = Random(number)
    trace, position = divmod(number, SPANS_PER_TRACE)
    input_text = " ".join(rng.choices(_WORDS, cum_weights=_WEIGHTS, k=_INPUT_WORDS))
    output_text = " ".join(rng.choices(_WORDS, cum_weights=_WEIGHTS, k=_OUTPUT_WORDS))
    start = times.start(number)
    return Chat(
        trace_id=Random(f"trace {trace}").randbytes(16),
        span_id=_span_id(number),
        parent_id=_span_id(trace * SPANS_PER_TRACE) if position else b"",
        start=start,
        end=start + rng.randrange(100, 3_000) * _MILLISECOND,
        failed=number % FAILURE_PERIOD == 0,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.request.temperature": 0.2,
            "gen_ai.usage.input_tokens": rng.randrange(50, 500),
            "gen_ai.usage.output_tokens": rng.randrange(20, 200),
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.conversation.id": f"session-{number // (5 * SPANS_PER_TRACE)}",
            "gen_ai.input.messages": _messages("user", input_text),
            "gen_ai.output.messages": _messages("assistant", output_text),
            "user.id": f"user-{rng.randrange(USERS)}",
            "http.route": f"/shop/{rng.randrange(ROUTES)}",
        },
    )


def _span_id(number: int) -> bytes:
    return Random(f"span {number}").randbytes(8)


def _messages(role: str, text: str) -> str:
    return msgspec.json.encode([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


# On the wire


def encode_protobuf(batch: Sequence[Chat]) -> bytes:
    """An ExportTraceServiceRequest."""
    spans = [
        Span(
            trace_id=chat.trace_id,
            span_id=chat.span_id,
            parent_span_id=chat.parent_id,
            name="chat gpt-4o",
            kind=Span.SPAN_KIND_CLIENT,
            start_time_unix_nano=chat.start,
            end_time_unix_nano=chat.end,
            attributes=[KeyValue(key=name, value=_any_value(value)) for name, value in chat.attributes.items()],
            status=Status(code=Status.STATUS_CODE_ERROR, message="It timed out.") if chat.failed else None,
        )
        for chat in batch
    ]
    scope = ScopeSpans(scope=InstrumentationScope(name="shop.chat"), spans=spans)
    resource = Resource(attributes=[KeyValue(key="service.name", value=_any_value("shop"))])
    group = ResourceSpans(resource=resource, scope_spans=[scope])
    return ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()


def _any_value(value: Value) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in value]))


def encode_json(batch: Sequence[Chat]) -> bytes:
    """An ExportTraceServiceRequest in OTLP's JSON."""
    spans = [
        {
            "traceId": chat.trace_id.hex(),
            "spanId": chat.span_id.hex(),
            "parentSpanId": chat.parent_id.hex(),
            "name": "chat gpt-4o",
            "kind": 3,
            "startTimeUnixNano": str(chat.start),
            "endTimeUnixNano": str(chat.end),
            "attributes": [{"key": name, "value": _json_value(value)} for name, value in chat.attributes.items()],
            "status": {"code": 2, "message": "It timed out."} if chat.failed else {},
        }
        for chat in batch
    ]
    scope = {"scope": {"name": "shop.chat"}, "spans": spans}
    resource = {"attributes": [{"key": "service.name", "value": _json_value("shop")}]}
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


def _json_value(value: Value) -> dict[str, Any]:
    match value:
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_json_value(item) for item in value]}}


# One long trace


LONG_TRACE_ID = bytes(range(1, 17))
ROOT_CHILDREN = 200
"""Children of the root; the remaining spans are distributed below them."""


def long_trace(count: int, times: SpanTimes) -> Iterator[list[Chat]]:
    """Yield the steps of one long agent trace, grouped by request."""
    spans = [_step(number, times) for number in range(count)]
    for first in range(0, count, SPANS_PER_REQUEST):
        yield spans[first : first + SPANS_PER_REQUEST]


def _step(number: int, times: SpanTimes) -> Chat:
    parent = 0 if not number else 1 if number <= ROOT_CHILDREN else 2 + number % ROOT_CHILDREN
    start = times.start(number)
    return Chat(
        trace_id=LONG_TRACE_ID,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_id=parent.to_bytes(8, "big") if parent else b"",
        start=start,
        end=start + 5 * _MILLISECOND,
        failed=False,
        attributes={"gen_ai.operation.name": "execute_task", "step.number": number},
    )
