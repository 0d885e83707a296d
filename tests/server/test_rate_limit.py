"""Rate limits per key and per address: exact, on a monotonic clock, and with bounded memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import RateLimited
from palaver.server.auth import LOOPBACK_CALLER, Caller
from palaver.server.rate_limit import ConcurrencyLimit, RateLimits, SlidingWindow
from palaver.server.settings import Settings

FIRST_CALLER = Caller("default", frozenset({"invoke"}), "aaaaaaaa", "key")
SECOND_CALLER = Caller("default", frozenset({"invoke"}), "bbbbbbbb", "key")


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@given(limit=st.integers(1, 5), steps=st.lists(st.floats(0, 40), max_size=60))
def test_a_sliding_window_allows_exactly_its_limit_in_any_minute(limit: int, steps: list[float]) -> None:
    clock = Clock()
    window = SlidingWindow(limit, monotonic=clock)
    taken: list[float] = []
    for step in steps:
        clock.seconds += step
        recent = [time for time in taken if time + 60 - clock.seconds > 0]
        wait = window.count("a")
        assert (wait == 0) is (len(recent) < limit)
        if wait == 0:
            taken.append(clock.seconds)
        else:
            assert wait - 1 <= recent[-limit] + 60 - clock.seconds <= wait


@given(steps=st.lists(st.tuples(st.booleans(), st.floats(0, 30)), max_size=60))
def test_uncounted_requests_do_not_count_towards_the_limit(steps: list[tuple[bool, float]]) -> None:
    clock = Clock()
    window = SlidingWindow(3, monotonic=clock)
    taken: list[float] = []
    for fails, step in steps:
        clock.seconds += step
        recent = [time for time in taken if time + 60 - clock.seconds > 0]
        assert (window.count("a") == 0) is (len(recent) < 3)
        if len(recent) < 3:
            if fails:
                taken.append(clock.seconds)
            else:
                window.uncount("a")


def test_each_key_has_its_own_rate_limit() -> None:
    clock = Clock()
    rates = RateLimits(Settings(rate_per_minute=2), monotonic=clock)
    rates.count_request(FIRST_CALLER)
    clock.seconds += 20
    rates.count_request(FIRST_CALLER)
    rates.count_request(SECOND_CALLER)

    with pytest.raises(RateLimited) as raised:
        rates.count_request(FIRST_CALLER)

    assert raised.value.message == "Too many requests for this API key (limit: 2 per minute). Try again in 40 seconds."
    assert raised.value.retry_after == 40
    clock.seconds += 39.5
    with pytest.raises(RateLimited, match=r"Try again in 1 second\.$"):
        rates.count_request(FIRST_CALLER)
    clock.seconds += 0.5
    rates.count_request(FIRST_CALLER)


def test_callers_without_a_key_or_a_limit_are_not_limited() -> None:
    rates = RateLimits(Settings(rate_per_minute=1, max_runs=1, max_streams=1))
    unlimited = RateLimits(Settings(rate_per_minute=0, max_runs=0, max_streams=0))
    for _ in range(3):
        rates.count_request(LOOPBACK_CALLER)
        rates.runs.acquire(LOOPBACK_CALLER)
        unlimited.count_request(FIRST_CALLER)
        unlimited.streams.acquire(FIRST_CALLER)
    for _ in range(3):
        rates.runs.release(LOOPBACK_CALLER)
        unlimited.streams.release(FIRST_CALLER)


def test_a_sliding_window_remembers_at_most_max_names() -> None:
    window = SlidingWindow(1, monotonic=Clock(), max_names=2)

    assert [window.count(name) for name in ("a", "b", "a", "c", "a", "b")] == [0, 0, 60, 0, 60, 0]
    window.uncount("nobody")


def test_concurrent_runs_count_until_they_end() -> None:
    runs = ConcurrencyLimit("runs", 2)
    runs.acquire(FIRST_CALLER)
    with runs.slot(FIRST_CALLER):
        runs.acquire(SECOND_CALLER)
        with pytest.raises(RateLimited) as raised:
            runs.acquire(FIRST_CALLER)
        with pytest.raises(RateLimited), runs.slot(FIRST_CALLER):
            pass
    runs.acquire(FIRST_CALLER)

    assert raised.value.message == "Too many concurrent runs for this API key (limit: 2). Wait for one to finish."
    assert raised.value.retry_after == 1


def test_an_address_is_limited_to_ten_failed_logins_a_minute() -> None:
    clock = Clock()
    rates = RateLimits(Settings(), monotonic=clock)
    for _ in range(20):
        rates.count_login("192.0.2.7")
        rates.uncount_login("192.0.2.7")
    for _ in range(10):
        rates.count_login("192.0.2.7")

    with pytest.raises(RateLimited) as raised:
        rates.count_login("192.0.2.7")

    assert raised.value.message == "Too many failed logins from this address. Try again in 60 seconds."
    rates.count_login("192.0.2.8")
    clock.seconds += 60
    rates.count_login("192.0.2.7")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.7", "192.0.2.7", True),
        ("::ffff:192.0.2.7", "192.0.2.8", False),
        ("/run/palaver.sock", "/run/palaver.sock", True),
        ("", "192.0.2.7", False),
    ],
)
def test_ipv6_addresses_share_the_login_limit_of_their_network(one: str, other: str, same: bool) -> None:
    rates = RateLimits(Settings(), monotonic=Clock())
    for _ in range(10):
        rates.count_login(one)

    if same:
        with pytest.raises(RateLimited):
            rates.count_login(other)
    else:
        rates.count_login(other)
