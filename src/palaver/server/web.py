"""The built web page and its assets, and a plain list of workflows where it was not built.

The build names assets by their hash, so browsers cache them forever and only request the document.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path

from palaver.core.descriptions import Description
from palaver.discovery.registry import Registry
from palaver.protocols.base import HttpResponse
from palaver.server.error_responses import add_headers
from palaver.server.request import Exchange
from palaver.server.routing import RouteMatch, path_not_found
from palaver.server.settings import VERSION
from palaver.server.snippets import curl_command
from palaver.server.static_files import (
    CACHE_FOREVER,
    REVALIDATE,
    SECURITY_HEADERS,
    StaticFiles,
    content_security_policy,
)

BUILT_WEB = Path(__file__).parents[1] / "web"
ROOT_PLACEHOLDER, NONCE_PLACEHOLDER = b"/__ROOT__", b"__NONCE__"
"""In the document: the path prefix of a proxy, and the nonce of style elements."""
_PRELOAD = re.compile(rb'<link rel="preload"[^>]*/api/bootstrap"[^>]*>')
"""Not in the document of the login, which needs the response only after a key was entered."""

_VERSION_HEADER = ("x-api-version", VERSION)


class WebPages:
    """The web page in a folder, if it was built."""

    def __init__(self, folder: Path | None, registry: Registry, *, root_path: str = "") -> None:
        self._folder = folder or BUILT_WEB
        self._registry = registry
        self._root_path = root_path
        self._document: bytes | None = None
        self._assets = StaticFiles(self._folder / "assets", self._folder / "index.html")
        self._load()

    def _load(self) -> None:
        """Load the document and list assets, if they were built since. If they are gone, keep the old ones."""
        if self._assets.refresh():
            with suppress(OSError):
                document = (self._folder / "index.html").read_bytes()
                self._document = document.replace(ROOT_PLACEHOLDER, self._root_path.encode())

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
        headers = (CACHE_FOREVER, ("content-security-policy", content_security_policy()), *SECURITY_HEADERS)
        response = await self._assets.response(name, request_headers, headers)
        if response is None:
            raise path_not_found(f"/assets/{name}")
        return response


def _document_response(body: bytes) -> HttpResponse:
    """Return the document, which browsers revalidate each time."""
    nonce = ""
    if NONCE_PLACEHOLDER in body:
        token = secrets.token_urlsafe(16)
        body, nonce = body.replace(NONCE_PLACEHOLDER, token.encode()), f" 'nonce-{token}'"
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        REVALIDATE,
        ("content-security-policy", content_security_policy(styles=nonce)),
        *SECURITY_HEADERS,
    )
    return HttpResponse(status=200, headers=headers, body=body)


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
        *SECURITY_HEADERS,
    )
    return HttpResponse(status=200, headers=headers, body=body.encode())


def _section(description: Description, base: str) -> str:
    badge = "<span>chat</span>" if description.is_chat else "<span class=no>single-turn</span>"
    description_html = f"<p>{escape(description.description)}</p>" if description.description else ""
    command = curl_command(description, base)
    return f"<h2>{escape(description.name)} {badge}</h2>{description_html}<pre>{escape(command)}</pre>"
