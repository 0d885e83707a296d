"""The rate limit of calls, shared by all processes."""

import asyncio
import time

from palaver.engine.engine import utc_now
from palaver.evaluation.plan.request import Rate
from palaver.evaluation.runner.rate_limit import RateLimiter
from palaver.storage.database import Database
from tests.evaluation.runner.local_server import plan, rows, store_evaluation


async def test_two_processes_share_the_rate_limit(database: Database) -> None:
    await database.write(store_evaluation, "ev_1", plan(), rows(1))
    limiters = [RateLimiter(database, "default", "ev_1", Rate(calls=40, seconds=1), utc_now) for _ in range(2)]
    calls_made: list[float] = []
    since = time.monotonic()

    async def call(pace: RateLimiter) -> None:
        await pace.wait()
        calls_made.append(time.monotonic())

    await asyncio.gather(*(call(limiters[number % 2]) for number in range(12)))

    early = [number for number, at in enumerate(sorted(calls_made)) if at - since < number * 0.025 - 0.01]
    assert early == []


async def test_the_rate_limiter_of_a_missing_evaluation_does_not_wait(database: Database) -> None:
    limiter = RateLimiter(database, "default", "ev_1", Rate(calls=1, seconds=60), utc_now)

    async with asyncio.timeout(60):
        await limiter.wait()
