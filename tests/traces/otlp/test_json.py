"""Specifics of OTLP JSON: numbers and enums in several notations, and fields of the wrong type."""

from typing import Any

import msgspec
import pytest

from palaver.errors import InvalidBody, TooLarge
from palaver.traces.model import RawSpan
from palaver.traces.otlp import RejectedSpan, decode_request
from tests.traces.otlp.otlp_requests import JSON, NOW, START

SPAN: dict[str, Any] = {
    "traceId": "0AF7651916CD43DD8448EB211C80319C",
    "spanId": "b7ad6b7169203331",
    "name": "chat",
    "startTimeUnixNano": str(START),
    "endTimeUnixNano": START + 1_000_000,
}


def body(*spans: Any) -> bytes:
    return msgspec.json.encode({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def decode_span(**fields: Any) -> RawSpan:
    batch = decode_request(body(SPAN | fields), JSON, NOW)
    assert batch.rejected == []
    return batch.spans[0]


def decode_attribute(value: Any) -> Any:
    return decode_span(attributes=[{"key": "a", "value": value}]).attributes["a"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"intValue": "12"}, 12),
        ({"intValue": 12}, 12),
        ({"intValue": 12.0}, 12),
        ({"intValue": str(-(2**63))}, -(2**63)),
        ({"intValue": 0}, 0),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "2.5"}, 2.5),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"boolValue": False}, False),
        ({"stringValue": ""}, ""),
        ({"bytesValue": "AP8="}, "AP8="),
        ({"bytesValue": "_-8"}, "/+8="),
        ({"arrayValue": {}}, []),
        ({"arrayValue": {"values": [{}, None, {"kvlistValue": {}}]}}, [None, None, {}]),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}, {"value": None}]}}, {"k": 1, "": None}),
        ({"stringValue": None}, None),
        ({"futureValue": [1]}, None),
        (None, None),
    ],
)
def test_each_notation_of_an_attribute_value_is_read(value: Any, expected: Any) -> None:
    result = decode_attribute(value)

    assert result == expected
    assert type(result) is type(expected)


def test_a_status_code_is_read_from_a_number_or_a_name() -> None:
    codes = (2, "2", "STATUS_CODE_ERROR", 1, "STATUS_CODE_OK", None)

    result = [decode_span(status={"code": code, "message": None}).failed for code in codes]

    assert result == [True, True, True, False, False, False]


def test_unknown_fields_are_ignored() -> None:
    assert decode_span(kind="SPAN_KIND_FROM_TOMORROW", flags={"a": 1}, future=[1]) == decode_span()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"traceId": "zz"}, "trace id is not hexadecimal"),
        ({"traceId": 7}, "expected `str | null`, got `int` - at `$.traceId`"),
        ({"spanId": "b7 ad6b71692033"}, "span id has 7 bytes, not 8"),
        ({"name": []}, "expected `str | null`, got `array` - at `$.name`"),
        ({"startTimeUnixNano": "soon"}, "'soon' is not a 64-bit integer"),
        ({"startTimeUnixNano": 1.5}, "'1.5' is not a 64-bit integer"),
        ({"startTimeUnixNano": str(2**64)}, "'18446744073709551616' is not a 64-bit integer"),
        ({"attributes": [{"key": "a", "value": {"doubleValue": "much"}}]}, "'much' is not a number"),
        ({"attributes": [{"key": "a", "value": {"bytesValue": "a"}}]}, "a bytesValue is not valid base64"),
        ({"attributes": {"a": 1}}, "expected `array | null`, got `object` - at `$.attributes`"),
    ],
)
def test_an_invalid_field_rejects_only_its_span(fields: dict[str, Any], reason: str) -> None:
    batch = decode_request(body(SPAN | fields, SPAN), JSON, NOW)

    assert len(batch.spans) == 1
    assert batch.rejected == [RejectedSpan(0, reason)]


