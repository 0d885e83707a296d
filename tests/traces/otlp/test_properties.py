"""Properties: any bytes decode to a batch or raise Palaver's errors; an export decodes to equal spans."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent

from palaver.core import json
from palaver.errors import RequestError
from palaver.traces.model import Link, RawSpan, Redaction, Span, SpanEvent
from palaver.traces.otlp import SpanBatch, decode_request, encode_lines, encode_requests
from tests.traces.otlp.otlp_requests import JSON, NOW, PROTOBUF, SPAN_ID, TRACE_ID, pairs, request, span
from tests.traces.otlp.test_request_decoding import as_json

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
PRINTABLE_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | PRINTABLE_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTABLE_TEXT, inner, max_size=3),
    max_leaves=8,
)
ATTRIBUTES = st.dictionaries(PRINTABLE_TEXT, VALUES, max_size=5)
TIMES = st.integers(0, 2**54).map(lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0, 0, microseconds))
COUNTS = st.dictionaries(st.sampled_from(["attributes", "events", "links", "bytes"]), st.integers(1, 10**6))
TRACE_IDS, SPAN_IDS = (st.binary(min_size=size, max_size=size).filter(any).map(bytes.hex) for size in (16, 8))

BODY = request(
    span({"a": "text", "b": [1, {"c": 2.5}], "d": b"bytes"}, events=[Sent.Event(name="e", attributes=pairs({"x": 1}))]),
    span({"e": True}, links=[Sent.Link(trace_id=TRACE_ID, span_id=SPAN_ID)], parent_span_id=SPAN_ID),
)


def decode_or_reject(body: bytes, media_type: str) -> SpanBatch:
    """Decode a body: only Palaver's errors may be raised, and the spans can be encoded."""
    batch = SpanBatch([], [])
    with contextlib.suppress(RequestError):
        batch = decode_request(body, media_type, NOW)
    for raw in batch.spans:
        assert json.is_encodable(raw)
        msgspec.convert(msgspec.to_builtins(raw), RawSpan)
    return batch


def test_a_truncated_request_is_decoded_or_rejected() -> None:
    for end in range(len(BODY)):
        decode_or_reject(BODY[:end], PROTOBUF)
    text = as_json(BODY)
    for end in range(len(text)):
        assert decode_or_reject(text[:end], JSON).spans == []


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_rejected(body: bytes) -> None:
    decode_or_reject(body, PROTOBUF)
    decode_or_reject(body, JSON)


