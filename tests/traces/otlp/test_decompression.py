"""Request bodies: media types, gzip, and limits of decompression."""

import gzip
import tracemalloc
import zlib
from functools import partial

import pytest

from palaver.errors import InvalidBody, TooLarge, UnsupportedMediaType
from palaver.traces.otlp import parse_media_type
from palaver.traces.otlp.decompression import DEFAULT_LIMITS, RequestLimits, decompress
from tests.growth import assert_bounded

MIB = 1024 * 1024


@pytest.mark.parametrize("encoding", [None, "", "identity", " Identity "])
def test_a_body_without_encoding_is_returned_unchanged(encoding: str | None) -> None:
    assert decompress(b"spans", encoding) == b"spans"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_a_gzip_body_is_decompressed(encoding: str) -> None:
    assert decompress(gzip.compress(b"spans"), encoding) == b"spans"


def test_the_members_of_a_gzip_body_are_joined() -> None:
    assert decompress(gzip.compress(b"two ") + gzip.compress(b"spans"), "gzip") == b"two spans"


@pytest.mark.parametrize(
    "body", [b"", b"spans", gzip.compress(b"spans")[:-1], gzip.compress(b"spans") + b"?", zlib.compress(b"spans")]
)
def test_a_body_that_is_not_gzip_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidBody, match="not valid gzip"):
        decompress(body, "gzip")


def test_a_body_with_too_many_gzip_members_is_rejected() -> None:
    with pytest.raises(InvalidBody, match="more than 64 gzip members"):
        decompress(gzip.compress(b"") * 65, "gzip")


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_other_encodings_are_rejected(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="Use gzip or none"):
        decompress(b"spans", encoding)


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_received_body_above_the_size_limit_is_rejected(encoding: str | None) -> None:
    with pytest.raises(TooLarge, match="larger than 4 bytes"):
        decompress(b"spans", encoding, RequestLimits(compressed_bytes=4))


def test_a_decompressed_body_above_the_size_limit_is_rejected() -> None:
    body = gzip.compress(b"spans")

    assert decompress(body, "gzip", RequestLimits(decompressed_bytes=5)) == b"spans"
    with pytest.raises(TooLarge, match="more than 4 bytes"):
        decompress(body, "gzip", RequestLimits(decompressed_bytes=4))


def test_the_compression_ratio_is_limited_above_one_mebibyte() -> None:
    assert len(decompress(gzip.compress(b"0" * MIB), "gzip")) == MIB
    with pytest.raises(TooLarge, match=f"more than {MIB:,} bytes"):
        decompress(gzip.compress(b"0" * (MIB + 1)), "gzip")


def test_a_gzip_bomb_costs_bounded_memory_and_time() -> None:
    def bomb(mebibytes: int) -> bytes:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        zeros = bytes(MIB)
        return b"".join([packer.compress(zeros) for _ in range(mebibytes)]) + packer.flush()

    def unpack(body: bytes, max_bytes: int) -> None:
        with pytest.raises(TooLarge):
            decompress(body, "gzip", RequestLimits(ratio=2_000, decompressed_bytes=max_bytes))

    assert_bounded(partial(unpack, max_bytes=4 * MIB), bomb, 8)
    large = bomb(512)
    tracemalloc.start()
    unpack(large, DEFAULT_LIMITS.decompressed_bytes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * DEFAULT_LIMITS.decompressed_bytes


@pytest.mark.parametrize(
    ("media_type", "form"),
    [
        ("application/x-protobuf", "protobuf"),
        ("Application/JSON; charset=utf-8", "json"),
        (" application/json ", "json"),
    ],
)
def test_a_media_type_is_parsed_to_its_format(media_type: str, form: str) -> None:
    assert parse_media_type(media_type) == form


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/grpc", "application/jsonl"])
def test_other_media_types_are_rejected(media_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="http/protobuf or http/json"):
        parse_media_type(media_type)
