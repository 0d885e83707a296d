"""OTLP over HTTP: requests as spans, spans as requests again, and what a sender is answered. Knows no server.

batch = decode_request(decompress(body, content_encoding), content_type, now)
response = encode_response(batch.rejected, parse_media_type(content_type))
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
