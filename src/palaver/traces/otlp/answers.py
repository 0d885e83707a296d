"""What a sender of traces is told, in the form in which it sent; and what one is told elsewhere, read."""

from collections.abc import Sequence

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from palaver.traces.otlp.spans import Rejected
from palaver.traces.otlp.unpacking import Form
from palaver.traces.otlp.wire import varint

MEDIA_TYPES: dict[Form, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}
MOST_REASONS = 5
INVALID_ARGUMENT = 3
"""The one of google.rpc.Code that says: do not send this again."""
_encode = msgspec.json.Encoder().encode


class _Partial(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _Partial | None = None


_answer = msgspec.json.Decoder(_Answer).decode


def taken(rejected: Sequence[Rejected], form: Form) -> bytes:
    """An ExportTraceServiceResponse: nothing to say, or how many spans were refused and the first reasons."""
    if not rejected:
        return b"{}" if form == "json" else b""
    message = "; ".join(map(str, rejected[:MOST_REASONS]))
    if form == "json":
        return _encode({"partialSuccess": {"rejectedSpans": str(len(rejected)), "errorMessage": message}})
    return _text(1, _number(1, len(rejected)) + _text(2, message.encode()))


def refused(message: str, form: Form, code: int = INVALID_ARGUMENT) -> bytes:
    """A google.rpc.Status: why the whole request was not taken."""
    if form == "json":
        return _encode({"code": code, "message": message})
    return _number(1, code) + _text(2, message.encode())


def refused_spans(body: bytes, form: Form) -> int:
    """How many spans an answer of a server elsewhere says that it refused; none where it says nothing of use."""
    try:
        if form == "json":
            told = _answer(body).partial_success if body.strip() else None
            return max(0, int(told.rejected_spans)) if told else 0
        return max(0, ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
    except (msgspec.MsgspecError, DecodeError, ValueError):
        return 0


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _text(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content
