"""Find npm's registry, list the versions of OpenFn's packages, and extract descriptions from their tarballs.

The registry is the one that npm would use: that of the scope `@openfn`, else the general one, from the environment,
the `.npmrc` of the working folder or that of the user. Otherwise `npm config` is run, if npm is installed. Only
the address is used.
"""

import asyncio
import base64
import binascii
import gzip
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha512
from io import BytesIO
from pathlib import Path
from typing import IO, cast

import httpx
import msgspec

from palaver_jobchat.adaptors.http_fetch import (
    MAX_BYTES,
    DownloadError,
    SingleFlight,
    fetch_first,
    fetch_url,
    log,
    may_redirect,
    wait_for,
)

_REGISTRY_KEYS = ("@openfn:registry", "registry")
_PREFIX = "npm_config_"
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_NPM_TIMEOUT_S = 3.0


def users_registry() -> str | None:
    """Return the registry's address for this process's user and working folder."""
    return configured_registry(os.environ, folder=Path.cwd(), home=Path.home())


def configured_registry(env: Mapping[str, str], *, folder: Path, home: Path) -> str | None:
    """Return the registry's address, or None if none is configured and npm is not installed."""
    environment = {
        name[len(_PREFIX) :].lower(): value for name, value in env.items() if name.lower().startswith(_PREFIX) and value
    }
    user_config = Path(environment.get("userconfig") or home / ".npmrc")
    layers = [environment, _read_npmrc(folder / ".npmrc", env), _read_npmrc(user_config, env)]
    for key in _REGISTRY_KEYS:
        for layer in layers:
            if address := normalize_url(layer.get(key)):
                return address
    return normalize_url(_registry_from_npm_command(env))


def normalize_url(address: str | None) -> str | None:
    """Return an http(s) address without trailing slashes, or None."""
    address = (address or "").strip().rstrip("/")
    return address if address.startswith(("http://", "https://")) else None


def _read_npmrc(path: Path, env: Mapping[str, str]) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    values: dict[str, str] = {}
    for line in lines:
        if line.strip().startswith("["):
            break  # npm has no sections.
        key, _, value = line.partition("=")
        if key.strip() in _REGISTRY_KEYS:
            values[key.strip()] = _VARIABLE.sub(lambda name: env.get(name[1], ""), value.strip().strip("\"'"))
    return values