def test_a_span_that_is_not_an_object_is_rejected_alone() -> None:
    batch = decode_request(body(None, 7, SPAN), JSON, NOW)

    assert len(batch.spans) == 1
    assert [one.index for one in batch.rejected] == [0, 1]


def test_lone_surrogates_become_replacement_characters() -> None:
    request_body = body(SPAN).replace(b'"chat"', rb'"\ud83d \uDE00 \ud83d\ude00 \\ud83d \n"')

    assert decode_request(request_body, JSON, NOW).spans[0].name == "� � 😀 \\ud83d �"


def test_a_body_with_too_many_lone_surrogates_is_rejected() -> None:
    with pytest.raises(InvalidBody, match="JSON is malformed"):
        decode_request(body(SPAN).replace(b'"chat"', b'"' + rb"\ud83d" * 1_000_001 + b'"'), JSON, NOW)


@pytest.mark.parametrize("parent", ["b7ad", "not hex"])
def test_an_invalid_parent_id_makes_a_root_span(parent: str) -> None:
    raw = decode_span(parentSpanId=parent, links=[{"traceId": "?", "spanId": "b7ad6b7169203331"}])

    assert (raw.parent_id, raw.notes, raw.links, raw.dropped) == (None, ("parent",), (), {"links": 1})


def test_a_body_with_a_value_nested_too_deeply_is_rejected() -> None:
    deep = b'{"arrayValue":{"values":[' * 50_000 + b"]}}" * 50_000
    nested = body(SPAN | {"attributes": [{"key": "a", "value": "HERE"}]}).replace(b'"HERE"', deep)

    with pytest.raises(InvalidBody, match="nested too deeply"):
        decode_request(nested, JSON, NOW)


@pytest.mark.parametrize(
    "request_body",
    [
        b"",
        b"[]",
        b"null",
        b"nul",
        b'{"resourceSpans": {}}',
        b'{"resourceSpans": [{"scopeSpans": 1}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"scope": {"name": "\xff"}}]}]}',
        rb'{"resourceSpans": [{"scopeSpans": [{"scope": {"name": "\ud8"}}]}]}',
        b'{"resourceSpans": [{"resource": {"attributes": [{"key": "a", "value": {"intValue": "x"}}]}}]}',
    ],
)
def test_a_body_that_is_not_an_export_request_is_rejected(request_body: bytes) -> None:
    with pytest.raises(InvalidBody, match="not a valid ExportTraceServiceRequest"):
        decode_request(request_body, JSON, NOW)


@pytest.mark.parametrize(
    "request_body", [b"{}", b'{"resourceSpans": null}', b'{"resourceSpans": [{"scopeSpans": [{}]}]}']
)
def test_a_request_without_spans_is_accepted(request_body: bytes) -> None:
    assert decode_request(request_body, JSON, NOW).spans == []


def test_a_large_body_of_empty_objects_is_rejected() -> None:
    with pytest.raises(TooLarge, match="empty objects"):
        decode_request(b'{"resourceSpans":[' + b"{}," * 1_500_000 + b"{}]}", JSON, NOW)


def test_a_span_with_too_many_values_is_rejected_alone() -> None:
    padded = {"stringValue": "x" * 60}
    wide_attributes = [{"key": "a", "value": {"arrayValue": {"values": [padded] * 70 + [{}] * 600_000}}}]
    filler = SPAN | {"attributes": [{"key": "a", "value": {"stringValue": "y" * 8_000_000}}]}

    batch = decode_request(body(SPAN | {"attributes": wide_attributes}, filler), JSON, NOW)

    assert (len(batch.spans), batch.rejected) == (1, [RejectedSpan(0, "more than 500,000 values")])


def test_notes_of_an_export_are_limited_and_a_negative_byte_count_is_ignored() -> None:
    raw = decode_span(palaver={"notes": ["a\x00" * 2_000, *map(str, range(200))], "bytes": -5})

    assert (raw.notes[0], len(raw.notes), raw.dropped) == ("a�" * 512, 100, {})
