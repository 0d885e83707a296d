"""A client for each event loop: it keeps connections, and a connection belongs to the loop that it was made in."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary


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

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
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
