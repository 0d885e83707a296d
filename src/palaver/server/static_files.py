"""Files of a built folder: the assets of the web page, and the documentation site.

Files are listed once, so no file is opened because of the spelling of a path. The build compresses them.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from palaver.protocols.base import Headers, HttpResponse

SECURITY_HEADERS: Headers = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
)
CACHE_FOREVER = ("cache-control", "public, max-age=31536000, immutable")
"""For files whose names contain their hash."""
REVALIDATE = ("cache-control", "no-cache")

_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".gif": "image/gif",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""Content encodings, best first, with the suffix of their files."""


def content_security_policy(*, scripts: str = "", styles: str = "") -> str:
    """Return the policy of the page and the documentation; `scripts` and `styles` are further sources."""
    return (
        f"default-src 'none'; script-src 'self'{scripts}; style-src 'self'{styles}; style-src-attr 'unsafe-inline';"
        " img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    )


class _File(NamedTuple):
    path: Path
    content_type: str
    encodings: tuple[str, ...]


class StaticFiles:
    """The files below a folder, if it was built. Listed again when `marker` has changed."""

    def __init__(self, folder: Path, marker: Path) -> None:
        self._folder = folder
        self._marker = marker
        self._built_at: int | None = None
        self._files: dict[str, _File] = {}

    def refresh(self) -> bool:
        """List the files if they were built since the last time. If they are gone, keep the old list."""
        try:
            built_at = self._marker.stat().st_mtime_ns
        except OSError:
            return False
        if built_at == self._built_at:
            return False
        self._built_at, self._files = built_at, dict(_find_files(self._folder))
        return True

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def path(self, name: str) -> Path:
        return self._files[name].path

    async def response(self, name: str, request_headers: Mapping[str, str], headers: Headers) -> HttpResponse | None:
        """Return a file in the best encoding that the client accepts, or 304. None if there is no such file."""
        file = self._files.get(name)
        if file is None:
            return None
        encoding = _choose_encoding(file.encodings, request_headers.get("accept-encoding", ""))
        path = file.path.with_name(file.path.name + _ENCODINGS[encoding]) if encoding else file.path
        try:
            body, etag = await asyncio.to_thread(_read_file, path)
        except OSError:  # Deleted or rebuilt since it was listed.
            return None
        headers = (("etag", etag), *headers)
        if file.encodings:
            headers = (*headers, ("vary", "accept-encoding"))
        if etag in request_headers.get("if-none-match", ""):
            return HttpResponse(status=304, headers=headers)
        if encoding:
            headers = (*headers, ("content-encoding", encoding))
        return HttpResponse(status=200, headers=(("content-type", file.content_type), *headers), body=body)


def _find_files(folder: Path) -> Iterator[tuple[str, _File]]:
    files = {path for path in folder.rglob("*") if path.is_file()}
    for path in files:
        if path.suffix in _ENCODINGS.values() and path.with_suffix("") in files:
            continue
        encodings = tuple(name for name, suffix in _ENCODINGS.items() if path.with_name(path.name + suffix) in files)
        content_type = _CONTENT_TYPES.get(path.suffix, "application/octet-stream")
        yield path.relative_to(folder).as_posix(), _File(path, content_type, encodings)


def _read_file(path: Path) -> tuple[bytes, str]:
    body = path.read_bytes()
    return body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def _choose_encoding(available: tuple[str, ...], accepted: str) -> str:
    """Return the best encoding that the client accepts, or an empty string."""
    accepts: dict[str, bool] = {}
    for item in accepted.lower().split(","):
        name, _, weight = item.partition(";")
        accepts[name.strip()] = re.fullmatch(r"\s*q=0(\.0*)?\s*", weight) is None
    return next((name for name in available if accepts.get(name, False)), "")
