"""What the models behind an SDK share: one client per event loop, and retries before the first byte.

The SDKs can retry by themselves, but they sleep as long as a provider asks for and have no overall timeout.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from palaver_jobchat.models.base import ModelRequest
from palaver_jobchat.models.errors import (
    ProviderError,
    RequestInfo,
    check_key,
    failure_from_exception,
    read_provider_error,
    retry_after,
)

CONNECT_TIMEOUT_S: Final = 5.0
MAX_PAUSE_S: Final = 10.0
"""If the provider asks for a longer pause, the error is reported at once."""
_FIRST_PAUSE_S, _PAUSE_GROWTH, _MAX_BACKOFF_S = 0.5, 2.0, 8.0


class SdkClient(Protocol):
    """The part of the SDKs' clients that is used here."""

    def with_options(self, *, api_key: str) -> Self: ...

    def close(self) -> Awaitable[None]: ...


Client = TypeVar("Client", bound=SdkClient)
T = TypeVar("T")

_CLOSERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, set[AsyncGenerator[None]]]] = WeakKeyDictionary()
"""Keeps the generators of `_close_at_end` alive: a loop that ends closes its generators, if they still exist."""


class ClientPool(Generic[Client]):
    """One client per event loop, closed with the loop: connections cannot be shared between loops."""

    def __init__(self, create: Callable[[], Client]) -> None:
        self._create = create
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None]]] = (
            WeakKeyDictionary()
        )

    async def get(self) -> Client:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            client = self._create()
            closer = _close_at_end(client)
            self._clients[loop] = client, closer
            _CLOSERS.setdefault(loop, set()).add(closer)
            await anext(closer)
        return self._clients[loop][0]

    async def aclose(self) -> None:
        """Close this loop's client. The next `get` creates a new one."""
        loop = asyncio.get_running_loop()
        entry = self._clients.pop(loop, None)
        if entry is not None:
            _CLOSERS[loop].discard(entry[1])
            await entry[1].aclose()


async def _close_at_end(client: SdkClient) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await client.close()


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    retries: int = 2
    timeout_s: float = 120.0
    """No attempt starts later than this after the first."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


async def retry(attempt: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """Return the result of the first successful attempt, or raise the last error."""
    start = policy.now()
    for number in range(policy.retries):
        try:
            return await attempt()
        except Exception as error:
            provider_error = read_provider_error(error)
            pause = None if provider_error is None else _pause(provider_error, number, policy)
            if pause is None or policy.now() + pause - start >= policy.timeout_s:
                raise
        await policy.sleep(pause)
    return await attempt()


def _pause(error: ProviderError, number: int, policy: RetryPolicy) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up."""
    if not _is_retryable(error):
        return None
    requested = retry_after(error.headers)
    if requested is not None:
        return requested if requested <= MAX_PAUSE_S else None
    # Jitter keeps callers that failed together from returning together.
    return min(_FIRST_PAUSE_S * _PAUSE_GROWTH**number, _MAX_BACKOFF_S) * (1 - 0.25 * policy.jitter())


def _is_retryable(error: ProviderError) -> bool:
    match error.headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return error.kind != "status" or error.status in {408, 409, 429} or error.status >= 500


class SdkModel(ABC, Generic[Client]):
    """Base class of the models behind an SDK."""

    key_setting: ClassVar[str]
    """Name of the setting that holds the server's key, for error messages."""

    def __init__(self, *, model: str, max_tokens: int, retry_policy: RetryPolicy | None, api_key: str) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._retry_policy = retry_policy or RetryPolicy()
        self._key = api_key.strip()
        self._clients = ClientPool(self._create_client)

    @property
    def name(self) -> str:
        return self._model

    @property
    def is_configured(self) -> bool:
        return bool(self._key)

    async def aclose(self) -> None:
        await self._clients.aclose()

    @abstractmethod
    def _create_client(self) -> Client: ...

    def _request_info(self, request: ModelRequest) -> RequestInfo:
        """Return what errors report about a request. Raises Failure if there is no usable key."""
        key = (request.key or "").strip()
        info = RequestInfo(
            model=self._model,
            key=key or self._key,
            key_source="request" if key else "server",
            field_sizes=request.field_sizes,
            timeout=self._retry_policy.timeout_s,
            setting=self.key_setting,
        )
        check_key(info)
        return info

    async def _open(self, info: RequestInfo, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request with the caller's key, or else the server's. Returns the open response."""
        client = await self._clients.get()
        if info.key_source == "request":
            client = client.with_options(api_key=info.key)
        try:
            return await retry(lambda: send(client), self._retry_policy)
        except Exception as error:
            failure = failure_from_exception(error, info)
        raise failure


async def next_item(stream: AsyncIterator[T], info: RequestInfo) -> T | None:
    """Return the next part of a response, or None at its end. Raises Failure."""
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None
    except Exception as error:
        failure = failure_from_exception(error, info)
    raise failure
