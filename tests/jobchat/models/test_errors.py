"""The failures that callers get for provider errors."""

import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.models.anthropic import Anthropic
from palaver_jobchat.models.base import ModelRequest, TextDelta, UsageReport
from palaver_jobchat.models.client import RetryPolicy
from palaver_jobchat.models.errors import RequestInfo, mask_keys, retry_after
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.models.model_requests import KEY, NO_RETRY, PROMPT, collect_failure, failure_of, usage_of

CONNECTION_LOST = "Could not connect to the model's provider, or the connection was lost. Try again."
TOO_LONG = "The prompt is too long for the model. Shorten context.log, the largest field, or leave it out."
FIELD_SIZES = {"content": 9, "context.log": 140_000}


def error_step(status: int, message: str = "", kind: str = "", **headers: str) -> dict[str, Any]:
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"error": {"status": status, "type": kind, "message": message, "headers": header_fields}}


ERROR_CASES = {
    "a wrong key": (
        error_step(401, "invalid x-api-key"),
        "auth_error",
        "The model's provider rejected the server's key. Check ANTHROPIC_API_KEY on the server.",
        401,
        {"key": "server"},
    ),
    "not allowed": (
        error_step(403, "Your key may not use this"),
        "forbidden",
        "The model's provider denied access: Your key may not use this.",
        403,
        {},
    ),
    "no such model": (
        error_step(404, "model: claude-sonnet-5-5"),
        "not_found",
        (
            "Model 'claude-sonnet-5-5' not found or not available with this key. "
            "Set PALAVER_JOBCHAT_MODEL to another model."
        ),
        404,
        {},
    ),
    "not usable": (
        error_step(422, "tools: what is this?"),
        "invalid_request",
        "The model's provider could not process the request: tools: what is this?",
        422,
        {},
    ),
    "too many requests": (
        error_step(429, "slow down", retry_after="7"),
        "rate_limit",
        "The model's provider is limiting requests. Try again in 7 seconds.",
        429,
        {"retry_after": 7},
    ),
    "too many requests, for whom knows how long": (
        error_step(429, "slow down"),
        "rate_limit",
        "The model's provider is limiting requests. Try again in 60 seconds.",
        429,
        {"retry_after": 60},
    ),
    "too long": (
        error_step(400, "prompt is too long: 215000 tokens > 200000 maximum"),
        "prompt_too_long",
        TOO_LONG,
        413,
        {"fields": FIELD_SIZES},
    ),
    "too long with what may come": (
        error_step(400, "input length and `max_tokens` exceed context limit: 199000 + 16384 > 200000"),
        "prompt_too_long",
        TOO_LONG,
        413,
        {"fields": FIELD_SIZES},
    ),
    "too large": (
        error_step(413, "Request exceeds the maximum allowed number of bytes"),
        "prompt_too_long",
        TOO_LONG,
        413,
        {"fields": FIELD_SIZES},
    ),
    "a bad request": (
        error_step(400, "messages.0: that is none"),
        "bad_request",
        "The model's provider rejected the request: messages.0: that is none.",
        400,
        {},
    ),
    "a bad request without a word": (
        error_step(400),
        "bad_request",
        "The model's provider rejected the request.",
        400,
        {},
    ),
    "overloaded": (
        error_step(529, "Overloaded"),
        "overloaded",
        "The model's provider is overloaded. Try again in 10 seconds.",
        503,
        {"retry_after": 10},
    ),
    "overloaded by another status, and told until when": (
        error_step(503, "Overloaded", "overloaded_error", retry_after="0.2"),
        "overloaded",
        "The model's provider is overloaded. Try again in 1 second.",
        503,
        {"retry_after": 1},
    ),
    "the provider's own trouble": (
        error_step(500, "Internal server error"),
        "provider_error",
        "The model's provider failed: Internal server error. Try again.",
        502,
        {},
    ),
    "a status that has no row": (
        error_step(402, "Your credit balance is too low."),
        "provider_error",
        "The model's provider failed: Your credit balance is too low. Try again.",
        502,
        {},
    ),
    "no connection": ({"drop": True}, "connection_error", CONNECTION_LOST, 503, {}),
}


@pytest.mark.parametrize("row", ERROR_CASES)
async def test_provider_error_before_the_first_delta_is_mapped_to_a_failure(row: str) -> None:
    step, *expected = ERROR_CASES[row]
    with FakeAnthropic([step]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=NO_RETRY)

        assert await collect_failure(model, field_sizes=FIELD_SIZES) == tuple(expected)