@given(st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), min_size=1, max_size=6))
@settings(max_examples=300)
def test_a_damaged_request_is_decoded_or_rejected(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(BODY)
    for offset, byte in changes:
        damaged[offset] = byte

    decode_or_reject(bytes(damaged), PROTOBUF)


@given(st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from(
    ["resourceSpans", "scopeSpans", "spans", "attributes", "value", "key", "name", "traceId", "events", "palaver"]
), inner | st.lists(inner, max_size=3)), max_leaves=20))  # fmt: skip
def test_any_json_is_decoded_or_rejected(value: Any) -> None:
    decode_or_reject(msgspec.json.encode(value), JSON)
    decode_or_reject(msgspec.json.encode({"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}]}), JSON)


@given(st.dictionaries(TEXTS, VALUES, max_size=5), TEXTS)
def test_json_and_protobuf_decode_to_the_same_spans(attributes: dict[str, Any], name: str) -> None:
    body = request(span(attributes, name=name))

    assert decode_request(as_json(body), JSON, NOW) == decode_request(body, PROTOBUF, NOW)


def as_span(raw: RawSpan) -> Span:
    """Return the record of a span without attributes of a known convention."""
    return Span(
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        parent_id=raw.parent_id,
        name=raw.name,
        status="error" if raw.failed else "ok",
        status_message=raw.status_message,
        start=raw.start,
        duration_ms=raw.duration_ms,
        service=raw.resource.get("service.name"),
        session=raw.resource.get("session.id"),
        user=raw.resource.get("user.id"),
        scope=raw.scope,
        attributes=raw.attributes,
        events=raw.events,
        links=raw.links,
        dropped=raw.dropped,
        notes=raw.notes,
        redactions=raw.redactions,
    )


def _max_end_ns(raw: RawSpan) -> int:
    """Return an upper bound of its end, in nanoseconds."""
    return int((raw.start.timestamp() + raw.duration_ms / 1e3 + 1) * 1e9)


RAW_SPANS = st.builds(
    RawSpan,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    parent_id=st.none() | SPAN_IDS,
    name=PRINTABLE_TEXT.filter(bool),
    start=TIMES,
    duration_ms=st.integers(0, 10**18).map(lambda nanoseconds: nanoseconds / 1e6),
    failed=st.booleans(),
    status_message=PRINTABLE_TEXT,
    attributes=ATTRIBUTES,
    resource=st.dictionaries(st.sampled_from(["service.name", "session.id", "user.id"]), PRINTABLE_TEXT),
    events=st.lists(
        st.builds(
            SpanEvent,
            name=PRINTABLE_TEXT,
            at=st.none() | TIMES.filter(lambda at: at.year > 1970),
            attributes=ATTRIBUTES,
        ),
        max_size=2,
    ).map(tuple),
    links=st.lists(st.builds(Link, trace_id=TRACE_IDS, span_id=SPAN_IDS, attributes=ATTRIBUTES), max_size=2).map(tuple),
    scope=st.none() | PRINTABLE_TEXT.filter(bool),
    dropped=COUNTS,
    notes=st.lists(st.sampled_from(["cut:" + "n" * 512, "unmapped:gen_ai", "clock"]), unique=True).map(tuple),
    redactions=st.lists(st.builds(Redaction, PRINTABLE_TEXT, PRINTABLE_TEXT, st.integers(1, 9)), max_size=2).map(tuple),
).filter(lambda raw: raw.parent_id != raw.span_id and _max_end_ns(raw) < 2**64)


@given(st.lists(RAW_SPANS, max_size=4))
@settings(max_examples=200)
def test_exported_json_lines_decode_to_equal_spans(raws: list[RawSpan]) -> None:
    records = [as_span(raw) for raw in raws]

    imported = [as_span(raw) for line in encode_lines(records) for raw in decode_request(line, JSON, NOW).spans]

    # The importer may note a wrong clock itself.
    assert [_without_clock(record) for record in imported] == [_without_clock(record) for record in records]


@given(st.lists(RAW_SPANS, max_size=4))
@settings(max_examples=100)
def test_exported_protobuf_decodes_to_equal_spans_except_for_unsupported_fields(raws: list[RawSpan]) -> None:
    records = [msgspec.structs.replace(as_span(raw), notes=(), redactions=()) for raw in raws]
    records = [msgspec.structs.replace(one, dropped=_without_bytes(one.dropped)) for one in records]

    requests = list(encode_requests(records, "protobuf"))

    imported = [as_span(raw) for request in requests for raw in decode_request(request.body, PROTOBUF, NOW).spans]
    assert sum(request.spans for request in requests) == len(records)
    assert [_without_clock(record) for record in imported] == records


def _without_bytes(dropped: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in dropped.items() if name != "bytes"}


def _without_clock(record: Span) -> Span:
    return msgspec.structs.replace(record, notes=tuple(note for note in record.notes if note != "clock"))


def test_notes_about_repairs_survive_an_export() -> None:
    long, invalid_fields = {"long": "x" * 1_100_000}, {"name": "", "parent_span_id": SPAN_ID, "end_time_unix_nano": 1}
    records = [
        as_span(raw) for raw in decode_request(request(span(long, **invalid_fields), span()), PROTOBUF, NOW).spans
    ]

    lines = list(encode_lines(records))

    assert set(records[0].notes) == {"cut:long", "cycle", "clock", "unnamed"}
    assert [as_span(raw) for line in lines for raw in decode_request(line, JSON, NOW).spans] == records
    assert len(lines) == 2


def test_an_export_has_at_most_100_spans_per_line() -> None:
    [raw] = decode_request(request(span({"a": 2**63 - 1})), PROTOBUF, NOW).spans
    records = [as_span(raw)] * 250 + [msgspec.structs.replace(as_span(raw), service="other", start=NOW - timedelta(1))]

    lines = list(encode_lines(records))

    assert [line.count(b'"traceId"') for line in lines] == [100, 100, 51]
    assert all(line.endswith(b"}\n") and line.count(b"\n") == 1 for line in lines)
    assert list(encode_lines([])) == []


def test_integers_beyond_64_bits_are_exported_as_floats() -> None:
    [raw] = decode_request(request(span()), PROTOBUF, NOW).spans
    record = msgspec.structs.replace(as_span(raw), attributes={"big": 2**70, "tuple": (1,)})

    [line] = encode_lines([record])

    assert decode_request(line, JSON, NOW).spans[0].attributes == {"big": 2.0**70, "tuple": [1]}
