"""Fetch one document from an untrusted URL."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from palaver.errors import UpstreamFailed, UpstreamTimeout
from palaver.outbound.http import client, read_limited

if TYPE_CHECKING:
    from palaver.outbound.ssrf import GuardedTransport

FETCH_TIMEOUT_S = 30.0
MAX_DOCUMENT_BYTES = 10 * 1024 * 1024


class FetchedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A response. Redirects are not followed but returned."""

    status: int
    media_type: str
    """From Content-Type; empty if absent."""
    body: bytes


async def fetch_document(
    url: str, *, allow_private: bool = False, ports: Collection[int] = (), transport: "GuardedTransport | None" = None
) -> FetchedDocument:
    """GET a document from a public host, without credentials. Raises UrlRefused for any URL that is not allowed.

    `ports` are allowed besides 80 and 443. `allow_private` (`--allow-private-urls`) allows any host and port.
    """
    import httpx

    from palaver.outbound import ssrf

    try:
        asked = httpx.URL(url)
    except httpx.InvalidURL:
        raise ssrf.url_refused() from None
    rules = ssrf.UrlPolicy(allow_private=allow_private, ports=ports)
    try:
        async with (
            asyncio.timeout(FETCH_TIMEOUT_S),
            client(timeout=FETCH_TIMEOUT_S, transport=transport or ssrf.GuardedTransport(rules)) as http,
            http.stream("GET", asked) as response,
        ):
            body = await read_limited(response, MAX_DOCUMENT_BYTES)
    except (TimeoutError, httpx.TimeoutException):
        raise UpstreamTimeout("The remote did not answer in time.") from None
    except httpx.HTTPError:
        raise UpstreamFailed("The remote could not be reached, or broke off its answer.") from None
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return FetchedDocument(status=response.status_code, media_type=media_type, body=body)
