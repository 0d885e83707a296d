"""What the SDK-backed models share: one client per event loop, and retries."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from palaver_jobchat.models.errors import ProviderError, read_provider_error, retry_after


class Closable(Protocol):
    """What has connections, as both SDKs' clients do."""

    def close(self) -> Awaitable[None]:
        """End them."""
        ...


Client = TypeVar("Client", bound=Closable)
_Keepers = set[AsyncGenerator[None]]

_KEPT: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Keepers]] = WeakKeyDictionary()
"""What is open in a loop. A loop that ends closes the generators begun in it, but only those that are still held."""


class ClientPool(Generic[Client]):
    """One client for each loop that asks, closed with the loop."""

    def __init__(self, create: Callable[[], Client]) -> None:
        self._make = create
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None]]] = (
            WeakKeyDictionary()
        )

    async def get(self) -> Client:
        """This loop's client."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            client = self._make()
            keeper = _closing(client)
            self._clients[loop] = client, keeper
            _KEPT.setdefault(loop, set()).add(keeper)
            await anext(keeper)
        return self._clients[loop][0]

    async def aclose(self) -> None:
        """Close this loop's client; the next who asks gets a new one."""
        loop = asyncio.get_running_loop()
        kept = self._clients.pop(loop, None)
        if kept is not None:
            _KEPT[loop].discard(kept[1])
            await kept[1].aclose()


async def _closing(client: Closable) -> AsyncGenerator[None]:
    """Closes the client when it is closed itself."""
    try:
        yield
    finally:
        await client.close()


MAX_PAUSE_S: Final = 10.0
"""A longer pause than this is reported to whoever asked, who may have better things to do."""
_FIRST, _GROWTH, _MOST = 0.5, 2.0, 8.0

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and for how long."""

    retries: int = 2
    timeout_s: float = 120.0
    """No try begins when so many have passed since the first."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


async def retry(attempt: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """What an attempt gives; of several failures, the last is raised."""
    began = policy.now()
    for retry in range(policy.retries):
        try:
            return await attempt()
        except Exception as error:
            met = read_provider_error(error)
            pause = None if met is None else _pause(met, retry, policy)
            if pause is None or policy.now() + pause - began >= policy.timeout_s:
                raise
        await policy.sleep(pause)
    return await attempt()


def _pause(met: ProviderError, retry: int, patience: RetryPolicy) -> float | None:
    """How long to wait before the next try; None if there should be none."""
    if not _is_passing(met):
        return None
    told = retry_after(met.headers)
    if told is not None:
        return told if told <= MAX_PAUSE_S else None
    # A little less than the full pause, never the same twice: callers that failed together should not return together.
    return min(_FIRST * _GROWTH**retry, _MOST) * (1 - 0.25 * patience.jitter())


def _is_passing(met: ProviderError) -> bool:
    """Whether it may be better next time. A provider that says so itself is believed."""
    match met.headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return met.kind != "status" or met.status in {408, 409, 429} or met.status >= 500
