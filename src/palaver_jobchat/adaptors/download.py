"""Fetching one thing over HTTP from whoever the operator trusts, no larger than it may be.

Where a redirect leads is the other side's choice, so it may lead to https, or stay where it is, and nowhere else. How
long all of it may take is the business of those who call.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from functools import cache
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

_MAX_FAILURES = 1000
log = logging.getLogger("palaver_jobchat")


class SingleFlight:
    """All that is under way, and what failed lately."""

    def __init__(self, *, now: Callable[[], float], timeout_s: float, retry_delay_s: float = 60.0) -> None:
        self._now = now
        self._longest = timeout_s
        self._rest = retry_delay_s
        self._flying: dict[str, asyncio.Task[Any]] = {}
        self._failed: dict[str, float] = {}

    def join(self, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T | None] | None":
        """The flight of this title, begun if need be. Nothing where it failed a short while ago."""
        if flying := self._flying.get(title):
            return flying
        failed = self._failed.get(title)
        if failed is not None and self._now() - failed < self._rest:
            return None
        # A context of its own: it may outlive the chat that happened to begin it.
        task = asyncio.create_task(self._fly(title, work), context=Context())
        self._flying[title] = task
        task.add_done_callback(lambda _: self._flying.pop(title, None))
        return task

    async def _fly(self, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        self._failed.pop(title, None)
        try:
            async with asyncio.timeout(self._longest):
                return await work()
        except Exception as error:  # What strangers send can fail in every way; those who wait go on without.
            reason = f"took more than {self._longest:g} s" if isinstance(error, TimeoutError) else str(error)
            log.warning("%s: %s. Not tried again for %g s.", title, reason or type(error).__name__, self._rest)
        self._failed[title] = self._now()
        if len(self._failed) > _MAX_FAILURES:
            del self._failed[next(iter(self._failed))]
        return None


async def wait_for(task: "asyncio.Task[T | None] | None", deadline: float | None = None) -> T | None:
    """What a flight brings; nothing if it brings nothing, or not until then (by the clock of the event loop)."""
    if task is None:
        return None
    left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
    # Not `shield`: this neither ends the flight with the one who waits, nor the one who waits with the flight.
    await asyncio.wait({task}, timeout=left)
    return task.result() if task.done() and not task.cancelled() else None


MAX_BYTES = 20 * 1024 * 1024
"""Bytes of one description; none of a real adaptor comes near."""


_HOPS = 5
_NO_LIMIT = httpx.Timeout(None)
_HEADERS = {"User-Agent": "palaver-jobchat", "Accept-Encoding": "identity"}  # So that sizes are what they seem.
_tls = cache(httpx.create_ssl_context)  # Takes some 20 ms, and is the same for all.


class DownloadError(Exception):
    """What came, or did not come, cannot be used; the message says why."""


async def fetch_url(address: str, *, accept: str = "*/*") -> bytes:
    """What lies at an address."""
    url = httpx.URL(address)
    tls = await asyncio.to_thread(_tls)
    async with httpx.AsyncClient(verify=tls, timeout=_NO_LIMIT, headers=_HEADERS) as client:
        for _ in range(_HOPS):
            async with client.stream("GET", url, headers={"Accept": accept}) as response:
                if not response.has_redirect_location:
                    return await _read_body(response)
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
            return await fetch_url(address)
    return await fetch_url(last)


def may_redirect(source: httpx.URL, target: httpx.URL) -> bool:
    """Whether one address may send us to another."""
    return target.scheme == "https" or (target.scheme == source.scheme == "http" and target.host == source.host)


async def _read_body(response: httpx.Response) -> bytes:
    if response.status_code != 200:
        raise DownloadError(f"{response.url.host} answered {response.status_code}")
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > MAX_BYTES:
            raise DownloadError(f"{response.url.host} sends more than {MAX_BYTES:,} bytes")
    return bytes(content)
