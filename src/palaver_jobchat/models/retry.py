"""Another try, as long as nothing has come back: a few times, with growing pauses, and within a time budget.

The SDKs could do this themselves, but they sleep as long as a provider asks them to, and know no budget.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from palaver_jobchat.models.errors import ProviderError, read_provider_error, retry_after

MAX_PAUSE_S: Final = 10.0
"""A longer pause than this is reported to whoever asked, who may have better things to do."""
_FIRST, _GROWTH, _MOST = 0.5, 2.0, 8.0

Opened = TypeVar("Opened")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and for how long."""

    retries: int = 2
    seconds: float = 120.0
    """No try begins when so many have passed since the first."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random


async def retry(attempt: Callable[[], Awaitable[Opened]], patience: RetryPolicy) -> Opened:
    """What an attempt gives; of several failures, the last is raised."""
    began = patience.now()
    for retry in range(patience.retries):
        try:
            return await attempt()
        except Exception as error:
            met = read_provider_error(error)
            pause = None if met is None else _pause(met, retry, patience)
            if pause is None or patience.now() + pause - began >= patience.seconds:
                raise
        await patience.sleep(pause)
    return await attempt()


def _pause(met: ProviderError, retry: int, patience: RetryPolicy) -> float | None:
    """How long to wait before the next try; None if there should be none."""
    if not _is_passing(met):
        return None
    told = retry_after(met.headers)
    if told is not None:
        return told if told <= MAX_PAUSE_S else None
    # A little less than the full pause, never the same twice: callers that failed together should not return together.
    return min(_FIRST * _GROWTH**retry, _MOST) * (1 - 0.25 * patience.chance())


def _is_passing(met: ProviderError) -> bool:
    """Whether it may be better next time. A provider that says so itself is believed."""
    match met.headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return met.kind != "status" or met.status in {408, 409, 429} or met.status >= 500
