"""Package documents of a registry, and descriptions in tarballs."""

import io
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.adaptors import npm_registry
from palaver_jobchat.adaptors.http_fetch import DownloadError
from palaver_jobchat.adaptors.npm_registry import Package, Release, extract_description, parse_package, tarball_urls
from tests.jobchat.adaptors.fake_registry import describe, gzipped, integrity, package, tar


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def extract_error(tarball: bytes, announced_integrity: str | None = None) -> str:
    with pytest.raises(DownloadError) as caught:
        extract_description(tarball, integrity(tarball) if announced_integrity is None else announced_integrity)
    return str(caught.value)


def test_package_document_is_parsed() -> None:
    content = (
        b'{"name": "x", "dist-tags": {"latest": "1.1.0", "next": "2.0.0"}, "time": 5, "versions": {"1.0.0": {"dist": '
        b'{"shasum": "ab", "tarball": "https://x/1.tgz"}}, "1.1.0": {"dist": {"tarball": "t", "integrity": "i"}}, '
        b'"2.0.0": {}}}'
    )

    assert parse_package(content) == Package(
        {"1.0.0": Release("https://x/1.tgz"), "1.1.0": Release("t", "i"), "2.0.0": Release()}, "1.1.0"
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"versions": {"1.0.0": 5}}', b"[" * 9999])
def test_invalid_package_document_is_rejected(content: bytes) -> None:
    with pytest.raises(DownloadError):
        parse_package(content)


@pytest.mark.parametrize(
    ("tarball", "urls"),
    [
        ("https://npm.example/x/-/x.tgz", ["https://npm.example/x/-/x.tgz"]),
        (
            "https://other.example/x/-/x.tgz?a=1",
            ["https://npm.example/x/-/x.tgz?a=1", "https://other.example/x/-/x.tgz?a=1"],
        ),
        ("http://other.example/x.tgz", ["https://npm.example/x.tgz"]),
        ("http://npm.example/x.tgz", ["https://npm.example/x.tgz"]),
        ("file:///x.tgz", ["https://npm.example/x.tgz"]),
    ],
)
def test_tarball_urls_start_with_the_registry_and_leave_out_insecure_urls(tarball: str, urls: list[str]) -> None:
    assert tarball_urls("https://npm.example", Release(tarball)) == urls


def test_tarball_url_includes_the_path_of_the_mirror() -> None:
    assert tarball_urls("http://mirror.example/npm", Release("http://npm.example/x.tgz")) == [
        "http://mirror.example/npm/x.tgz"
    ]


def test_description_is_extracted_from_the_tarball() -> None:
    tarball = package("lend")

    assert extract_description(tarball, integrity(tarball)) == describe("lend")


def test_one_matching_strong_checksum_of_several_is_enough() -> None:
    tarball = package("lend")

    assert extract_description(tarball, f"sha1-abc= sha512-no! sha512-AAAA {integrity(tarball)}?x") == describe("lend")


@pytest.mark.parametrize(
    "announced_integrity", ["", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "sha512-", "sha512-AAAA", "sha512"]
)
def test_tarball_that_does_not_match_its_checksum_is_rejected(announced_integrity: str) -> None:
    assert (
        extract_error(package("lend"), announced_integrity)
        == "the tarball does not match the integrity hash in the registry"
    )


@pytest.mark.parametrize(
    "tarball",
    [
        tar(("package/index.js", b"1")),
        tar(("ast.json", describe("lend"))),
        tar(("package/../package/ast.json", describe("lend"))),
        tar(("secret", describe("lend")), link("package/ast.json", "../secret")),
        tar(("secret", describe("lend")), link("package/ast.json", "secret", tarfile.LNKTYPE)),
        tar(link("package/ast.json", "", tarfile.DIRTYPE)),
        tar(link("package/ast.json", "", tarfile.FIFOTYPE)),
    ],
)
def test_tarball_without_a_regular_description_file_is_rejected(tarball: bytes) -> None:
    assert extract_error(tarball) == "the tarball does not contain package/ast.json"


@pytest.mark.parametrize(
    "tarball", [b"", b"no gzip", package("lend")[:60], gzipped(b"no tar" * 200), package("lend")[:-100] + bytes(100)]
)
def test_broken_tarball_is_rejected(tarball: bytes) -> None:
    assert extract_error(tarball).startswith(("cannot read the tarball (", "the tarball does not contain "))


def test_tarball_over_the_unpacked_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm_registry, "_MAX_UNPACKED_BYTES", 1_000_000)
    tarball = tar(("package/zeros", bytes(3_000_000)), ("package/ast.json", describe("lend")))

    assert len(tarball) < 10_000
    assert extract_error(tarball) == "the unpacked tarball exceeds 1,000,000 bytes"


def test_tarball_with_too_many_files_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm_registry, "_MAX_MEMBERS", 20)

    assert extract_error(tar(*((f"package/{n}", b"") for n in range(30)))) == "the tarball contains more than 20 files"


def test_description_with_a_huge_declared_size_is_rejected() -> None:
    info = tarfile.TarInfo("package/ast.json")
    info.size = 10**12

    assert extract_error(gzipped(info.tobuf())) == "package/ast.json is larger than 20,971,520 bytes"


def test_tarball_with_nested_long_name_headers_is_rejected() -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1

    assert extract_error(gzipped((info.tobuf() + b"x".ljust(512, b"\0")) * 5000)).startswith("cannot read the tarball")


@given(st.binary(max_size=2000), st.integers(0, 1500), st.binary(min_size=1, max_size=9))
def test_any_bytes_are_extracted_or_rejected_with_a_download_error(rest: bytes, place: int, noise: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("package/index.js"))
        archive.addfile(tarfile.TarInfo("package/ast.json"))
    content = buffer.getvalue()
    for tarball in (rest, gzipped(rest), gzipped(content[:place] + noise + content[place + len(noise) :])):
        with suppress(DownloadError):
            assert isinstance(extract_description(tarball, integrity(tarball)), bytes)
