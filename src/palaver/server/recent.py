"""What the database said a moment ago: looked up by every request, asked again after two seconds, by one for all."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SECONDS = 2.0
"""How long an answer is good: no process is further behind the others than that."""
MOST = 4096
"""How many answers are kept, of whatever strangers ask for."""


class _Said(NamedTuple, Generic[V]):
    value: V | None
    until: float


class Recent(Generic[K, V]):
    """Values by name, None for what is not there."""

    def __init__(
        self,
        ask: Callable[[Collection[K]], Awaitable[Mapping[K, V]]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        most: int = MOST,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._most = most
        self._said: dict[K, _Said[V]] = {}
        self._asking: dict[K, asyncio.Task[V | None]] = {}
        self._dropped = 0

    async def get(self, name: K) -> V | None:
        """The value of that name. Those who want it at the same time ask once."""
        said = self._said.get(name)
        if said is not None and self._monotonic() < said.until:
            return said.value
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.get_running_loop().create_task(self._asked(name))
            asking.add_done_callback(_seen)
        return await asyncio.shield(asking)  # Whoever leaves takes nothing from the others.

    async def refresh(self, names: Collection[K]) -> None:
        """See to it that all of these are known and new, with one question."""
        now = self._monotonic()
        old = [name for name in names if (said := self._said.get(name)) is None or now >= said.until]
        if old:
            await self._keep(old)

    def knows(self, name: K) -> bool:
        """Was anything said of it, however long ago?"""
        return name in self._said

    def last(self, name: K) -> V | None:
        """What was said last, however long ago."""
        said = self._said.get(name)
        return None if said is None else said.value

    def drop(self, name: K) -> None:
        """Forget it: it has changed. An answer that is on its way may be of before, so it is not kept either."""
        self._dropped += 1
        self._said.pop(name, None)
        self._asking.pop(name, None)

    def drop_all(self) -> None:
        """Forget everything."""
        self._dropped += 1
        self._said.clear()
        self._asking.clear()

    async def _asked(self, name: K) -> V | None:
        try:
            return (await self._keep([name])).get(name)
        finally:
            if self._asking.get(name) is asyncio.current_task():
                del self._asking[name]

    async def _keep(self, names: Collection[K]) -> Mapping[K, V]:
        dropped = self._dropped
        found = await self._ask(names)
        if dropped == self._dropped:
            until = self._monotonic() + SECONDS
            for name in names:
                self._said.pop(name, None)  # It goes to the end: the first is always the one asked longest ago.
                self._said[name] = _Said(found.get(name), until)
            while len(self._said) > self._most:
                del self._said[next(iter(self._said))]
        return found


def _seen(task: "asyncio.Task[object]") -> None:
    """Whoever waited may have left: its error is nobody's then, and no reason to complain."""
    if not task.cancelled():
        task.exception()
