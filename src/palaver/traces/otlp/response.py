"""Encode OTLP responses in the format of the request, and read the responses of other servers."""

from collections.abc import Sequence

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from palaver.traces.otlp.common import RejectedSpan
from palaver.traces.otlp.protobuf import encode_varint
from palaver.traces.otlp.request import WireFormat

MEDIA_TYPES: dict[WireFormat, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}
MAX_REASONS = 5
INVALID_ARGUMENT = 3
"""A google.rpc.Code: the client must not resend."""
_encode = msgspec.json.Encoder().encode


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0


class _ExportResponse(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


_decode_response = msgspec.json.Decoder(_ExportResponse).decode


def encode_response(rejected: Sequence[RejectedSpan], form: WireFormat) -> bytes:
    """Encode an ExportTraceServiceResponse with the number of rejected spans and the first reasons."""
    if not rejected:
        return b"{}" if form == "json" else b""
    message = "; ".join(map(str, rejected[:MAX_REASONS]))
    if form == "json":
        return _encode({"partialSuccess": {"rejectedSpans": str(len(rejected)), "errorMessage": message}})
    return _bytes_field(1, _varint_field(1, len(rejected)) + _bytes_field(2, message.encode()))


def encode_error(message: str, form: WireFormat, code: int = INVALID_ARGUMENT) -> bytes:
    """Encode a google.rpc.Status for a rejected request."""
    if form == "json":
        return _encode({"code": code, "message": message})
    return _varint_field(1, code) + _bytes_field(2, message.encode())


def rejected_span_count(body: bytes, form: WireFormat) -> int:
    """Return how many spans a server's response reports as rejected; 0 if it can't be read."""
    try:
        if form == "json":
            partial = _decode_response(body).partial_success if body.strip() else None
            return max(0, int(partial.rejected_spans)) if partial else 0
        return max(0, ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
    except (msgspec.MsgspecError, DecodeError, ValueError):
        return 0


def _varint_field(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value)


def _bytes_field(field: int, content: bytes) -> bytes:
    return encode_varint(field << 3 | 2) + encode_varint(len(content)) + content
