"""Responses to senders, decoded with OpenTelemetry's own messages."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from palaver.traces.otlp import MEDIA_TYPES, RejectedSpan, encode_error, encode_response, parse_media_type

TWO = [RejectedSpan(3, "span id has 4 bytes"), RejectedSpan(7, "trace id is zero")]


def test_all_taken_is_nothing_to_say() -> None:
    assert (encode_response([], "json"), encode_response([], "protobuf")) == (b"{}", b"")


def test_some_refused_is_a_partial_success() -> None:
    reasons = "spans[3]: span id has 4 bytes; spans[7]: trace id is zero"

    assert encode_response(TWO, "json") == (
        b'{"partialSuccess":{"rejectedSpans":"2",'
        b'"errorMessage":"spans[3]: span id has 4 bytes; spans[7]: trace id is zero"}}'
    )
    assert ExportTraceServiceResponse.FromString(encode_response(TWO, "protobuf")) == ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message=reasons)
    )


def test_at_most_five_reasons_are_given() -> None:
    rejections = [RejectedSpan(index, "trace id is zero") for index in range(300)]

    answer = ExportTraceServiceResponse.FromString(encode_response(rejections, "protobuf")).partial_success

    assert answer.rejected_spans == 300
    assert answer.error_message == "; ".join(f"spans[{index}]: trace id is zero" for index in range(5))


def test_a_refusal_is_a_status() -> None:
    assert encode_error("The body is no…", "json") == '{"code":3,"message":"The body is no…"}'.encode()
    assert encode_error("No.", "protobuf") == b"\x08\x03\x12\x03No."


def test_an_answer_has_the_form_of_the_request() -> None:
    assert {form: parse_media_type(media_type) for form, media_type in MEDIA_TYPES.items()} == {
        "protobuf": "protobuf",
        "json": "json",
    }
