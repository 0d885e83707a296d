"""Rate limits per key: requests per minute, runs and streams at once; and failed logins per address.

Counted in this process, with a monotonic clock. Callers without a key are not limited.
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
"""Maximum number of failed logins per minute and address."""
_UNCOUNTED = nullcontext()
"""For callers without a key: cheaper than a generator per call."""
MAX_TRACKED_NAMES = 4096
"""How many keys or addresses are tracked; beyond that the least recent are forgotten."""


class RateLimits:
    def __init__(self, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._requests = SlidingWindow(settings.rate_per_minute, monotonic=monotonic)
        self._logins = SlidingWindow(MAX_FAILED_LOGINS, monotonic=monotonic)
        self.runs = ConcurrencyLimit("runs", settings.max_runs)
        self.streams = ConcurrencyLimit("streams", settings.max_streams)
        self.sockets = ConcurrencyLimit("sockets", settings.max_streams)

    def count_request(self, caller: Caller) -> None:
        """Count a request. Raises RateLimited."""
        if caller.key is None:
            return
        wait = self._requests.count(caller.key)
        if wait:
            limit = self._requests.max_events
            message = f"Too many requests for this API key (limit: {limit} per minute). {_retry_hint(wait)}"
            raise RateLimited(message, retry_after=wait)

    def count_login(self, address: str) -> None:
        """Count a login attempt up front, so that concurrent attempts are limited too."""
        wait = self._logins.count(_network(address))
        if wait:
            raise RateLimited(f"Too many failed logins from this address. {_retry_hint(wait)}", retry_after=wait)

    def uncount_login(self, address: str) -> None:
        """Take back the count of an attempt that succeeded."""
        self._logins.uncount(_network(address))


class HasKey(Protocol):
    """A caller, or the origin of a run."""

    @property
    def key(self) -> str | None: ...


class ConcurrencyLimit:
    """Limits how many runs, streams or sockets a key has open."""

    def __init__(self, noun: str, limit: int) -> None:
        self.max_open = limit
        self._noun = noun
        self._open: dict[str, int] = {}

    def acquire(self, owner: HasKey) -> None:
        """Count one more of the owner. Raises RateLimited."""
        if owner.key is None or not self.max_open:
            return
        count = self._open.get(owner.key, 0)
        if count >= self.max_open:
            raise RateLimited(
                f"Too many concurrent {self._noun} for this API key (limit: {self.max_open}). Wait for one to finish."
            )
        self._open[owner.key] = count + 1

    def release(self, owner: HasKey) -> None:
        if owner.key is None or not self.max_open:
            return
        count = self._open[owner.key] - 1
        if count:
            self._open[owner.key] = count
        else:
            del self._open[owner.key]  # Keeps only keys that are in use.

    def slot(self, owner: HasKey) -> AbstractContextManager[None]:
        """Count one for the duration of the block."""
        return _UNCOUNTED if owner.key is None else self._slot(owner)

    @contextmanager
    def _slot(self, owner: HasKey) -> Generator[None]:
        self.acquire(owner)
        try:
            yield
        finally:
            self.release(owner)


class SlidingWindow:
    """At most `limit` events in any 60 seconds, by name; 0 means unlimited."""

    def __init__(
        self, limit: int, *, monotonic: Callable[[], float] = time.monotonic, max_names: int = MAX_TRACKED_NAMES
    ) -> None:
        self.max_events = limit
        self._monotonic = monotonic
        self._max_names = max_names
        self._rings: dict[str, _TimeRing] = {}

    def count(self, name: str) -> int:
        """Count an event and return 0; over the limit, return the whole seconds until the next is allowed."""
        if not self.max_events:
            return 0
        ring = self._rings.pop(name, None) or _TimeRing(self.max_events)
        self._rings[name] = ring  # At the end: the least recent names come first.
        if len(self._rings) > self._max_names:
            del self._rings[next(iter(self._rings))]
        return math.ceil(ring.add(self._monotonic()))

    def uncount(self, name: str) -> None:
        ring = self._rings.get(name)
        if ring is not None:
            ring.remove_last()


class _TimeRing:
    """The times of the last `limit` events, eight bytes each; it grows with use."""

    __slots__ = ("_limit", "_oldest", "_times")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times = array("d")
        self._oldest = 0  # Index of the oldest time, once the ring is full.

    def add(self, now: float) -> float:
        """Add an event and return 0; if the window is full, return the seconds until there is room."""
        if len(self._times) < self._limit:
            self._times.append(now)
            return 0
        wait_s = self._times[self._oldest] + WINDOW_S - now
        if wait_s > 0:
            return wait_s
        self._times[self._oldest] = now
        self._oldest = (self._oldest + 1) % self._limit
        return 0

    def remove_last(self) -> None:
        if len(self._times) < self._limit:
            if self._times:
                self._times.pop()
            return
        self._oldest = (self._oldest - 1) % self._limit
        self._times[self._oldest] = -math.inf


def _network(address: str) -> str:
    """Return the address; of IPv6 the /64 network, all of which may belong to one client."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))


def _retry_hint(seconds: int) -> str:
    return f"Try again in {seconds} second{'s' * (seconds != 1)}."