STREAM_ERROR_CASES = {
    "overloaded": ({"type": "overloaded_error", "message": "Overloaded"}, *ERROR_CASES["overloaded"][1:]),
    "the provider's own trouble": (
        {"type": "api_error", "message": "Internal server error"},
        *ERROR_CASES["the provider's own trouble"][1:],
    ),
    "too many requests": (
        {"type": "rate_limit_error", "message": "slow down"},
        *ERROR_CASES["too many requests, for whom knows how long"][1:],
    ),
    "too long": (
        {"type": "invalid_request_error", "message": "prompt is too long"},
        "prompt_too_long",
        TOO_LONG,
        413,
        {"fields": FIELD_SIZES},
    ),
    "something new": (
        {"type": "weather_error", "message": "rain"},
        "provider_error",
        "The model's provider failed: rain. Try again.",
        502,
        {},
    ),
}


@pytest.mark.parametrize("row", STREAM_ERROR_CASES)
async def test_provider_error_after_the_first_delta_is_mapped_to_a_failure(row: str) -> None:
    then_error, *expected = STREAM_ERROR_CASES[row]
    with FakeAnthropic([{"text": "Half an ans", "then_error": then_error}]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=NO_RETRY)
        answer = model.stream(ModelRequest(prompt=PROMPT, field_sizes=FIELD_SIZES))
        assert [await anext(answer), await anext(answer)] == [UsageReport(usage_of(10, 1)), TextDelta("Half an ans")]

        assert await failure_of(answer) == tuple(expected)


@pytest.mark.parametrize("how", [True, "cleanly"])
async def test_interrupted_answer_is_a_connection_error(how: Any) -> None:
    with FakeAnthropic([{"text": "Half", "drop": how}]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=NO_RETRY)

        assert await collect_failure(model) == ("connection_error", CONNECTION_LOST, 503, {})


async def test_unreachable_server_is_a_connection_error() -> None:
    with FakeAnthropic([]) as fake:
        url = fake.url

    assert await collect_failure(Anthropic(api_key=KEY, base_url=url, retry_policy=NO_RETRY)) == (
        "connection_error",
        CONNECTION_LOST,
        503,
        {},
    )


@pytest.mark.parametrize("step", [{"text": "Half", "hang": True}, {"hang": True}])
async def test_model_that_sends_nothing_times_out(step: dict[str, Any]) -> None:
    with FakeAnthropic([step]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=RetryPolicy(retries=2, timeout_s=0.3))

        assert await collect_failure(model) == (
            "timeout",
            "The model sent nothing for 0.3 seconds. Try again later.",
            504,
            {},
        )
        assert len(fake.requests) == 1


async def test_rejected_key_of_the_caller_is_reported_as_the_callers() -> None:
    message = "The model's provider rejected the request's key. Check api_key."
    with FakeAnthropic([error_step(401, "invalid x-api-key")]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=NO_RETRY)

        assert await collect_failure(model, key="mine") == ("auth_error", message, 401, {"key": "request"})


@pytest.mark.parametrize("step", ["error", "then_error"])
async def test_a_key_that_the_provider_repeats_is_masked(step: str) -> None:
    message = "no credit for mySecret and sk-ant-other-key-1"
    error_body = {"status": 400, "type": "invalid_request_error", "message": message}
    with FakeAnthropic([{step: error_body}]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=NO_RETRY)
        failure = await collect_failure(model, key="mySecret")

    assert failure == ("bad_request", "The model's provider rejected the request: no credit for *** and ***.", 400, {})


async def test_stream_with_invalid_json_is_a_provider_error() -> None:
    from palaver_jobchat.testing import fake_anthropic

    with pytest.MonkeyPatch.context() as patch, FakeAnthropic([{"text": "a"}]) as fake:
        patch.setattr(fake_anthropic, "sse_frame", lambda name, **data: b"event: message_start\ndata: {oops\n\n")
        model = Anthropic(api_key=KEY, base_url=fake.url, retry_policy=NO_RETRY)

        assert await collect_failure(model) == ("provider_error", "The model's provider failed. Try again.", 502, {})


async def test_programming_error_is_not_reported_as_a_provider_error() -> None:
    with FakeAnthropic([]) as fake:
        model = Anthropic(api_key=KEY, base_url=fake.url, model=object(), retry_policy=NO_RETRY)  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError):
            await anext(model.stream(ModelRequest(prompt=PROMPT)))


def test_retry_after_is_parsed_from_seconds_milliseconds_or_a_date() -> None:
    assert retry_after({}) is None
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "inf"}) is None
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after": "-3"}) == 0
    assert retry_after({"retry-after": "60", "retry-after-ms": "250"}) == 0.25
    seconds = retry_after({"retry-after": formatdate(time.time() + 90, usegmt=True)})
    assert seconds is not None
    assert 80 < seconds <= 90


@given(before=st.text(), key=st.text(min_size=1), after=st.text())
def test_key_is_masked_in_any_text(before: str, key: str, after: str) -> None:
    assert key not in mask_keys(before + key + after, key).replace("***", "")


def test_repr_of_request_info_hides_the_key() -> None:
    info = RequestInfo(model="m", key=KEY, key_source="server", field_sizes={}, timeout=1, setting="X")
    assert repr(info) == "RequestInfo(model='m', key_source='server')"
