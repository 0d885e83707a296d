"""Concurrent requests share the same work."""

import asyncio
import logging

import pytest

from palaver_jobchat.adaptors.http_fetch import SingleFlight, wait_for
from tests.jobchat.adaptors.fake_registry import wait_until


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


async def test_concurrent_callers_share_one_execution() -> None:
    flights, starts, may_finish = SingleFlight(now=Clock(), timeout_s=10), list[int](), asyncio.Event()

    async def work() -> str:
        starts.append(1)
        await may_finish.wait()
        return "done"

    tasks = [asyncio.create_task(wait_for(flights.join("x", work))) for _ in range(5)]
    await wait_until(lambda: bool(starts))
    tasks[0].cancel()  # The caller that started it.
    may_finish.set()

    assert await asyncio.gather(*tasks[1:]) == ["done"] * 4
    assert starts == [1]
    assert await wait_for(flights.join("x", work)) == "done"
    assert starts == [1, 1]


async def test_failed_work_is_not_retried_for_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    flights = SingleFlight(now=clock, timeout_s=10)
    results = [ValueError("broken"), "whole"]

    async def work() -> str:
        match results.pop(0):
            case ValueError() as error:
                raise error
            case answer:
                return str(answer)

    with caplog.at_level(logging.WARNING):
        assert await wait_for(flights.join("Fetching x", work)) is None
    clock.time = 59.9
    assert flights.join("Fetching x", work) is None
    clock.time = 60.0
    assert await wait_for(flights.join("Fetching x", work)) == "whole"
    assert caplog.messages == ["Fetching x failed: broken. Not retrying for 60 s."]


async def test_work_is_stopped_after_the_timeout(caplog: pytest.LogCaptureFixture) -> None:
    flights = SingleFlight(now=Clock(), timeout_s=0.02)

    assert await wait_for(flights.join("x", asyncio.Event().wait)) is None
    assert caplog.messages == ["x failed: timed out after 0.02 s. Not retrying for 60 s."]


async def test_caller_with_a_deadline_gets_none_while_the_work_continues() -> None:
    flights, may_finish = SingleFlight(now=Clock(), timeout_s=10), asyncio.Event()
    flight = flights.join("x", may_finish.wait)

    assert await wait_for(flight, asyncio.get_running_loop().time() + 0.01) is None
    may_finish.set()
    assert await wait_for(flight) is True


async def test_cancelled_work_returns_none() -> None:
    flight = SingleFlight(now=Clock(), timeout_s=10).join("x", asyncio.Event().wait)
    assert flight is not None
    flight.cancel()

    assert await wait_for(flight) is None


async def test_number_of_remembered_failures_is_limited() -> None:
    flights = SingleFlight(now=Clock(), timeout_s=10)

    async def work() -> None:
        raise ValueError

    for number in range(1001):
        await wait_for(flights.join(str(number), work))

    assert flights.join("1000", work) is None
    second = flights.join("0", work)
    assert second is not None
    await wait_for(second)
