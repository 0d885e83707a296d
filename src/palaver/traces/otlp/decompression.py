"""Decompress request bodies within limits on size and ratio."""

import zlib

import msgspec

from palaver.errors import InvalidBody, TooLarge, UnsupportedMediaType

_MIB = 1024 * 1024
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_MAX_GZIP_MEMBERS = 64
"""Each member costs a copy of the remaining body. Exporters send one."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    compressed_bytes: int = 16 * _MIB
    """Bytes of the body as sent."""
    decompressed_bytes: int = 64 * _MIB
    ratio: int = 100
    """Decompressed bytes per sent byte; ignored below one mebibyte."""
    max_spans: int = 100_000


DEFAULT_LIMITS = RequestLimits()


def decompress(body: bytes, encoding: str | None, limits: RequestLimits = DEFAULT_LIMITS) -> bytes:
    """Undo the content encoding. Bytes are counted while they are decompressed."""
    if len(body) > limits.compressed_bytes:
        raise TooLarge(
            f"The body is larger than {limits.compressed_bytes:,} bytes. "
            "Configure the exporter to send smaller batches."
        )
    match (encoding or "identity").strip().lower():
        case "identity":
            return body
        case "gzip" | "x-gzip":
            return _gunzip(body, min(limits.decompressed_bytes, max(_MIB, limits.ratio * len(body))))
        case other:
            raise UnsupportedMediaType(f"Unsupported content encoding {other[:80]!r}. Use gzip or none.")


def _gunzip(body: bytes, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    remaining = max_bytes
    for _ in range(_MAX_GZIP_MEMBERS):
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            chunks.append(member.decompress(body, remaining + 1))
        except zlib.error as error:
            raise InvalidBody(f"The body is not valid gzip: {error}.") from None
        remaining -= len(chunks[-1])
        if remaining < 0:
            raise TooLarge(
                f"The body decompresses to more than {max_bytes:,} bytes. "
                "Configure the exporter to send smaller batches."
            )
        if not member.eof:
            raise InvalidBody("The body is not valid gzip: unexpected end of data.")
        body = member.unused_data
        if not body:
            return b"".join(chunks)
    raise InvalidBody(f"The body has more than {_MAX_GZIP_MEMBERS} gzip members.")
