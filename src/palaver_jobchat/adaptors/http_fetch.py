"""Size-limited HTTP downloads from sources that the operator trusts.

A redirect must lead to https or stay on the same host. Callers set the timeout, most through SingleFlight: it runs the
same download once for all callers, and does not retry a failed one for a while.
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

_MAX_REMEMBERED_FAILURES = 1000
log = logging.getLogger("palaver_jobchat")


class SingleFlight:
    """Runs work once per title for all concurrent callers. The work is not cancelled with a caller."""

    def __init__(self, *, now: Callable[[], float], timeout_s: float, retry_delay_s: float = 60.0) -> None:
        self._now = now
        self._timeout_s = timeout_s
        self._retry_delay_s = retry_delay_s
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._failed_at: dict[str, float] = {}

    def join(self, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T | None] | None":
        """Return the running task of this title, or start it. None if it failed recently."""
        if task := self._tasks.get(title):
            return task
        failed_at = self._failed_at.get(title)
        if failed_at is not None and self._now() - failed_at < self._retry_delay_s:
            return None
        # An empty context: the task may outlive the chat that started it.
        task = asyncio.create_task(self._run(title, work), context=Context())
        self._tasks[title] = task
        task.add_done_callback(lambda _: self._tasks.pop(title, None))
        return task

    async def _run(self, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        self._failed_at.pop(title, None)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work()
        except Exception as error:  # Downloaded content can fail in any way; callers continue without it.
            reason = f"timed out after {self._timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
            log.warning(
                "%s failed: %s. Not retrying for %g s.", title, reason or type(error).__name__, self._retry_delay_s
            )
        self._failed_at[title] = self._now()
        if len(self._failed_at) > _MAX_REMEMBERED_FAILURES:
            del self._failed_at[next(iter(self._failed_at))]
        return None


async def wait_for(task: "asyncio.Task[T | None] | None", deadline: float | None = None) -> T | None:
    """Return a task's result, or None if it fails or is not done by `deadline` (in event loop time)."""
    if task is None:
        return None
    remaining = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
    # Unlike `shield`, this neither cancels the task with the caller nor the caller with the task.
    await asyncio.wait({task}, timeout=remaining)
    return task.result() if task.done() and not task.cancelled() else None


MAX_BYTES = 20 * 1024 * 1024
"""Maximum size of one download. Descriptions of real adaptors are far smaller."""


_MAX_REDIRECTS = 5
_NO_TIMEOUT = httpx.Timeout(None)
_HEADERS = {"User-Agent": "palaver-jobchat", "Accept-Encoding": "identity"}  # Limits apply to what is received.
_create_tls_context = cache(httpx.create_ssl_context)  # Takes about 20 ms.


class DownloadError(Exception):
    """A download failed or is unusable; the message says why."""


async def fetch_url(address: str, *, accept: str = "*/*") -> bytes:
    url = httpx.URL(address)
    tls = await asyncio.to_thread(_create_tls_context)
    async with httpx.AsyncClient(verify=tls, timeout=_NO_TIMEOUT, headers=_HEADERS) as client:
        for _ in range(_MAX_REDIRECTS):
            async with client.stream("GET", url, headers={"Accept": accept}) as response:
                if not response.has_redirect_location:
                    return await _read_body(response)
                target = url.join(response.headers["Location"])
            if not may_redirect(url, target):
                raise DownloadError(f"{url.host} redirected to {target.scheme}://{target.host}, which is not allowed")
            url = target
    raise DownloadError(f"too many redirects from {url.host}")


async def fetch_first(addresses: Sequence[str]) -> bytes:
    """Return the content of the first address that can be fetched."""
    *others, last = addresses
    for address in others:
        with suppress(DownloadError, httpx.HTTPError):
            return await fetch_url(address)
    return await fetch_url(last)


def may_redirect(source: httpx.URL, target: httpx.URL) -> bool:
    return target.scheme == "https" or (target.scheme == source.scheme == "http" and target.host == source.host)


async def _read_body(response: httpx.Response) -> bytes:
    if response.status_code != 200:
        raise DownloadError(f"{response.url.host} returned status {response.status_code}")
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > MAX_BYTES:
            raise DownloadError(f"{response.url.host} sent more than {MAX_BYTES:,} bytes")
    return bytes(content)
