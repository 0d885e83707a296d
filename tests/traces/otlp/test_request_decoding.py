"""Decoding spans: the same from protobuf and JSON, with repairs and refusals."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from palaver.errors import InvalidBody, TooLarge, UnsupportedMediaType
from palaver.traces.model import Link, RawSpan, SpanEvent
from palaver.traces.otlp import RejectedSpan, SpanBatch, decode_request
from palaver.traces.otlp.decompression import RequestLimits
from tests.traces.otlp.otlp_requests import JSON, NOW, PROTOBUF, SPAN_ID, START, TRACE_ID, pairs, request, span

DecodeFunction = Callable[..., SpanBatch]


def as_json(body: bytes) -> bytes:
    """Return the request as JSON, encoded by protobuf except for the ids, which OTLP writes in hexadecimal."""
    message = ExportTraceServiceRequest.FromString(body)
    document = MessageToDict(message)
    for group, source in zip(document.get("resourceSpans", ()), message.resource_spans, strict=True):
        for part, scoped in zip(group.get("scopeSpans", ()), source.scope_spans, strict=True):
            for one, original in zip(part.get("spans", ()), scoped.spans, strict=True):
                one |= {"traceId": original.trace_id.hex().upper(), "spanId": original.span_id.hex()}
                one["parentSpanId"] = original.parent_span_id.hex()
                for link, original_link in zip(one.get("links", ()), original.links, strict=True):
                    link |= {"traceId": original_link.trace_id.hex(), "spanId": original_link.span_id.hex()}
    return msgspec.json.encode(document)


@pytest.fixture(params=["protobuf", "json"])
def decoded(request: pytest.FixtureRequest) -> DecodeFunction:
    def decoded(body: bytes, **options: Any) -> SpanBatch:
        if request.param == "json":
            return decode_request(as_json(body), JSON, NOW, **options)
        return decode_request(body, PROTOBUF, NOW, **options)

    return decoded


def test_all_fields_of_a_span_are_decoded(decoded: DecodeFunction) -> None:
    source = span(
        {
            "gen_ai.request.model": "gpt-4o",
            "n": 2,
            "t": 0.5,
            "ok": True,
            "none": None,
            "raw": b"\x00\xff",
            "l": [1, [2]],
        },
        parent_span_id=bytes(range(1, 9)),
        status=Status(code=Status.STATUS_CODE_ERROR, message="model gone"),
        events=[Span.Event(name="exception", time_unix_nano=START, attributes=pairs({"exception.type": "ValueError"}))],
        links=[Span.Link(trace_id=TRACE_ID, span_id=SPAN_ID, attributes=pairs({"why": {"a": [1]}}))],
        dropped_attributes_count=3,
        trace_state="a=b",
        kind=Span.SPAN_KIND_CLIENT,
    )

    assert decoded(request(source)) == SpanBatch(
        spans=[
            RawSpan(
                trace_id="0af7651916cd43dd8448eb211c80319c",
                span_id="b7ad6b7169203331",
                parent_id="0102030405060708",
                name="chat gpt-4o",
                start=datetime(2026, 11, 15, 7, 20, 0, 123456, tzinfo=UTC),
                duration_ms=812.4,
                failed=True,
                status_message="model gone",
                attributes={
                    "gen_ai.request.model": "gpt-4o",
                    "n": 2,
                    "t": 0.5,
                    "ok": True,
                    "none": None,
                    "raw": "AP8=",
                    "l": [1, [2]],
                },
                resource={"service.name": "shop"},
                events=(
                    SpanEvent(
                        name="exception",
                        at=datetime(2026, 11, 15, 7, 20, 0, 123456, tzinfo=UTC),
                        attributes={"exception.type": "ValueError"},
                    ),
                ),
                links=(Link(trace_id=TRACE_ID.hex(), span_id=SPAN_ID.hex(), attributes={"why": {"a": [1]}}),),
                scope="my.lib",
                dropped={"attributes": 3},
            )
        ],
        rejected=[],
    )


def test_spans_keep_their_order_across_resources_and_scopes(decoded: DecodeFunction) -> None:
    body = request(span(name="a"), span(name="b"), scope="") + request(span(name="c"), resource={}, scope="other")

    batch = decoded(body)

    assert [(one.name, one.scope, one.resource) for one in batch.spans] == [
        ("a", None, {"service.name": "shop"}),
        ("b", None, {"service.name": "shop"}),
        ("c", "other", {}),
    ]


@pytest.mark.parametrize("body", [b"", request()])
def test_an_empty_request_is_accepted(decoded: DecodeFunction, body: bytes) -> None:
    assert decoded(body) == SpanBatch(spans=[], rejected=[])


def test_a_span_with_invalid_ids_is_rejected_alone(decoded: DecodeFunction) -> None:
    good = span()
    bad = [
        span(trace_id=b"1"),
        span(trace_id=bytes(16)),
        span(span_id=b"1234"),
        span(span_id=bytes(8)),
        span(span_id=b""),
    ]

    batch = decoded(request(good, *bad, good))

    assert [one.span_id for one in batch.spans] == [SPAN_ID.hex()] * 2
    assert batch.rejected == [
        RejectedSpan(1, "trace id has 1 bytes, not 16"),
        RejectedSpan(2, "trace id is all zeros"),
        RejectedSpan(3, "span id has 4 bytes, not 8"),
        RejectedSpan(4, "span id is all zeros"),
        RejectedSpan(5, "span id has 0 bytes, not 8"),
    ]


def test_an_end_before_the_start_gives_a_zero_duration_and_a_note(decoded: DecodeFunction) -> None:
    [raw] = decoded(request(span(end_time_unix_nano=START - 1))).spans

    assert (raw.duration_ms, raw.notes) == (0.0, ("clock",))


@pytest.mark.parametrize(
    ("start", "notes"),
    [
        (0, ("clock",)),
        (START + int(25 * 3600e9), ("clock",)),
        (START + int(23 * 3600e9), ()),
        (START - int(31 * 86_400e9), ("clock",)),
        (START - int(29 * 86_400e9), ()),
        (2**64 - 1, ("clock",)),
    ],
)
def test_an_implausible_start_time_is_accepted_and_noted(
    decoded: DecodeFunction, start: int, notes: tuple[str, ...]
) -> None:
    [raw] = decoded(request(span(start_time_unix_nano=start, end_time_unix_nano=start))).spans

    assert raw.start == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=start // 1_000)
    assert raw.notes == notes


def test_a_span_without_a_name_is_called_unnamed(decoded: DecodeFunction) -> None:
    [raw] = decoded(request(span(name=""))).spans

    assert (raw.name, raw.notes) == ("unnamed", ("unnamed",))


@pytest.mark.parametrize(
    ("parent", "notes"), [(SPAN_ID, ("cycle",)), (b"1234", ("parent",)), (bytes(8), ()), (b"", ())]
)
def test_a_span_with_an_invalid_parent_is_a_root(
    decoded: DecodeFunction, parent: bytes, notes: tuple[str, ...]
) -> None:
    [raw] = decoded(request(span(parent_span_id=parent))).spans

    assert (raw.parent_id, raw.notes) == (None, notes)


def test_pending_spans_are_counted(decoded: DecodeFunction) -> None:
    batch = decoded(request(span({"logfire.span_type": "pending_span"}), span({"logfire.span_type": "span"})))

    assert (len(batch.spans), batch.rejected, batch.pending) == (1, [], 1)


def test_nan_and_infinity_become_text(decoded: DecodeFunction) -> None:
    [raw] = decoded(request(span({"a": float("nan"), "b": float("inf"), "c": [float("-inf")]}))).spans

    assert raw.attributes == {"a": "NaN", "b": "Infinity", "c": ["-Infinity"]}


def test_a_link_with_an_invalid_id_is_dropped(decoded: DecodeFunction) -> None:
    [raw] = decoded(request(span(links=[Span.Link(trace_id=b"1", span_id=SPAN_ID)], dropped_links_count=1))).spans

    assert (raw.links, raw.dropped) == ((), {"links": 2})


def test_a_request_with_too_many_spans_is_rejected(decoded: DecodeFunction) -> None:
    assert len(decoded(request(span(), span()), limits=RequestLimits(max_spans=2)).spans) == 2
    with pytest.raises(TooLarge, match="more than 1 spans"):
        decoded(request(span(), span()), limits=RequestLimits(max_spans=1))


def test_other_media_types_are_rejected() -> None:
    with pytest.raises(UnsupportedMediaType):
        decode_request(b"", "text/plain", NOW)


def test_text_that_is_not_utf_8_rejects_only_its_span() -> None:
    body = request(span({"a": "quiet"}), span(name="other")).replace(b"quiet", b"\xff\xfe\xfd\xfc\xfb")

    batch = decode_request(body, PROTOBUF, NOW)

    assert [one.name for one in batch.spans] == ["other"]
    assert batch.rejected == [RejectedSpan(0, "malformed Protobuf")]


@pytest.mark.parametrize(
    "body", [b"\x0a\x05", b"\x0b", b"\xff" * 11, b"\x02\x00", b"\x0a", b"\x09\x00", b"\x0d\x00", b"[]"]
)
def test_a_body_that_is_not_protobuf_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidBody, match="not a valid ExportTraceServiceRequest"):
        decode_request(body, PROTOBUF, NOW)
