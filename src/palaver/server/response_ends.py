"""The end of long responses: the client disconnects, its credential becomes invalid, or the server stops."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from functools import partial

from palaver.core.events import RunFailed
from palaver.engine.engine import SHUTDOWN_FAILURE
from palaver.server.auth import CREDENTIAL_ENDED, Authenticator, Caller
from palaver.server.request import Exchange

EarlyEnd = Callable[[RunFailed], object]
"""Called with the reason why a response has to end early: CREDENTIAL_ENDED or SHUTDOWN_FAILURE."""


class ResponseEnds:
    """Tells long responses to end early. One per server."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._callbacks: set[EarlyEnd] = set()
        self._is_stopping = False

    @contextmanager
    def watch(self, caller: Caller, on_end: EarlyEnd) -> Generator[None]:
        """Call `on_end` if a response has to end early within the block."""
        self._callbacks.add(on_end)
        try:
            if self._is_stopping:
                on_end(SHUTDOWN_FAILURE)
            with self._authenticator.watch(caller, partial(on_end, CREDENTIAL_ENDED)):
                yield
        finally:
            self._callbacks.discard(on_end)

    def stop(self) -> None:
        """End the responses that follow something, such as a run of another process: the server stops."""
        self._is_stopping = True
        for on_end in list(self._callbacks):
            on_end(SHUTDOWN_FAILURE)


async def run_until_disconnect(exchange: Exchange, task: asyncio.Task[None], *, on_end: EarlyEnd) -> bool:
    """Wait for a task that sends a response, or cancel it when the client disconnects. Raises the task's error.

    `on_end` is called if the response has to end early. Returns whether the client disconnected.
    """
    disconnect = asyncio.get_running_loop().create_task(_wait_disconnect(exchange))
    ends = exchange.response_ends
    watch = ends.watch(exchange.caller, on_end) if ends is not None else nullcontext()
    try:
        with watch:
            await asyncio.wait([task, disconnect], return_when=asyncio.FIRST_COMPLETED)
        is_disconnected = disconnect.done()
    finally:
        for pending in (task, disconnect):
            pending.cancel()
        await asyncio.wait([task, disconnect])
    if not task.cancelled():
        task.result()
    return is_disconnected


async def _wait_disconnect(exchange: Exchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass  # The end of an unread body comes first.
