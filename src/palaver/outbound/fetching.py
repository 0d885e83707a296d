"""`fetch(url)`: one document from a URL that a stranger gave us."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from palaver.errors import UpstreamFailed, UpstreamTimeout
from palaver.outbound.clients import client, read_limited

if TYPE_CHECKING:
    from palaver.outbound.guard import Transport

WHOLE_SECONDS = 30.0
"""How long it may take in all."""
LARGEST = 10 * 1024 * 1024
"""How many bytes a document may have."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered. A redirect is an answer too: it is not followed."""

    status: int
    media_type: str
    """As the remote says; empty where it does not."""
    body: bytes


async def fetch(
    url: str, *, allow_private: bool = False, ports: Collection[int] = (), transport: "Transport | None" = None
) -> Fetched:
    """GET a document from a public host, with nobody's credentials; UrlRefused where we do not go, whatever the reason.

    `ports` are allowed beside 80 and 443. `allow_private` is the operator's word (`--allow-private-urls`) that any host
    and port may be asked.
    """
    import httpx

    from palaver.outbound import guard

    try:
        asked = httpx.URL(url)
    except httpx.InvalidURL:
        raise guard.refused() from None
    rules = guard.Rules(allow_private=allow_private, ports=ports)
    try:
        async with (
            asyncio.timeout(WHOLE_SECONDS),
            client(timeout=WHOLE_SECONDS, transport=transport or guard.Transport(rules)) as http,
            http.stream("GET", asked) as response,
        ):
            body = await read_limited(response, LARGEST)
    except (TimeoutError, httpx.TimeoutException):
        raise UpstreamTimeout("The remote did not answer in time.") from None
    except httpx.HTTPError:
        raise UpstreamFailed("The remote could not be reached, or broke off its answer.") from None
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Fetched(status=response.status_code, media_type=media_type, body=body)
