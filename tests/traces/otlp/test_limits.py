"""Hostile attributes: odd names are inert text, oversized ones are truncated or dropped, and noted."""

from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from palaver.errors import InvalidBody, TooLarge
from palaver.traces.model import RawSpan
from palaver.traces.otlp import RejectedSpan, SpanBatch, decode_request, limits
from palaver.traces.otlp.limits import MAX_TEXT_BYTES, attribute_name
from tests.growth import assert_linear
from tests.traces.otlp.otlp_requests import NOW, PROTOBUF, SPAN_ID, TRACE_ID, field, pairs, request, span
from tests.traces.otlp.test_request_decoding import DecodeFunction, as_json, decoded

__all__ = ["decoded"]
MIB = 1024 * 1024


def single_span(batch: SpanBatch) -> RawSpan:
    assert batch.rejected == []
    return batch.spans[0]


def test_hostile_attribute_names_are_decoded_as_plain_text(decoded: DecodeFunction) -> None:
    names = [
        "__proto__",
        "constructor",
        "__class__",
        "a" + ".a" * 255,
        "length",
        "",
        "..",
        "a..b",
        "'; DROP TABLE",
        "${x}",
    ]

    assert single_span(decoded(request(span(dict.fromkeys(names, "x"))))).attributes == dict.fromkeys(names, "x")


def test_an_attribute_with_a_long_name_is_dropped(decoded: DecodeFunction) -> None:
    raw = single_span(decoded(request(span({"n" * 512: 1, "n" * 513: 2, "m": {"n" * 513: 3, "o": 4}}))))

    assert (raw.attributes, raw.dropped) == ({"n" * 512: 1, "m": {"o": 4}}, {"attributes": 2})


def test_control_characters_become_replacement_characters(decoded: DecodeFunction) -> None:
    long_values = {
        "a\x00\nb": "c\x00\x1b[31m\td\r\ne\x85",
        "long": "x\x07" * 100,
        "other": "é\x9f" * 100,
        "deep": {"k\x7f": ["\x7f"]},
    }

    raw = single_span(decoded(request(span(long_values, name="n\x1b\n", status=Status(message="m\x00")))))

    assert raw.attributes == {
        "a��b": "c��[31m\td\r\ne�",
        "long": "x�" * 100,
        "other": "é�" * 100,
        "deep": {"k�": ["�"]},
    }
    assert (raw.name, raw.status_message) == ("n��", "m�")


def test_the_last_of_duplicate_attributes_is_used(decoded: DecodeFunction) -> None:
    duplicates = [KeyValue(key="a", value=AnyValue(int_value=number)) for number in range(3)]

    raw = single_span(decoded(request(span(attributes=duplicates))))

    assert (raw.attributes, raw.dropped) == ({"a": 2}, {})


def test_attributes_events_and_links_above_their_limits_are_dropped(decoded: DecodeFunction) -> None:
    wide = span(
        {f"a{number}": number for number in range(2_100)},
        events=[Span.Event(name="e", attributes=pairs({f"b{number}": 1 for number in range(130)}))] * 1_003,
        links=[Span.Link(trace_id=TRACE_ID, span_id=SPAN_ID)] * 130,
        dropped_events_count=1,
    )
    wide.attributes.append(KeyValue(key="a0", value=AnyValue(string_value="again")))

    raw = single_span(decoded(request(wide)))

    assert (len(raw.attributes), len(raw.events), len(raw.links)) == (2_000, 1_000, 128)
    assert raw.attributes["a0"] == "again"
    assert raw.dropped == {"attributes": 100 + 2 * 1_000, "events": 4, "links": 2}


