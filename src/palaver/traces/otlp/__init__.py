"""OTLP over HTTP: decode requests into spans, encode spans as requests, and encode responses. Knows no server.

Modules:

    request     media type, content encoding, decoding and encoding of requests
    response    responses of /v1/traces
    json        the JSON format
    protobuf    the protobuf format
    common      ids, times, batches and rejections, shared by both formats
    limits      limits on spans and values
"""

from palaver.traces.otlp.common import RejectedSpan, SpanBatch
from palaver.traces.otlp.request import (
    DEFAULT_LIMITS,
    EncodedRequest,
    RequestLimits,
    WireFormat,
    decode_request,
    decompress,
    encode_lines,
    encode_requests,
    parse_media_type,
)
from palaver.traces.otlp.response import MEDIA_TYPES, encode_error, encode_response, rejected_span_count

__all__ = [
    "decode_request",
    "encode_lines",
    "encode_requests",
    "EncodedRequest",
    "decompress",
    "parse_media_type",
    "encode_response",
    "encode_error",
    "rejected_span_count",
    "SpanBatch",
    "RejectedSpan",
    "WireFormat",
    "RequestLimits",
    "DEFAULT_LIMITS",
    "MEDIA_TYPES",
]
