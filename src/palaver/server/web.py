"""The built web page and its assets, and a plain list of workflows where it was not built.

The build names assets by their hash, so browsers cache them forever and only request the document. Assets are listed
once: no file is opened because of the spelling of a path.
"""

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

from palaver.core.descriptions import Description
from palaver.discovery.registry import Registry
from palaver.protocols.base import Headers, HttpResponse
from palaver.server.error_responses import add_headers
from palaver.server.request import Exchange
from palaver.server.routing import RouteMatch, path_not_found
from palaver.server.settings import VERSION
from palaver.server.snippets import curl_command

BUILT_WEB = Path(__file__).parents[1] / "web"
ROOT_PLACEHOLDER, NONCE_PLACEHOLDER = b"/__ROOT__", b"__NONCE__"
"""In the document: the path prefix of a proxy, and the nonce of style elements."""
_PRELOAD = re.compile(rb'<link rel="preload"[^>]*/api/bootstrap"[^>]*>')
"""Not in the document of the login, which needs the response only after a key was entered."""

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{}; style-src-attr 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_HEADERS: Headers = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
)
_VERSION_HEADER = ("x-api-version", VERSION)
_CACHE_FOREVER = ("cache-control", "public, max-age=31536000, immutable")
_CONTENT_TYPES = {
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
"""Content encodings, best first, with the suffix of their files."""


class _Asset(NamedTuple):
    path: Path
    content_type: str
    encodings: tuple[str, ...]


class WebPages:
    """The web page in a folder, if it was built."""

    def __init__(self, folder: Path | None, registry: Registry, *, root_path: str = "") -> None:
        self._folder = folder or BUILT_WEB
        self._registry = registry
        self._root_path = root_path
        self._built_at: int | None = None
        self._document: bytes | None = None
        self._assets: dict[str, _Asset] = {}
        self._load()

    def _load(self) -> None:
        """Load the document and list assets, if they were built since. If they are gone, keep the old ones."""
        index = self._folder / "index.html"
        try:
            built_at = index.stat().st_mtime_ns
            if built_at == self._built_at:
                return
            self._document = index.read_bytes().replace(ROOT_PLACEHOLDER, self._root_path.encode())
        except OSError:
            return
        self._built_at, self._assets = built_at, dict(_find_assets(self._folder / "assets"))

    @property
    def are_built(self) -> bool:
        return self._document is not None

    async def response(self, exchange: Exchange, route: RouteMatch, path: str) -> HttpResponse:
        if route.name == "asset":
            return await self._asset_response(route.parameters["file"], exchange.headers)
        if self._document is not None:
            self._load()  # It may be rebuilt during development.
            document = _PRELOAD.sub(b"", self._document) if path == "/login" else self._document
            return add_headers(_document_response(document), _VERSION_HEADER)
        if path.strip("/"):
            raise path_not_found(path)

        page = plain_home_page(self._registry, exchange.headers["host"], self._root_path)
        return add_headers(page, _VERSION_HEADER)

    async def _asset_response(self, name: str, request_headers: Mapping[str, str]) -> HttpResponse:
        """Return an asset in the best encoding that the browser accepts, or 304."""
        asset = self._assets.get(name)
        if asset is None:
            raise path_not_found(f"/assets/{name}")
        encoding = _choose_encoding(asset.encodings, request_headers.get("accept-encoding", ""))
        path = asset.path.with_name(asset.path.name + _ENCODINGS[encoding]) if encoding else asset.path
        try:
            body, etag = await asyncio.to_thread(_read_asset, path)
        except OSError:  # The page was rebuilt.
            raise path_not_found(f"/assets/{name}") from None
        headers = (
            ("etag", etag),
            _CACHE_FOREVER,
            ("content-security-policy", _CONTENT_SECURITY_POLICY.format("")),
            *_HEADERS,
        )
        if asset.encodings:
            headers = (*headers, ("vary", "accept-encoding"))
        if etag in request_headers.get("if-none-match", ""):
            return HttpResponse(status=304, headers=headers)
        if encoding:
            headers = (*headers, ("content-encoding", encoding))
        return HttpResponse(status=200, headers=(("content-type", asset.content_type), *headers), body=body)


def _document_response(body: bytes) -> HttpResponse:
    """Return the document, which browsers revalidate each time."""
    nonce = ""
    if NONCE_PLACEHOLDER in body:
        token = secrets.token_urlsafe(16)
        body, nonce = body.replace(NONCE_PLACEHOLDER, token.encode()), f" 'nonce-{token}'"
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("content-security-policy", _CONTENT_SECURITY_POLICY.format(nonce)),
        *_HEADERS,
    )
    return HttpResponse(status=200, headers=headers, body=body)