def _registry_from_npm_command(env: Mapping[str, str]) -> str | None:
    npm = shutil.which("npm", path=env.get("PATH", ""))
    if npm is None:
        return None
    try:
        process = subprocess.run(
            [npm, "config", "get", "registry"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_NPM_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.decode(errors="replace")


ABBREVIATED = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"
"""npm's own Accept header: versions without readmes."""

_DESCRIPTION_MEMBER = "package/ast.json"
_MAX_MEMBERS = 10_000
_MAX_UNPACKED_BYTES = 5 * MAX_BYTES


class Release(msgspec.Struct, frozen=True):
    tarball: str = ""
    integrity: str = ""


class Package(msgspec.Struct, frozen=True):
    releases: dict[str, Release]
    latest: str | None = None


class _Version(msgspec.Struct, frozen=True):
    dist: Release = Release()


class _Metadata(msgspec.Struct, frozen=True, rename={"tags": "dist-tags"}):
    versions: dict[str, _Version]
    tags: dict[str, str] = {}


def parse_package(content: bytes) -> Package:
    try:
        metadata = msgspec.json.decode(content, type=_Metadata)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DownloadError(f"cannot decode the registry's response ({error})") from error
    return Package({name: version.dist for name, version in metadata.versions.items()}, metadata.tags.get("latest"))


def tarball_urls(registry: str, release: Release) -> Sequence[str]:
    """Return the possible addresses of a release's tarball.

    A mirror often repeats the address of the original, which may be unreachable: the mirror's own comes first.
    """
    registry_url, tarball_url = httpx.URL(registry), httpx.URL(release.tarball)
    mirror_address = registry + tarball_url.raw_path.decode("ascii")
    if not may_redirect(registry_url, tarball_url):
        return [mirror_address]
    return [release.tarball] if registry_url.host == tarball_url.host else [mirror_address, release.tarball]


def extract_description(tarball: bytes, integrity: str) -> bytes:
    """Return the description in a tarball. Raises DownloadError if the tarball does not match its integrity."""
    if not _matches_integrity(tarball, integrity):
        raise DownloadError("the tarball does not match the integrity hash in the registry")
    try:
        with (
            gzip.GzipFile(fileobj=BytesIO(tarball)) as inflated,
            tarfile.open(fileobj=cast("IO[bytes]", _LimitedStream(inflated)), mode="r|") as archive,
        ):
            return _read_member(archive)
    except DownloadError:
        raise
    except Exception as error:  # gzip and tarfile raise more than they document.
        raise DownloadError(f"cannot read the tarball ({type(error).__name__})") from error


def _matches_integrity(tarball: bytes, integrity: str) -> bool:
    """Whether one of the SHA-512 digests matches. Weaker digests are ignored."""
    digest = sha512(tarball).digest()
    for item in integrity.split():
        algorithm, _, encoded = item.partition("?")[0].partition("-")
        try:
            if algorithm == "sha512" and base64.b64decode(encoded, validate=True) == digest:
                return True
        except binascii.Error:
            continue
    return False


def _read_member(archive: tarfile.TarFile) -> bytes:
    for number, member in enumerate(archive):
        if number >= _MAX_MEMBERS:
            raise DownloadError(f"the tarball contains more than {_MAX_MEMBERS:,} files")
        if member.name == _DESCRIPTION_MEMBER and member.isreg():
            if member.size > MAX_BYTES:
                raise DownloadError(f"{_DESCRIPTION_MEMBER} is larger than {MAX_BYTES:,} bytes")
            file = archive.extractfile(member)
            assert file is not None
            return file.read()
    raise DownloadError(f"the tarball does not contain {_DESCRIPTION_MEMBER}")


class _LimitedStream:
    """A stream that raises after too many bytes: a small file can inflate to a huge one."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._remaining = _MAX_UNPACKED_BYTES

    def read(self, size: int) -> bytes:
        content = self._stream.read(min(size, self._remaining + 1))
        self._remaining -= len(content)
        if self._remaining < 0:
            raise DownloadError(f"the unpacked tarball exceeds {_MAX_UNPACKED_BYTES:,} bytes")
        return content


CACHE_TTL_S = 3600.0
_MAX_PACKAGES = 200


class NpmRegistry:
    """A registry whose address is found on first use."""

    def __init__(self, find: Callable[[], str | None], flights: SingleFlight, *, now: Callable[[], float]) -> None:
        self._find = find
        self._flights = flights
        self._now = now
        self._address: str | None = None
        """Empty if none was found."""
        self._packages: dict[str, tuple[float, Package]] = {}

    async def is_available(self, deadline: float) -> bool:
        if self._address is None:
            await wait_for(self._flights.join("Finding the npm registry", self._find_address), deadline)
        return bool(self._address)

    def cached_package(self, short: str) -> Package | None:
        """Return the last known versions of an adaptor."""
        cached = self._packages.get(short)
        return cached[1] if cached else None

    async def get_package(self, short: str, deadline: float) -> Package | None:
        """Return the versions of an adaptor, at most an hour old unless the registry is unreachable."""
        if self._fresh_package(short) is None and await self.is_available(deadline):
            await self._refresh(short, deadline)
        return self.cached_package(short)

    async def fetch_description(self, short: str, version: str) -> bytes:
        """Return the description of one version. Raises DownloadError."""
        package = self._fresh_package(short)
        if package is None or version not in package.releases:  # It may be newer than the cache.
            package = await self._refresh(short) or self.cached_package(short)
        if package is None:
            raise DownloadError("cannot get the list of versions from the registry")
        release = package.releases.get(version)
        if release is None:
            raise DownloadError(f"version {version} not found in the registry")
        tarball = await fetch_first(tarball_urls(self._address or "", release))
        return await asyncio.to_thread(extract_description, tarball, release.integrity)

    def _fresh_package(self, short: str) -> Package | None:
        cached = self._packages.get(short)
        return cached[1] if cached and self._now() - cached[0] < CACHE_TTL_S else None

    async def _refresh(self, short: str, deadline: float | None = None) -> Package | None:
        flight = self._flights.join(f"Querying the npm registry for {short}", partial(self._fetch, short))
        return await wait_for(flight, deadline)

    async def _fetch(self, short: str) -> Package:
        content = await fetch_url(f"{self._address}/@openfn%2Flanguage-{short}", accept=ABBREVIATED)
        package = await asyncio.to_thread(parse_package, content)
        self._packages.pop(short, None)  # Moves it to the end.
        self._packages[short] = (self._now(), package)
        if len(self._packages) > _MAX_PACKAGES:
            del self._packages[next(iter(self._packages))]
        return package

    async def _find_address(self) -> None:
        self._address = await asyncio.to_thread(self._find) or ""
        if not self._address:
            log.warning(
                "No npm registry is configured, so adaptor docs cannot be downloaded. Set PALAVER_JOBCHAT_REGISTRY."
            )
