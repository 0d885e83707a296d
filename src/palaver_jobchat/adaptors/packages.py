"""What a registry has of an adaptor: its versions, and a tarball of each with the adaptor's description inside.

Pure functions on what others sent. Of a tarball one file is read, in memory; nothing of it is ever put on the disk.
"""

import base64
import binascii
import gzip
import tarfile
from collections.abc import Sequence
from hashlib import sha512
from io import BytesIO
from typing import IO, cast

import httpx
import msgspec

from palaver_jobchat.adaptors.fetching import Unusable, may_lead
from palaver_jobchat.adaptors.folder import LARGEST

ABBREVIATED = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"
"""What npm itself asks for: the versions without their readmes."""

_MEMBER = "package/ast.json"
_MOST_MEMBERS = 10_000
_LARGEST_INSIDE = 5 * LARGEST


class Release(msgspec.Struct, frozen=True):
    """One version's tarball."""

    tarball: str = ""
    integrity: str = ""


class Package(msgspec.Struct, frozen=True):
    """All versions of an adaptor."""

    releases: dict[str, Release]
    latest: str | None = None


class _Version(msgspec.Struct, frozen=True):
    dist: Release = Release()


class _Metadata(msgspec.Struct, frozen=True, rename={"tags": "dist-tags"}):
    versions: dict[str, _Version]
    tags: dict[str, str] = {}


def read(content: bytes) -> Package:
    """The package that a registry describes."""
    try:
        metadata = msgspec.json.decode(content, type=_Metadata)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unusable(f"the registry's answer cannot be read ({error})") from error
    return Package({name: version.dist for name, version in metadata.versions.items()}, metadata.tags.get("latest"))


def addresses(registry: str, release: Release) -> Sequence[str]:
    """Where a release's tarball may lie.

    A mirror often repeats the address of what it mirrors, which cannot always be reached: its own comes first.
    """
    ours, theirs = httpx.URL(registry), httpx.URL(release.tarball)
    mirrored = registry + theirs.raw_path.decode("ascii")
    if not may_lead(ours, theirs):
        return [mirrored]
    return [release.tarball] if ours.host == theirs.host else [mirrored, release.tarball]


def description(tarball: bytes, integrity: str) -> bytes:
    """The description inside a tarball, if the tarball is the one that was announced."""
    if not _is_announced(tarball, integrity):
        raise Unusable("the tarball is not the one that the registry announced")
    try:
        with (
            gzip.GzipFile(fileobj=BytesIO(tarball)) as inflated,
            tarfile.open(fileobj=cast("IO[bytes]", _Bounded(inflated)), mode="r|") as archive,
        ):
            return _member(archive)
    except Unusable:
        raise
    except Exception as error:  # The readers of such files raise more kinds than they say.
        raise Unusable(f"the tarball cannot be read ({type(error).__name__})") from error


def _is_announced(tarball: bytes, integrity: str) -> bool:
    """Whether one of the SHA-512 sums is the tarball's. Weaker sums count as none."""
    digest = sha512(tarball).digest()
    for announced in integrity.split():
        algorithm, _, encoded = announced.partition("?")[0].partition("-")
        try:
            if algorithm == "sha512" and base64.b64decode(encoded, validate=True) == digest:
                return True
        except binascii.Error:
            continue
    return False


def _member(archive: tarfile.TarFile) -> bytes:
    for number, member in enumerate(archive):
        if number >= _MOST_MEMBERS:
            raise Unusable(f"the tarball holds more than {_MOST_MEMBERS:,} files")
        if member.name == _MEMBER and member.isreg():
            if member.size > LARGEST:
                raise Unusable(f"{_MEMBER} has more than {LARGEST:,} bytes")
            file = archive.extractfile(member)
            assert file is not None
            return file.read()
    raise Unusable(f"the tarball has no {_MEMBER}")


class _Bounded:
    """A stream that ends with an error where it would give too much: a small file can inflate to a huge one."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._room = _LARGEST_INSIDE

    def read(self, size: int) -> bytes:
        content = self._stream.read(min(size, self._room + 1))
        self._room -= len(content)
        if self._room < 0:
            raise Unusable(f"the tarball holds more than {_LARGEST_INSIDE:,} bytes")
        return content
