"""OTLP over HTTP: decode requests into spans, encode spans as requests, and encode responses. Knows no server.

Modules:

    http           requests and responses of /v1/traces and /v1/logs: media types, both formats
    decompression  gzip within limits
    logs           log records that are events of a span
    json           the JSON format
    protobuf       the protobuf format
    common         ids, times, batches and rejections, shared by both formats
    limits         limits on spans and values
"""

from palaver.traces.otlp.common import RejectedSpan, SpanBatch
from palaver.traces.otlp.http import (
    MEDIA_TYPES,
    EncodedRequest,
    WireFormat,
    decode_log_request,
    decode_request,
    encode_error,
    encode_lines,
    encode_requests,
    encode_response,
    parse_media_type,
    rejected_span_count,
)

__all__ = [
    "MEDIA_TYPES",
    "EncodedRequest",
    "RejectedSpan",
    "SpanBatch",
    "WireFormat",
    "decode_log_request",
    "decode_request",
    "encode_error",
    "encode_lines",
    "encode_requests",
    "encode_response",
    "parse_media_type",
    "rejected_span_count",
]