def _find_assets(folder: Path) -> Iterator[tuple[str, _Asset]]:
    files = {path for path in folder.rglob("*") if path.is_file()}
    for path in files:
        if path.suffix in _ENCODINGS.values() and path.with_suffix("") in files:
            continue
        encodings = tuple(name for name, suffix in _ENCODINGS.items() if path.with_name(path.name + suffix) in files)
        content_type = _CONTENT_TYPES.get(path.suffix, "application/octet-stream")
        yield path.relative_to(folder).as_posix(), _Asset(path, content_type, encodings)


def _read_asset(path: Path) -> tuple[bytes, str]:
    body = path.read_bytes()
    return body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def _choose_encoding(available: tuple[str, ...], accepted: str) -> str:
    """Return the best encoding that the browser accepts, or an empty string."""
    accepts: dict[str, bool] = {}
    for item in accepted.lower().split(","):
        name, _, weight = item.partition(";")
        accepts[name.strip()] = re.fullmatch(r"\s*q=0(\.0*)?\s*", weight) is None
    return next((name for name in available if accepts.get(name, False)), "")


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem}"
    "body{color:#1c2024;background:#fff}h1{font-size:1.6rem;margin-bottom:.2rem}"
    "h2{font-size:1.1rem;margin:2rem 0 .2rem}"
    "p{margin:.2rem 0 .6rem;color:#51585f}"
    "pre{background:#f4f5f6;border-radius:8px;padding:.8rem 1rem;overflow-x:auto;font-size:.85rem}"
    "span{font-size:.75rem;font-weight:600;padding:.15rem .5rem;border-radius:1rem;background:#e6effc;color:#1a56a8;"
    "vertical-align:middle}span.no{background:#eee;color:#555}a{color:#1a56a8}"
    "@media(prefers-color-scheme:dark){body{background:#15181b;color:#e8eaed}p{color:#a5acb3}pre{background:#1f2428}"
    "span{background:#1b3357;color:#a9cbff}span.no{background:#2b3035;color:#b9bec4}a{color:#8ab8ff}}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HOME_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def plain_home_page(registry: Registry, host: str, root_path: str) -> HttpResponse:
    """Return a page with all workflows and a curl command for each."""
    base = f"http://{host}{root_path}"
    sections = "".join(_section(description, base) for description in registry.descriptions())
    empty = "<p>No workflows yet. Start the server with <code>palaver serve app.py</code>.</p>"
    body = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Palaver</title><style>{_STYLE}</style><h1>Palaver</h1>"
        "<p>Call these workflows over HTTP."
        f" The <a href='{escape(root_path)}/openapi.json'>OpenAPI document</a> lists all endpoints.</p>"
        f"{sections or empty}<p>The playground is not built. Run <code>make demo</code> to build it.</p></html>"
    )
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", _HOME_POLICY),
        *_HEADERS,
    )
    return HttpResponse(status=200, headers=headers, body=body.encode())


def _section(description: Description, base: str) -> str:
    badge = "<span>chat</span>" if description.is_chat else "<span class=no>single-turn</span>"
    description_html = f"<p>{escape(description.description)}</p>" if description.description else ""
    command = curl_command(description, base)
    return f"<h2>{escape(description.name)} {badge}</h2>{description_html}<pre>{escape(command)}</pre>"
