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


async def test_whoever_comes_meanwhile_joins() -> None:
    flights, begun, go = SingleFlight(now=Clock(), timeout_s=10), list[int](), asyncio.Event()

    async def work() -> str:
        begun.append(1)
        await go.wait()
        return "done"

    tasks = [asyncio.create_task(wait_for(flights.join("x", work))) for _ in range(5)]
    await wait_until(lambda: bool(begun))
    tasks[0].cancel()  # The caller that started it.
    go.set()

    assert await asyncio.gather(*tasks[1:]) == ["done"] * 4
    assert begun == [1]
    assert await wait_for(flights.join("x", work)) == "done"
    assert begun == [1, 1]


async def test_what_failed_is_left_alone_for_a_minute(caplog: pytest.LogCaptureFixture) -> None:
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
    assert caplog.messages == ["Fetching x: broken. Not tried again for 60 s."]


async def test_it_lasts_only_so_long(caplog: pytest.LogCaptureFixture) -> None:
    flights = SingleFlight(now=Clock(), timeout_s=0.02)

    assert await wait_for(flights.join("x", asyncio.Event().wait)) is None
    assert caplog.messages == ["x: took more than 0.02 s. Not tried again for 60 s."]


async def test_one_who_has_waited_long_enough_goes_on_without() -> None:
    flights, go = SingleFlight(now=Clock(), timeout_s=10), asyncio.Event()
    flight = flights.join("x", go.wait)

    assert await wait_for(flight, asyncio.get_running_loop().time() + 0.01) is None
    go.set()
    assert await wait_for(flight) is True


async def test_a_flight_that_is_ended_brings_nothing() -> None:
    flight = SingleFlight(now=Clock(), timeout_s=10).join("x", asyncio.Event().wait)
    assert flight is not None
    flight.cancel()

    assert await wait_for(flight) is None


async def test_the_memory_of_failures_has_an_end() -> None:
    flights = SingleFlight(now=Clock(), timeout_s=10)

    async def work() -> None:
        raise ValueError

    for number in range(1001):
        await wait_for(flights.join(str(number), work))

    assert flights.join("1000", work) is None
    second = flights.join("0", work)
    assert second is not None
    await wait_for(second)