def test_a_long_text_is_truncated_at_a_character_boundary(decoded: DecodeFunction) -> None:
    text = "€" * (MAX_TEXT_BYTES // 3 + 1)

    raw = single_span(
        decoded(request(span({"a": text, "b": [text], "whole": "x" * MAX_TEXT_BYTES}, status=Status(message=text))))
    )

    short = "€" * (MAX_TEXT_BYTES // 3)
    assert raw.attributes == {"a": short, "b": [short], "whole": "x" * MAX_TEXT_BYTES}
    assert raw.status_message == short
    assert raw.notes == ("cut:a", "cut:b", "cut:status_message")
    assert raw.dropped == {"bytes": 9}


def test_names_of_spans_events_and_scopes_are_truncated(decoded: DecodeFunction) -> None:
    raw = single_span(decoded(request(span(name="é" * 600, events=[Span.Event(name="x" * 513)]), scope="s" * 600)))

    assert (raw.name, raw.events[0].name, raw.scope) == ("é" * 512, "x" * 512, "s" * 512)
    assert set(raw.notes) == {"cut:name", "cut:event"}
    assert raw.dropped == {"bytes": 2 * 88 + 1}


@pytest.mark.parametrize("text", ["x", "é", "€", "😀", "\x00"])
def test_a_text_of_many_megabytes_is_truncated_at_a_character_boundary(decoded: DecodeFunction, text: str) -> None:
    size = len(text.encode())
    long = text * (10 * MIB // size)
    wide = span({"small": 1, "long": long}, events=[Span.Event(name="e", attributes=pairs({"in": {"event": [long]}}))])

    raw = single_span(decoded(request(wide)))

    character = "�" if text == "\x00" else text
    expected_text = character * (MAX_TEXT_BYTES // len(character.encode()))
    lost = len(long.encode()) - len(expected_text) * size
    assert raw.attributes == {"small": 1, "long": expected_text}
    assert raw.events[0].attributes == {"in": {"event": [expected_text]}}
    assert raw.notes == ("cut:long", "cut:in")
    assert raw.dropped == {"bytes": 2 * lost}


def test_a_span_that_is_too_large_even_after_truncation_is_rejected_alone(decoded: DecodeFunction) -> None:
    large = span({f"a{number}": "x" * MIB for number in range(9)})

    batch = decoded(request(large, span()))

    assert len(batch.spans) == 1
    assert [(reject.index, reject.reason[:7], reject.reason[-19:]) for reject in batch.rejected] == [
        (0, "too lar", " (limit: 8,388,608)")
    ]


def test_values_nested_too_deeply_are_truncated(decoded: DecodeFunction) -> None:
    def nested(depth: int, inner: Any) -> Any:
        for level in range(depth):
            inner = [inner] if level % 2 else {"k": inner}
        return inner

    raw = single_span(decoded(request(span({"fits": nested(32, 1), "deep": nested(33, 1)}))))

    assert raw.attributes == {"fits": nested(32, 1), "deep": nested(33, 1) and _truncate_depth(nested(33, 1))}
    assert raw.notes == ("cut:deep",)
    assert set(raw.dropped) == {"bytes"}


def _truncate_depth(value: Any, depth: int = 0) -> Any:
    if depth == 32:
        return None
    if isinstance(value, list):
        return [_truncate_depth(value[0], depth + 1)]
    return {"k": _truncate_depth(value["k"], depth + 1)}


def test_a_value_that_protobuf_cannot_decode_rejects_only_its_span() -> None:
    deep = b""
    for _ in range(200):
        deep = field(5, field(1, deep))
    hostile = field(1, TRACE_ID) + field(2, SPAN_ID) + field(9, field(1, b"a") + field(2, deep))

    batch = decode_request(request(span()) + field(1, field(2, field(2, hostile))), PROTOBUF, NOW)

    assert (len(batch.spans), batch.rejected) == (1, [RejectedSpan(1, "malformed Protobuf")])


def test_a_long_value_nested_too_deeply_rejects_only_its_span() -> None:
    deep = b"x" * (2 * MIB)
    for _ in range(200):
        deep = field(5, field(1, deep))
    hostile = field(1, TRACE_ID) + field(2, SPAN_ID) + field(9, field(1, b"a") + field(2, deep))

    batch = decode_request(request(span()) + field(1, field(2, field(2, hostile))), PROTOBUF, NOW)

    assert (len(batch.spans), batch.rejected) == (1, [RejectedSpan(1, "a value is nested too deeply")])


@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_decoding_time_is_linear_in_the_number_of_attributes(form: str) -> None:
    media = PROTOBUF if form == "protobuf" else "application/json"

    def body(count: int) -> bytes:
        wide_span = span({f"{number}." + "a." * 30: number for number in range(count)})
        wide = request(wide_span, span(name="other"))
        return wide if form == "protobuf" else as_json(wide)

    batches: list[SpanBatch] = []
    assert_linear(lambda wide: batches.append(decode_request(wide, media, NOW)), body, 100_000)
    assert [(raw.name, len(raw.attributes), raw.dropped) for raw in batches[-1].spans] == [
        ("chat gpt-4o", 2_000, {"attributes": 98_000}),
        ("other", 0, {}),
    ]


def test_a_large_span_is_truncated_like_a_small_one() -> None:
    """Large spans are thinned before decoding: the result must not depend on that."""
    duplicates = [
        *pairs({f"a{number}": number for number in range(2_100)}),
        *pairs({"a0": "last", "é" * 500: 1, "n" * 600: 2}),
    ]
    small = span(attributes=duplicates)
    large = span(attributes=[*duplicates, *pairs({"a1": "x" * (2 * MIB)})])

    first, second = decode_request(request(small, large), PROTOBUF, NOW).spans

    assert first.dropped == {"attributes": 102}
    assert second.attributes == first.attributes | {"a1": "x" * MIB}
    assert second.dropped == {"attributes": 102, "bytes": MIB}


def test_long_names_resources_and_scopes_are_truncated() -> None:
    text = "x" * (3 * MIB)
    body = request(span(trace_state=text, name=text), resource={"service.name": text, text: 1}, scope=text)

    raw = single_span(decode_request(body, PROTOBUF, NOW))

    assert (raw.name, raw.scope, raw.resource) == ("x" * 512, "x" * 512, {"service.name": "x" * MIB})


@pytest.mark.parametrize("kind", ["resource", "scope"])
def test_a_request_with_an_oversized_resource_or_scope_is_rejected(kind: str) -> None:
    large = {f"a{index}": "x" * MIB for index in range(9)} if kind == "resource" else {}
    body = request(span(), resource=large)
    if kind == "scope":
        body = field(1, field(2, field(1, b"".join([field(3, field(1, b"x") + field(2, field(1, b"x" * MIB)))] * 9))))

    with pytest.raises(InvalidBody, match=f"invalid {kind}: too large: [0-9,]+ bytes .limit: 8,388,608."):
        decode_request(body, PROTOBUF, NOW)


def test_a_span_with_an_unknown_field_of_many_megabytes_is_rejected() -> None:
    batch = decode_request(field(1, field(2, field(2, field(99, b"x" * (9 * MIB))))), PROTOBUF, NOW)

    assert [reject.reason[-19:] for reject in batch.rejected] == [" (limit: 8,388,608)"]


@pytest.mark.parametrize("body", [b"\x0a\x00" * 500_001, b"\x10\x00" * 500_001])
def test_a_request_with_too_many_fields_is_rejected(body: bytes) -> None:
    with pytest.raises(TooLarge, match="too many fields"):
        decode_request(body, PROTOBUF, NOW)


def test_a_request_with_too_many_values_is_rejected() -> None:
    def body(values: int, spans: int) -> bytes:
        hostile = field(1, TRACE_ID) + field(2, SPAN_ID) + b"\x4a\x00" * values
        return field(1, field(2, field(2, hostile) * spans))

    assert_linear(lambda wide: decode_request(wide, PROTOBUF, NOW), partial(body, spans=1), 200_000)
    with pytest.raises(TooLarge, match="too many values"):
        decode_request(body(500_000, 5), PROTOBUF, NOW)


def test_ten_thousand_attribute_names_are_returned_unchanged() -> None:
    for number in range(10_000):
        assert attribute_name(f"name {number}") == f"name {number}"
        assert len(limits._name_cache) <= limits._MAX_CACHED_NAMES
