"""`fetch(url)`: one document from a URL that a stranger gave us."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from palaver.errors import UpstreamFailed, UpstreamTimeout
from palaver.outbound.http import client, read_limited

if TYPE_CHECKING:
    from palaver.outbound.ssrf import GuardedTransport

FETCH_TIMEOUT_S = 30.0
"""How long it may take in all."""
MAX_DOCUMENT_BYTES = 10 * 1024 * 1024
"""How many bytes a document may have."""


class FetchedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered. A redirect is an answer too: it is not followed."""

    status: int
    media_type: str
    """As the remote says; empty where it does not."""
    body: bytes


async def fetch_document(
    url: str, *, allow_private: bool = False, ports: Collection[int] = (), transport: "GuardedTransport | None" = None
) -> FetchedDocument:
    """GET a document from a public host, with nobody's credentials; UrlRefused where we do not go, whatever the reason.

    `ports` are allowed beside 80 and 443. `allow_private` is the operator's word (`--allow-private-urls`) that any host
    and port may be asked.
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
