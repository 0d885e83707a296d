"""The documentation site at /docs, as `make docs` builds it and the wheel contains it.

It is public, as it contains no data. The policy of each page allows exactly the inline scripts that it was built with,
and inline styles, because the search adds a style sheet to its shadow tree.
"""

import base64
import hashlib
import re
from pathlib import Path

from palaver.errors import NotFound
from palaver.protocols.base import HttpResponse
from palaver.server.request import Exchange
from palaver.server.routing import path_not_found
from palaver.server.static_files import (
    CACHE_FOREVER,
    REVALIDATE,
    SECURITY_HEADERS,
    StaticFiles,
    content_security_policy,
)

BUILT_DOCS = Path(__file__).parents[1] / "docs_site"
ROOT_PLACEHOLDER = b"/__DOCS__"
"""In the page for missing paths: the path of the site."""
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


class DocsSite:
    """The site in a folder, if it was built."""

    def __init__(self, folder: Path | None = None, *, root_path: str = "") -> None:
        folder = folder or BUILT_DOCS
        self._files = StaticFiles(folder, folder / "index.html")
        self._root_path = root_path
        self._policies: dict[str, str] = {}

    async def response(self, exchange: Exchange, path: str) -> HttpResponse:
        """Return the file of a path below /docs. A page has a slash at its end, on which its relative links depend."""
        if self._files.refresh():
            self._policies.clear()
        name = path.removeprefix("/docs").strip("/")
        page = f"{name}/index.html".lstrip("/")
        if page not in self._files:
            return await self._file_response(exchange, name, path)
        if not path.endswith("/"):
            return HttpResponse(status=307, headers=(("location", f"{self._root_path}{path}/"), *SECURITY_HEADERS))
        return await self._file_response(exchange, page, path)

    async def _file_response(self, exchange: Exchange, name: str, path: str) -> HttpResponse:
        caching = CACHE_FOREVER if name.startswith("assets/") else REVALIDATE
        headers = (caching, ("content-security-policy", self._policy(name)), *SECURITY_HEADERS)
        response = await self._files.response(name, exchange.headers, headers)
        return response or self._not_found_response(exchange, path)

    def _not_found_response(self, exchange: Exchange, path: str) -> HttpResponse:
        if "index.html" not in self._files:
            raise NotFound("The documentation is not built. Run `make docs` to build it.")
        if "404.html" not in self._files or "text/html" not in exchange.headers.get("accept", ""):
            raise path_not_found(path)
        body = self._files.path("404.html").read_bytes().replace(ROOT_PLACEHOLDER, f"{self._root_path}/docs".encode())
        policy = ("content-security-policy", _page_policy(body))
        headers = (("content-type", "text/html; charset=utf-8"), REVALIDATE, policy, *SECURITY_HEADERS)
        return HttpResponse(status=404, headers=headers, body=body)

    def _policy(self, name: str) -> str:
        """Return the content security policy of a file. The scripts of a page are read once."""
        if not name.endswith(".html") or name not in self._files:
            return content_security_policy()
        if name not in self._policies:
            self._policies[name] = _page_policy(self._files.path(name).read_bytes())
        return self._policies[name]


def _page_policy(page: bytes) -> str:
    """Return a policy that allows the inline scripts of a page."""
    hashes = sorted({hashlib.sha256(script).digest() for script in _INLINE_SCRIPT.findall(page)})
    sources = (f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return content_security_policy(scripts="".join(sources), styles=" 'unsafe-inline'")
