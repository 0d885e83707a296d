"""How much one key may ask for, so that the others are served too; and how often an address may guess.

Counted in this process, by a clock that nobody can set. Who has no key, where none was given out, is not counted.
"""

import math
import time
from array import array
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from palaver.errors import RateLimited
from palaver.server.auth import Caller
from palaver.server.settings import Settings

WINDOW_S = 60.0
MAX_FAILED_LOGINS = 10
"""A minute, from one address."""
_UNCOUNTED = nullcontext()
"""For those without a key, of whom nothing is counted: a generator for each of their calls would do nothing."""
MAX_TRACKED_NAMES = 4096
"""How many keys or addresses are remembered at once; of more, those not heard of for longest are forgotten."""


class RateLimits:
    """The limits of every key."""

    def __init__(self, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._requests = SlidingWindow(settings.rate_per_minute, monotonic=monotonic)
        self._logins = SlidingWindow(MAX_FAILED_LOGINS, monotonic=monotonic)
        self.runs = ConcurrencyLimit("runs", settings.max_runs)
        self.streams = ConcurrencyLimit("streams", settings.max_streams)
        self.sockets = ConcurrencyLimit("sockets", settings.max_streams)

    def request(self, caller: Caller) -> None:
        """Count a request, or raise."""
        if caller.key is None:
            return
        wait = self._requests.take(caller.key)
        if wait:
            most = self._requests.most
            raise RateLimited(f"This key may send {most} requests a minute: {_retry_hint(wait)}.", retry_after=wait)

    def try_login(self, address: str) -> None:
        """Count an attempt before it is known how it ends, or raise: many at once are many."""
        wait = self._logins.take(_network(address))
        if wait:
            raise RateLimited(f"Too many failed logins from this address: {_retry_hint(wait)}.", retry_after=wait)

    def logged_in(self, address: str) -> None:
        """The attempt did not fail: it does not count."""
        self._logins.give_back(_network(address))


class HasKey(Protocol):
    """Whoever may have a key: a caller, or where a run came from."""

    @property
    def key(self) -> str | None:
        """The id of the key."""
        ...


class ConcurrencyLimit:
    """How many of something a key has open."""

    def __init__(self, what: str, most: int) -> None:
        self.most = most
        self._what = what
        self._open: dict[str, int] = {}

    def acquire(self, who: HasKey) -> None:
        """Count one more, or raise."""
        if who.key is None or not self.most:
            return
        count = self._open.get(who.key, 0)
        if count >= self.most:
            raise RateLimited(f"This key may have {self.most} {self._what} at once: wait for one of them to end.")
        self._open[who.key] = count + 1

    def release(self, who: HasKey) -> None:
        """One that was taken has ended."""
        if who.key is None or not self.most:
            return
        count = self._open[who.key] - 1
        if count:
            self._open[who.key] = count
        else:
            del self._open[who.key]  # So that we remember no more keys than are in use.

    def held(self, who: HasKey) -> AbstractContextManager[None]:
        """Count one for as long as the block takes."""
        return _UNCOUNTED if who.key is None else self._held(who)

    @contextmanager
    def _held(self, who: HasKey) -> Generator[None]:
        self.acquire(who)
        try:
            yield
        finally:
            self.release(who)


class SlidingWindow:
    """At most so many in any sixty seconds, by name. 0 is any number."""

    def __init__(
        self, most: int, *, monotonic: Callable[[], float] = time.monotonic, names: int = MAX_TRACKED_NAMES
    ) -> None:
        self.most = most
        self._monotonic = monotonic
        self._names = names
        self._rings: dict[str, _TimeRing] = {}

    def take(self, name: str) -> int:
        """Count one more and give 0; or, if there were enough, the whole seconds after which one is free."""
        if not self.most:
            return 0
        ring = self._rings.pop(name, None) or _TimeRing(self.most)
        self._rings[name] = ring  # Now the last: those not heard of for longest come first.
        if len(self._rings) > self._names:
            del self._rings[next(iter(self._rings))]
        return math.ceil(ring.take(self._monotonic()))

    def give_back(self, name: str) -> None:
        """The last one is not to count."""
        ring = self._rings.get(name)
        if ring is not None:
            ring.give_back()


class _TimeRing:
    """The times of the last so many; eight bytes each, and no more than there were."""

    __slots__ = ("_first", "_most", "_times")

    def __init__(self, most: int) -> None:
        self._most = most
        self._times = array("d")
        self._first = 0  # Where the oldest stands, once the ring is full.

    def take(self, now: float) -> float:
        if len(self._times) < self._most:
            self._times.append(now)
            return 0
        wait = self._times[self._first] + WINDOW_S - now
        if wait > 0:
            return wait
        self._times[self._first] = now
        self._first = (self._first + 1) % self._most
        return 0

    def give_back(self) -> None:
        if len(self._times) < self._most:
            if self._times:
                self._times.pop()
            return
        self._first = (self._first - 1) % self._most
        self._times[self._first] = -math.inf


def _network(address: str) -> str:
    """The address; of IPv6 its network, for whoever has one address there has 2**64."""
    try:
        known = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(known, IPv6Address):
        return str(known)
    return str(known.ipv4_mapped or IPv6Address(int(known) >> 64 << 64))


def _retry_hint(seconds: int) -> str:
    return f"try again in {seconds} second{'s' * (seconds != 1)}"
