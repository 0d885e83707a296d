"""Retries: when, how often and after which pause, with a test clock."""

import time
from typing import Any

import pytest

from palaver_jobchat.models.anthropic import Anthropic
from palaver_jobchat.models.base import ResponseFinished
from palaver_jobchat.models.client import RetryPolicy
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.models.model_requests import KEY, PLAIN_PROMPT, collect_events, collect_failure

OVERLOADED = ("overloaded", "The model's provider is overloaded. Try again in 10 seconds.", 503, {"retry_after": 10})
FINISHED = ResponseFinished("stop", "end_turn")


class Clock:
    """A clock that advances only in sleep()."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def policy(self, **options: Any) -> RetryPolicy:
        return RetryPolicy(**{"now": lambda: self.now, "sleep": self.sleep, "jitter": lambda: 0.0, **options})


def model(fake: FakeAnthropic, policy: RetryPolicy) -> Anthropic:
    return Anthropic(api_key=KEY, base_url=fake.url, retry_policy=policy)


def error_step(status: int = 529, *, retry: bool = True, **headers: str) -> dict[str, Any]:
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"error": {"status": status, "message": "Overloaded", "headers": header_fields, "retry": retry}}


def error_step_without_retry_hint(status: int) -> dict[str, Any]:
    """Return an error without a hint about retrying."""
    return error_step(status, x_should_retry="")


async def test_request_succeeds_after_two_retries() -> None:
    clock = Clock()
    with FakeAnthropic([error_step(), error_step(), {"text": "a"}]) as fake:
        events = await collect_events(model(fake, clock.policy()), PLAIN_PROMPT)

    assert events[-1] == FINISHED
    assert clock.slept == [0.5, 1.0]


async def test_a_third_failure_is_reported() -> None:
    clock = Clock()
    with FakeAnthropic([error_step()] * 4) as fake:
        assert await collect_failure(model(fake, clock.policy()), PLAIN_PROMPT) == OVERLOADED
        assert (len(fake.requests), clock.slept) == (3, [0.5, 1.0])


async def test_retry_delays_grow_to_a_maximum_with_jitter() -> None:
    clock = Clock()
    jitter_values = iter([0.0, 1.0, 0.5, 0.0, 0.0, 0.0])
    with FakeAnthropic([error_step()] * 6 + [{"text": "a"}]) as fake:
        await collect_events(model(fake, clock.policy(retries=6, jitter=lambda: next(jitter_values))), PLAIN_PROMPT)

    assert clock.slept == [0.5, 0.75, 1.75, 4.0, 8.0, 8.0]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_retryable_status_is_retried(status: int) -> None:
    clock = Clock()
    with FakeAnthropic([error_step_without_retry_hint(status), {"text": "a"}]) as fake:
        assert (await collect_events(model(fake, clock.policy()), PLAIN_PROMPT))[-1] == FINISHED


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_other_client_error_is_not_retried(status: int) -> None:
    clock = Clock()
    with FakeAnthropic([error_step_without_retry_hint(status), {"text": "a"}]) as fake:
        await collect_failure(model(fake, clock.policy()), PLAIN_PROMPT)
        assert len(fake.requests) == 1


async def test_lost_connection_is_retried() -> None:
    clock = Clock()
    with FakeAnthropic([{"drop": True}, {"text": "a"}]) as fake:
        assert (await collect_events(model(fake, clock.policy()), PLAIN_PROMPT))[-1] == FINISHED
        assert clock.slept == [0.5]


async def test_x_should_retry_header_decides_about_retries() -> None:
    clock = Clock()
    with FakeAnthropic([error_step(400), {"text": "a"}, error_step(retry=False), {"text": "b"}]) as fake:
        assert (await collect_events(model(fake, clock.policy()), PLAIN_PROMPT))[-1] == FINISHED
        assert await collect_failure(model(fake, clock.policy()), PLAIN_PROMPT) == OVERLOADED


async def test_retry_after_header_sets_the_delay() -> None:
    clock = Clock()
    with FakeAnthropic([error_step(retry_after="7"), error_step(retry_after_ms="20"), {"text": "a"}]) as fake:
        await collect_events(model(fake, clock.policy()), PLAIN_PROMPT)

    assert clock.slept == [7.0, 0.02]


async def test_long_retry_after_is_reported_instead_of_waiting() -> None:
    clock = Clock()
    with FakeAnthropic([error_step(429, retry_after="10.5"), {"text": "a"}]) as fake:
        assert await collect_failure(model(fake, clock.policy()), PLAIN_PROMPT) == (
            "rate_limit",
            "The model's provider is limiting requests. Try again in 11 seconds.",
            429,
            {"retry_after": 11},
        )
        assert clock.slept == []


@pytest.mark.parametrize(("seconds", "requests"), [(6.9, 1), (7.1, 2), (14.1, 3)])
async def test_no_attempt_starts_after_the_timeout(seconds: float, requests: int) -> None:
    clock = Clock()
    with FakeAnthropic([error_step(retry_after="7")] * 4) as fake:
        failure = await collect_failure(model(fake, clock.policy(timeout_s=seconds)), PLAIN_PROMPT)

        assert (failure[0], failure[3], len(fake.requests)) == ("overloaded", {"retry_after": 7}, requests)


@pytest.mark.parametrize("broken", [{"drop": True}, {"then_error": {"type": "overloaded_error", "message": "x"}}])
async def test_failure_after_the_first_delta_is_not_retried(broken: dict[str, Any]) -> None:
    clock = Clock()
    with FakeAnthropic([{"text": "Half", **broken}, {"text": "a"}]) as fake:
        await collect_failure(model(fake, clock.policy()), PLAIN_PROMPT)
        assert (len(fake.requests), clock.slept) == (1, [])


async def test_zero_retries_means_one_attempt() -> None:
    clock = Clock()
    with FakeAnthropic([error_step()] * 2) as fake:
        assert await collect_failure(model(fake, clock.policy(retries=0)), PLAIN_PROMPT) == OVERLOADED
        assert len(fake.requests) == 1


def test_default_clock_is_monotonic() -> None:
    assert RetryPolicy().now is time.monotonic
