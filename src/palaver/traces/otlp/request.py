"""Requests for /v1/traces: their media type and content encoding, and decoding and encoding them in either format."""

import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from palaver.errors import InvalidBody, TooLarge, UnsupportedMediaType
from palaver.traces.model import Span
from palaver.traces.otlp import json, protobuf
from palaver.traces.otlp.common import SpanBatch, SpanSource
from palaver.traces.otlp.json import encode_json_request, encode_json_span
from palaver.traces.otlp.protobuf import encode_protobuf_request, encode_protobuf_span

WireFormat = Literal["protobuf", "json"]
_FORMAT_BY_MEDIA_TYPE: dict[str, WireFormat] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_MIB = 1024 * 1024
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_MAX_GZIP_MEMBERS = 64
"""Each costs a copy of what follows it. Exporters send one."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one request may hold."""

    wire: int = 16 * _MIB
    """Bytes as they are sent."""
    unpacked: int = 64 * _MIB
    ratio: int = 100
    """Unpacked bytes for each on the wire; not asked of a body that unpacks to less than a mebibyte."""
    spans: int = 100_000


DEFAULT_LIMITS = RequestLimits()


def parse_media_type(media_type: str) -> WireFormat:
    """Which of the two forms a content type names."""
    form = _FORMAT_BY_MEDIA_TYPE.get(media_type.partition(";")[0].strip().lower())
    if form is None:
        raise UnsupportedMediaType(
            f"Traces are sent as {' or '.join(_FORMAT_BY_MEDIA_TYPE)}, not as {media_type[:80]!r}: set the exporter's"
            " protocol to http/protobuf or http/json."
        )
    return form


def decompress(body: bytes, encoding: str | None, limits: RequestLimits = DEFAULT_LIMITS) -> bytes:
    """The body without its content encoding. It is counted while it is unpacked, and never far past the limit."""
    if len(body) > limits.wire:
        raise TooLarge(f"The body is larger than {limits.wire} bytes: let the exporter send smaller batches.")
    match (encoding or "identity").strip().lower():
        case "identity":
            return body
        case "gzip" | "x-gzip":
            return _gunzip(body, min(limits.unpacked, max(_MIB, limits.ratio * len(body))))
        case other:
            raise UnsupportedMediaType(f"The content encoding {other[:80]!r} is not read: send gzip, or none.")


def _gunzip(body: bytes, most: int) -> bytes:
    """All members of a gzip body, which are one after the other."""
    pieces: list[bytes] = []
    room = most
    for _ in range(_MAX_GZIP_MEMBERS):
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            pieces.append(member.decompress(body, room + 1))
        except zlib.error as error:
            raise InvalidBody(f"The body is not gzip: {error}.") from None
        room -= len(pieces[-1])
        if room < 0:
            raise TooLarge(f"The body unpacks to more than {most} bytes: let the exporter send smaller batches.")
        if not member.eof:
            raise InvalidBody("The body is not gzip: it ends too early.")
        body = member.unused_data
        if not body:
            return b"".join(pieces)
    raise InvalidBody(f"The body has more than {_MAX_GZIP_MEMBERS} gzip members.")


_MAX_REQUEST_SPANS = 100
_MAX_REQUEST_BYTES = 1024 * 1024
"""Bytes after which another line is begun; one span may be longer."""


class EncodedRequest(NamedTuple):
    """A request for /v1/traces."""

    body: bytes
    spans: int
    """How many it holds."""


def encode_lines(spans: Iterable[Span]) -> Iterator[bytes]:
    """Lines of which each is a request for /v1/traces, the spans in their order."""
    return (request.body + b"\n" for request in encode_requests(spans, "json"))


def encode_requests(spans: Iterable[Span], form: WireFormat) -> Iterator[EncodedRequest]:
    """The same as requests. As protobuf they lack what OTLP has no field for: notes, and what was redacted."""
    written = encode_json_span if form == "json" else encode_protobuf_span
    joined = encode_json_request if form == "json" else encode_protobuf_request
    some: list[tuple[SpanSource, bytes]] = []
    size = 0
    for span in spans:
        data = written(span)
        if some and (len(some) >= _MAX_REQUEST_SPANS or size + len(data) > _MAX_REQUEST_BYTES):
            yield EncodedRequest(joined(some), len(some))
            some, size = [], 0
        some.append((_span_source(span), data))
        size += len(data)
    if some:
        yield EncodedRequest(joined(some), len(some))


def _span_source(span: Span) -> SpanSource:
    given = (("service.name", span.service), ("session.id", span.session), ("user.id", span.user))
    return tuple((name, value) for name, value in given if value is not None), span.scope


def decode_request(
    body: bytes, media_type: str, received_at: datetime, limits: RequestLimits = DEFAULT_LIMITS
) -> SpanBatch:
    """The spans of an unpacked body, each checked and bounded. Pure, and some work: not for the event loop.

    Raises InvalidBody for what is no request at all, TooLarge for one of too many spans, and UnsupportedMediaType.
    """
    if parse_media_type(media_type) == "json":
        return json.decode(body, received_at, limits.spans)
    return protobuf.decode(body, received_at, limits.spans)
