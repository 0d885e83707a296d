"""The built web: one document under every path of the page, and the files that it loads.

The build names these files by what is in them, so that a browser keeps them for ever and asks for the document alone.
Which there are is looked up once: nothing is opened because of how somebody spells a path.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from palaver.discovery.registry import Registry
from palaver.protocols.base import Answer, Headers
from palaver.server.exchange import Exchange
from palaver.server.routes import Match, nothing

BUILT = Path(__file__).parents[1] / "web"
"""Where the build puts it."""
ROOT, NONCE = b"/__ROOT__", b"__NONCE__"
"""In the document: the prefix that a proxy adds to our paths, and what style elements of this answer carry."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{}; style-src-attr 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_HEADERS: Headers = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
)
_FOR_EVER = ("cache-control", "public, max-age=31536000, immutable")
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
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
"""Best first, and how a file is called that is in it."""


class _File(NamedTuple):
    path: Path
    kind: str
    encodings: tuple[str, ...]
    """Those in which it is there, too."""


class Pages:
    """The web as it was built into a folder; nothing where it was not."""

    def __init__(self, folder: Path, registry: Registry, *, root_path: str = "") -> None:
        self._folder = folder
        self._registry = registry
        self._root_path = root_path
        self._built_at: int | None = None
        self._document: bytes | None = None
        self._files: dict[str, _File] = {}
        self._look()

    def _look(self) -> None:
        """See what there is, if it was built since. What was shown once stays: nothing else may take its place."""
        index = self._folder / "index.html"
        try:
            built_at = index.stat().st_mtime_ns
            if built_at == self._built_at:
                return
            self._document = index.read_bytes().replace(ROOT, self._root_path.encode())
        except OSError:
            return
        self._built_at, self._files = built_at, dict(_files(self._folder / "assets"))

    @property
    def are_built(self) -> bool:
        """Is there anything to show?"""
        return self._document is not None

    async def answer(self, exchange: Exchange, found: Match, path: str) -> Answer:
        """What stands at a path of the page: the document, or one of its files."""
        if found.name == "asset":
            return await self._file(found.parameters["file"], exchange.headers)
        if self._document is not None:
            self._look()  # Whoever works on the page builds it again and again.
            return _shown(self._document)
        if path.strip("/"):
            raise nothing(path)
        from palaver.server import home

        return home.page(self._registry, exchange.headers["host"], self._root_path)

    async def _file(self, name: str, asked: Mapping[str, str]) -> Answer:
        """One of the files, packed as the browser likes it; 304 to one that has it."""
        found = self._files.get(name)
        if found is None:
            raise nothing(f"/assets/{name}")
        packed = _packed(found.encodings, asked.get("accept-encoding", ""))
        path = found.path.with_name(found.path.name + _ENCODINGS[packed]) if packed else found.path
        try:
            body, tag = await asyncio.to_thread(_read, path)
        except OSError:  # It was built anew since.
            raise nothing(f"/assets/{name}") from None
        headers = (("etag", tag), _FOR_EVER, ("content-security-policy", _POLICY.format("")), *_HEADERS)
        if found.encodings:
            headers = (*headers, ("vary", "accept-encoding"))
        if tag in asked.get("if-none-match", ""):
            return Answer(status=304, headers=headers)
        if packed:
            headers = (*headers, ("content-encoding", packed))
        return Answer(status=200, headers=(("content-type", found.kind), *headers), body=body)


def _shown(body: bytes) -> Answer:
    """The one document. Browsers ask for it each time, as it names the files."""
    nonce = ""
    if NONCE in body:
        value = secrets.token_urlsafe(16)
        body, nonce = body.replace(NONCE, value.encode()), f" 'nonce-{value}'"
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("content-security-policy", _POLICY.format(nonce)),
        *_HEADERS,
    )
    return Answer(status=200, headers=headers, body=body)


def _files(folder: Path) -> Iterator[tuple[str, _File]]:
    there = {path for path in folder.rglob("*") if path.is_file()}
    for path in there:
        if path.suffix in _ENCODINGS.values() and path.with_suffix("") in there:
            continue
        packed = tuple(name for name, end in _ENCODINGS.items() if path.with_name(path.name + end) in there)
        kind = _KINDS.get(path.suffix, "application/octet-stream")
        yield path.relative_to(folder).as_posix(), _File(path, kind, packed)


def _read(path: Path) -> tuple[bytes, str]:
    body = path.read_bytes()
    return body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def _packed(there: tuple[str, ...], accepted: str) -> str:
    """The best of those encodings that the browser takes; none where it takes none of them."""
    taken: dict[str, bool] = {}
    for one in accepted.lower().split(","):
        name, _, weight = one.partition(";")
        taken[name.strip()] = re.fullmatch(r"\s*q=0(\.0*)?\s*", weight) is None
    return next((name for name in there if taken.get(name, False)), "")
