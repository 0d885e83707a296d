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
def test_a_body_without_encoding_is_itself(encoding: str | None) -> None:
    assert decompress(b"spans", encoding) == b"spans"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_undone(encoding: str) -> None:
    assert decompress(gzip.compress(b"spans"), encoding) == b"spans"


def test_the_members_of_a_gzip_body_are_joined() -> None:
    assert decompress(gzip.compress(b"two ") + gzip.compress(b"spans"), "gzip") == b"two spans"


@pytest.mark.parametrize(
    "body", [b"", b"spans", gzip.compress(b"spans")[:-1], gzip.compress(b"spans") + b"?", zlib.compress(b"spans")]
)
def test_what_is_not_gzip_is_an_invalid_body(body: bytes) -> None:
    with pytest.raises(InvalidBody, match="not gzip"):
        decompress(body, "gzip")


def test_a_body_of_many_gzip_members_is_refused() -> None:
    with pytest.raises(InvalidBody, match="more than 64 gzip members"):
        decompress(gzip.compress(b"") * 65, "gzip")


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_no_other_encoding_is_read(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="send gzip"):
        decompress(b"spans", encoding)


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_body_may_be_so_large_on_the_wire(encoding: str | None) -> None:
    with pytest.raises(TooLarge, match="larger than 4 bytes"):
        decompress(b"spans", encoding, RequestLimits(compressed_bytes=4))


def test_a_body_may_be_so_large_once_unpacked() -> None:
    body = gzip.compress(b"spans")

    assert decompress(body, "gzip", RequestLimits(decompressed_bytes=5)) == b"spans"
    with pytest.raises(TooLarge, match="more than 4 bytes"):
        decompress(body, "gzip", RequestLimits(decompressed_bytes=4))


def test_the_ratio_counts_from_a_mebibyte_on() -> None:
    assert len(decompress(gzip.compress(b"0" * MIB), "gzip")) == MIB
    with pytest.raises(TooLarge, match=f"more than {MIB} bytes"):
        decompress(gzip.compress(b"0" * (MIB + 1)), "gzip")


def test_a_bomb_costs_little_memory_and_time() -> None:
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
def test_a_media_type_names_a_form(media_type: str, form: str) -> None:
    assert parse_media_type(media_type) == form


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/grpc", "application/jsonl"])
def test_no_other_media_type_is_read(media_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="http/protobuf or http/json"):
        parse_media_type(media_type)
