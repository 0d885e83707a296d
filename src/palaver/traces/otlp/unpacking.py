"""Bodies as they come over the wire: their media type, and what is left of them once gzip is undone."""

import zlib
from typing import Literal

import msgspec

from palaver.errors import InvalidBody, TooLarge, UnsupportedMediaType

Form = Literal["protobuf", "json"]
_FORMS: dict[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_MIB = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_MOST_MEMBERS = 64
"""Each costs a copy of what follows it. Exporters send one."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one request may hold."""

    wire: int = 16 * _MIB
    """Bytes as they are sent."""
    unpacked: int = 64 * _MIB
    ratio: int = 100
    """Unpacked bytes for each on the wire; not asked of a body that unpacks to less than a mebibyte."""
    spans: int = 100_000


LIMITS = Limits()


def form_of(media_type: str) -> Form:
    """Which of the two forms a content type names."""
    form = _FORMS.get(media_type.partition(";")[0].strip().lower())
    if form is None:
        raise UnsupportedMediaType(
            f"Traces are sent as {' or '.join(_FORMS)}, not as {media_type[:80]!r}: set the exporter's protocol to"
            " http/protobuf or http/json."
        )
    return form


def unpacked(body: bytes, encoding: str | None, limits: Limits = LIMITS) -> bytes:
    """The body without its content encoding. It is counted while it is unpacked, and never far past the limit."""
    if len(body) > limits.wire:
        raise TooLarge(f"The body is larger than {limits.wire} bytes: let the exporter send smaller batches.")
    match (encoding or "identity").strip().lower():
        case "identity":
            return body
        case "gzip" | "x-gzip":
            return _inflated(body, min(limits.unpacked, max(_MIB, limits.ratio * len(body))))
        case other:
            raise UnsupportedMediaType(f"The content encoding {other[:80]!r} is not read: send gzip, or none.")


def _inflated(body: bytes, most: int) -> bytes:
    """All members of a gzip body, which are one after the other."""
    pieces: list[bytes] = []
    room = most
    for _ in range(_MOST_MEMBERS):
        member = zlib.decompressobj(_GZIP)
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
    raise InvalidBody(f"The body has more than {_MOST_MEMBERS} gzip members.")
