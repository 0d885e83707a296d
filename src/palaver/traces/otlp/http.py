"""Requests and responses of /v1/traces and /v1/logs: media types, content encodings, and both formats."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from palaver.errors import UnsupportedMediaType
from palaver.traces.model import Span
from palaver.traces.otlp import json, protobuf
from palaver.traces.otlp.common import RejectedSpan, SpanBatch, SpanSource
from palaver.traces.otlp.decompression import DEFAULT_LIMITS, RequestLimits
from palaver.traces.otlp.json import encode_json_request, encode_json_span
from palaver.traces.otlp.logs import LogBatch, decode_logs
from palaver.traces.otlp.protobuf import encode_field, encode_protobuf_request, encode_protobuf_span, encode_varint

WireFormat = Literal["protobuf", "json"]
_FORMAT_BY_MEDIA_TYPE: dict[str, WireFormat] = {"application/x-protobuf": "protobuf", "application/json": "json"}


def parse_media_type(media_type: str) -> WireFormat:
    """Return the format of a media type. Raises UnsupportedMediaType."""
    wire_format = _FORMAT_BY_MEDIA_TYPE.get(media_type.partition(";")[0].strip().lower())
    if wire_format is None:
        raise UnsupportedMediaType(
            f"Unsupported content type {media_type[:80]!r}: must be {' or '.join(_FORMAT_BY_MEDIA_TYPE)}. Set the"
            " exporter's protocol to http/protobuf or http/json."
        )
    return wire_format


_MAX_REQUEST_SPANS = 100
_MAX_REQUEST_BYTES = 1024 * 1024
"""Maximum size of a request with several spans. A single span may be larger."""


class EncodedRequest(NamedTuple):
    body: bytes
    spans: int


def encode_lines(spans: Iterable[Span]) -> Iterator[bytes]:
    """Encode spans, in order, as lines of which each is a JSON request."""
    return (request.body + b"\n" for request in encode_requests(spans, "json"))


def encode_requests(spans: Iterable[Span], wire_format: WireFormat) -> Iterator[EncodedRequest]:
    """Encode spans as requests. Protobuf lacks fields for notes and redactions."""
    encode_span = encode_json_span if wire_format == "json" else encode_protobuf_span
    encode_request = encode_json_request if wire_format == "json" else encode_protobuf_request
    pending: list[tuple[SpanSource, bytes]] = []
    size = 0
    for span in spans:
        data = encode_span(span)
        if pending and (len(pending) >= _MAX_REQUEST_SPANS or size + len(data) > _MAX_REQUEST_BYTES):
            yield EncodedRequest(encode_request(pending), len(pending))
            pending, size = [], 0
        pending.append((_span_source(span), data))
        size += len(data)
    if pending:
        yield EncodedRequest(encode_request(pending), len(pending))


def _span_source(span: Span) -> SpanSource:
    labels = (("service.name", span.service), ("session.id", span.session), ("user.id", span.user))
    return tuple((name, value) for name, value in labels if value is not None), span.scope


def decode_request(
    body: bytes, media_type: str, received_at: datetime, limits: RequestLimits = DEFAULT_LIMITS
) -> SpanBatch:
    """Decode a decompressed body. Too slow for the event loop.

    Raises InvalidBody, TooLarge or UnsupportedMediaType.
    """
    if parse_media_type(media_type) == "json":
        return json.decode(body, received_at, limits.max_spans)
    return protobuf.decode(body, received_at, limits.max_spans)


def decode_log_request(
    body: bytes, media_type: str, received_at: datetime, limits: RequestLimits = DEFAULT_LIMITS
) -> LogBatch:
    """Decode the events in a decompressed body of log records. Raises as `decode_request` does."""
    is_json = parse_media_type(media_type) == "json"
    return decode_logs(body, is_json=is_json, received_at=received_at, max_records=limits.max_spans)


MEDIA_TYPES: dict[WireFormat, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}
MAX_REASONS = 5
INVALID_ARGUMENT = 3
"""A google.rpc.Code: the client must not resend."""
_encode = msgspec.json.Encoder().encode


Signal = Literal["traces", "logs"]
_REJECTED_COUNTS: dict[Signal, str] = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0


class _ExportResponse(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


_decode_response = msgspec.json.Decoder(_ExportResponse).decode


def encode_response(rejected: Sequence[RejectedSpan], wire_format: WireFormat, signal: Signal = "traces") -> bytes:
    """Encode the response of a request with the number of rejected spans or log records and the first reasons."""
    if not rejected:
        return b"{}" if wire_format == "json" else b""
    message = "; ".join(map(str, rejected[:MAX_REASONS]))
    if wire_format == "json":
        partial = {_REJECTED_COUNTS[signal]: str(len(rejected)), "errorMessage": message}
        return _encode({"partialSuccess": partial})
    return encode_field(1, _varint_field(1, len(rejected)) + encode_field(2, message.encode()))


def encode_error(message: str, wire_format: WireFormat, code: int = INVALID_ARGUMENT) -> bytes:
    """Encode a google.rpc.Status for a rejected request."""
    if wire_format == "json":
        return _encode({"code": code, "message": message})
    return _varint_field(1, code) + encode_field(2, message.encode())


def rejected_span_count(body: bytes, wire_format: WireFormat) -> int:
    """Return how many spans a server's response reports as rejected; 0 if it can't be read."""
    try:
        if wire_format == "json":
            partial = _decode_response(body).partial_success if body.strip() else None
            return max(0, int(partial.rejected_spans)) if partial else 0
        return max(0, ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
    except (msgspec.MsgspecError, DecodeError, ValueError):
        return 0


def _varint_field(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value)
