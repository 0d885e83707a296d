"""Spans of OpenTelemetry's own SDK, encoded as an OTLP request and gzipped."""

import gzip
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as SentResource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, StatusCode

from palaver.traces.otlp import decode_request
from palaver.traces.otlp.decompression import decompress
from tests.traces.otlp.otlp_requests import PROTOBUF, pairs

ERROR, UNSET = Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET


def export_request(spans: tuple[ReadableSpan, ...]) -> bytes:
    def key_values(values: Mapping[str, Any] | None) -> list[KeyValue]:
        return pairs({name: list(one) if isinstance(one, tuple) else one for name, one in (values or {}).items()})

    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=SentResource(attributes=key_values(one.resource.attributes)),
                scope_spans=[
                    ScopeSpans(
                        scope=InstrumentationScope(name=one.instrumentation_scope.name),
                        spans=[
                            Span(
                                trace_id=one.context.trace_id.to_bytes(16, "big"),
                                span_id=one.context.span_id.to_bytes(8, "big"),
                                parent_span_id=one.parent.span_id.to_bytes(8, "big") if one.parent else b"",
                                name=one.name,
                                start_time_unix_nano=one.start_time or 0,
                                end_time_unix_nano=one.end_time or 0,
                                attributes=key_values(one.attributes),
                                events=[
                                    Span.Event(
                                        name=event.name,
                                        time_unix_nano=event.timestamp,
                                        attributes=key_values(event.attributes),
                                    )
                                    for event in one.events
                                ],
                                links=[
                                    Span.Link(
                                        trace_id=link.context.trace_id.to_bytes(16, "big"),
                                        span_id=link.context.span_id.to_bytes(8, "big"),
                                        attributes=key_values(link.attributes),
                                    )
                                    for link in one.links
                                ],
                                status=Status(
                                    code=ERROR if one.status.status_code is StatusCode.ERROR else UNSET,
                                    message=one.status.description or "",
                                ),
                            )
                        ],
                    )
                ],
            )
            for one in spans
            if one.context and one.instrumentation_scope
        ]
    ).SerializeToString()


def test_spans_of_the_opentelemetry_sdk_are_decoded() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("my.lib")
    with tracer.start_as_current_span("agent", attributes={"tags": ["a", "b"], "n": 1, "x": 0.5, "on": True}) as outer:
        context = outer.get_span_context()
        try:
            with tracer.start_as_current_span("chat", links=[Link(context, {"why": "test"})]):
                raise ValueError("model gone")
        except ValueError:
            pass
    provider.shutdown()

    body = decompress(gzip.compress(export_request(exporter.get_finished_spans())), "gzip")
    batch = decode_request(body, PROTOBUF, datetime.now(UTC))

    chat, agent = batch.spans
    assert batch.rejected == []
    assert agent.attributes == {"tags": ["a", "b"], "n": 1, "x": 0.5, "on": True}
    assert (agent.span_id, agent.parent_id, agent.failed) == (f"{context.span_id:016x}", None, False)
    assert (chat.name, chat.parent_id, chat.failed) == ("chat", agent.span_id, True)
    assert chat.status_message == "ValueError: model gone"
    assert chat.events[0].attributes["exception.message"] == "model gone"
    assert (chat.links[0].span_id, chat.links[0].attributes) == (agent.span_id, {"why": "test"})
    assert {(one.trace_id, one.scope, one.resource["service.name"], one.notes) for one in batch.spans} == {
        (f"{context.trace_id:032x}", "my.lib", "shop", ())
    }
    assert agent.start <= chat.start <= agent.start + timedelta(milliseconds=agent.duration_ms + 1)
