"""Responses to senders, decoded with OpenTelemetry's own messages."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from palaver.traces.otlp import MEDIA_TYPES, RejectedSpan, encode_error, encode_response, parse_media_type

REJECTED_SPANS = [RejectedSpan(3, "span id has 4 bytes"), RejectedSpan(7, "trace id is zero")]


def test_a_response_without_rejected_spans_is_empty() -> None:
    assert (encode_response([], "json"), encode_response([], "protobuf")) == (b"{}", b"")


def test_rejected_spans_give_a_partial_success() -> None:
    reasons = "spans[3]: span id has 4 bytes; spans[7]: trace id is zero"

    assert encode_response(REJECTED_SPANS, "json") == (
        b'{"partialSuccess":{"rejectedSpans":"2",'
        b'"errorMessage":"spans[3]: span id has 4 bytes; spans[7]: trace id is zero"}}'
    )
    assert ExportTraceServiceResponse.FromString(
        encode_response(REJECTED_SPANS, "protobuf")
    ) == ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message=reasons))


def test_a_response_lists_at_most_five_reasons() -> None:
    rejections = [RejectedSpan(index, "trace id is zero") for index in range(300)]

    partial_success = ExportTraceServiceResponse.FromString(encode_response(rejections, "protobuf")).partial_success

    assert partial_success.rejected_spans == 300
    assert partial_success.error_message == "; ".join(f"spans[{index}]: trace id is zero" for index in range(5))


def test_an_error_is_encoded_as_a_status() -> None:
    assert encode_error("The body is no…", "json") == '{"code":3,"message":"The body is no…"}'.encode()
    assert encode_error("No.", "protobuf") == b"\x08\x03\x12\x03No."


def test_each_response_media_type_parses_to_its_format() -> None:
    assert {form: parse_media_type(media_type) for form, media_type in MEDIA_TYPES.items()} == {
        "protobuf": "protobuf",
        "json": "json",
    }
