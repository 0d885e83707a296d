"""Fetching one thing over HTTP from whoever the operator trusts, no larger than it may be.

Where a redirect leads is the other side's choice, so it may lead to https, or stay where it is, and nowhere else. How
long all of it may take is the business of those who call.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import httpx

from palaver_jobchat.adaptors.folder import MAX_BYTES

_HOPS = 5
_NO_LIMIT = httpx.Timeout(None)
_HEADERS = {"User-Agent": "palaver-jobchat", "Accept-Encoding": "identity"}  # So that sizes are what they seem.
_tls = cache(httpx.create_ssl_context)  # Takes some 20 ms, and is the same for all.


class DownloadError(Exception):
    """What came, or did not come, cannot be used; the message says why."""


async def fetch(address: str, *, accept: str = "*/*") -> bytes:
    """What lies at an address."""
    url = httpx.URL(address)
    tls = await asyncio.to_thread(_tls)
    async with httpx.AsyncClient(verify=tls, timeout=_NO_LIMIT, headers=_HEADERS) as client:
        for _ in range(_HOPS):
            async with client.stream("GET", url, headers={"Accept": accept}) as response:
                if not response.has_redirect_location:
                    return await _content(response)
                target = url.join(response.headers["Location"])
            if not may_redirect(url, target):
                raise DownloadError(f"{url.host} redirects to {target.scheme}://{target.host}")
            url = target
    raise DownloadError(f"{url.host} redirects too often")


async def fetch_first(addresses: Sequence[str]) -> bytes:
    """What lies at the first of these addresses that has something."""
    *others, last = addresses
    for address in others:
        with suppress(DownloadError, httpx.HTTPError):
            return await fetch(address)
    return await fetch(last)


def may_redirect(source: httpx.URL, target: httpx.URL) -> bool:
    """Whether one address may send us to another."""
    return target.scheme == "https" or (target.scheme == source.scheme == "http" and target.host == source.host)


async def _content(response: httpx.Response) -> bytes:
    if response.status_code != 200:
        raise DownloadError(f"{response.url.host} answered {response.status_code}")
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > MAX_BYTES:
            raise DownloadError(f"{response.url.host} sends more than {MAX_BYTES:,} bytes")
    return bytes(content)
