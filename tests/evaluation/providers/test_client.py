"""Model providers over HTTP: requests, retries, and error messages."""

import logging
from typing import Any

import pytest

from palaver.core.messages import Message, Usage
from palaver.evaluation.judge_verdict import JudgeAnswer
from palaver.evaluation.providers.client import ProviderClient
from palaver.evaluation.providers.config import Provider
from palaver.evaluation.providers.model import ProviderModel
from palaver.evaluation.score import ScoringError
from palaver.traces.prices import Price
from palaver_jobchat.testing.fake_anthropic import FakeAnthropic
from tests.evaluation.fake_services import KEY, Reply, completion, embeddings, error_reply, openai, service

MESSAGES = [Message.system("You judge."), Message.user("Is it good?")]
SCHEMA = {"type": "object", "properties": {"passed": {"type": "boolean"}}}


def make_client(url: str, waits: list[float], **more: Any) -> ProviderClient:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    provider = Provider(kind="openai", base_url=url, **more)
    return ProviderClient("openai", provider, {"authorization": f"Bearer {KEY}"}, KEY, sleep=sleep)


async def error_message(url: str, waits: list[float] | None = None, **more: Any) -> str:
    with pytest.raises(ScoringError) as caught:
        await make_client(url, [] if waits is None else waits, **more).post("/x", {})
    return str(caught.value)


async def test_an_openai_chat_completion_is_requested_and_parsed() -> None:
    async with service([completion({"passed": True})]) as fake:
        provider = openai(fake.url, options={"temperature": 0})["openai"]
        model = ProviderModel("openai", provider, "gpt-4o-mini", KEY, Price(input=2.5, cached=1.25, output=10))
        answer = await model.answer(MESSAGES, SCHEMA)

    (request,) = fake.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "You judge."}, {"role": "user", "content": "Is it good?"}],
        "response_format": {"type": "json_object"},
        "temperature": 0,
    }
    cost = (60 * 2.5 + 40 * 1.25 + 10 * 10) / 1_000_000
    assert (answer.text, answer.usage, answer.cost) == ('{"passed":true}', Usage(100, 10, 40), pytest.approx(cost))


async def test_an_anthropic_message_is_requested_and_parsed() -> None:
    script = [
        {"blocks": [{"tool": {"name": "verdict", "input": {"passed": True}}}], "usage": {"cache_read_input_tokens": 7}}
    ]
    with FakeAnthropic(script) as fake:
        provider = Provider(kind="anthropic", base_url=fake.url)
        answer = await ProviderModel("anthropic", provider, "claude-x", KEY, None).answer(MESSAGES, SCHEMA)

    (request,) = fake.requests
    assert request.key == KEY
    assert request.body == {
        "model": "claude-x",
        "max_tokens": 4096,
        "system": "You judge.",
        "messages": [{"role": "user", "content": "Is it good?"}],
        "tools": [{"name": "verdict", "description": "Give the verdict.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": "verdict"},
    }
    assert answer == JudgeAnswer(text='{"passed":true}', usage=Usage(17, 5, 7))


async def test_an_anthropic_text_block_is_an_answer() -> None:
    with FakeAnthropic([{"text": "It is good."}]) as fake:
        provider = Provider(kind="anthropic", base_url=f"{fake.url}/v1/")
        answer = await ProviderModel("anthropic", provider, "claude-x", KEY, None).answer(MESSAGES, {})

    assert answer.text == "It is good."


async def test_embeddings_are_returned_in_the_order_of_the_texts() -> None:
    async with service(embeddings({"a": [1, 0], "b": [0, 1.5]})) as fake:
        model = ProviderModel("openai", openai(fake.url)["openai"], "small", KEY, None)
        result = await model.vectors(["b", "a"])

    assert result == [[0, 1.5], [1, 0]]
    assert fake.requests[0].path == "/v1/embeddings"
    assert fake.requests[0].body == {"model": "small", "input": ["b", "a"], "encoding_format": "float"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": [{"message": {"content": None, "refusal": "I won't."}}]},
        [],
        "text",
    ],
)
async def test_a_completion_without_an_answer_is_an_error(body: Any) -> None:
    async with service([Reply(body)]) as fake:
        model = ProviderModel("openai", openai(fake.url)["openai"], "m", KEY, None)
        with pytest.raises(ScoringError, match="provider_failed: the response from openai cannot be used"):
            await model.answer(MESSAGES, SCHEMA)


@pytest.mark.parametrize("data", [[], [{"index": 0, "embedding": []}], [{"index": 0, "embedding": ["x"]}], None])
async def test_invalid_embeddings_are_an_error(data: Any) -> None:
    async with service([Reply({"data": data})]) as fake:
        model = ProviderModel("openai", openai(fake.url)["openai"], "m", KEY, None)
        with pytest.raises(ScoringError, match="provider_failed: openai: expected one vector for each of 1 texts"):
            await model.vectors(["a"])


async def test_anthropic_has_no_embeddings() -> None:
    provider = Provider(kind="anthropic", base_url="http://127.0.0.1:1")
    with pytest.raises(ScoringError, match="Anthropic has no embedding models"):
        await ProviderModel("anthropic", provider, "m", KEY, None).vectors(["a"])


async def test_retries_wait_for_the_retry_after_delay() -> None:
    waits: list[float] = []
    async with service([error_reply(429, **{"retry-after": "7"}), error_reply(503), Reply({"a": 1})]) as fake:
        answer = await make_client(fake.url, waits).post("/x", {"b": 2})

    assert answer == {"a": 1}
    assert waits[0] == 7
    assert 0.5 <= waits[1] <= 1.5
    assert [request.body for request in fake.requests] == [{"b": 2}] * 3


async def test_temporary_errors_are_retried_only_up_to_the_limit() -> None:
    waits: list[float] = []
    async with service(lambda _: error_reply(429, "Slow down.", **{"retry-after": "1"})) as fake:
        message = await error_message(fake.url, waits, retries=1)

    assert message == "provider_failed: openai responded with status 429: Slow down."
    assert (waits, len(fake.requests)) == ([1], 2)


async def test_an_excessive_retry_after_delay_is_not_waited_for() -> None:
    waits: list[float] = []
    async with service(lambda _: error_reply(429, **{"retry-after": "86400"})) as fake:
        assert await error_message(fake.url, waits) == "provider_failed: openai responded with status 429: No."

    assert (waits, len(fake.requests)) == ([], 1)


@pytest.mark.parametrize("status", [400, 404, 422, 500, 301])
async def test_permanent_errors_are_not_retried(status: int) -> None:
    async with service(lambda _: error_reply(status, location="http://127.0.0.1:1/")) as fake:
        assert await error_message(fake.url) == f"provider_failed: openai responded with status {status}: No."

    assert len(fake.requests) == 1


async def test_anthropics_overload_status_529_is_retried() -> None:
    async with service([error_reply(529), Reply({})]) as fake:
        assert await make_client(fake.url, []).post("/x", {}) == {}


async def test_an_unreachable_provider_is_an_error_after_two_retries() -> None:
    waits: list[float] = []

    assert await error_message("http://127.0.0.1:1", waits) == "provider_failed: openai could not be reached."
    assert len(waits) == 2


async def test_a_broken_connection_is_retried() -> None:
    async with service([Reply(status=None), Reply({"a": 1})]) as fake:
        assert await make_client(fake.url, []).post("/x", {}) == {"a": 1}


async def test_a_provider_that_exceeds_its_timeout_is_an_error() -> None:
    with FakeAnthropic([{"hang": True}]) as fake:
        provider = Provider(kind="anthropic", base_url=fake.url, timeout_seconds=0.2)
        with pytest.raises(ScoringError) as caught:
            await ProviderModel("anthropic", provider, "claude-x", KEY, None).answer(MESSAGES, SCHEMA)

    assert str(caught.value) == "provider_timeout: anthropic did not answer within 0.2 seconds."


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff", b"[" * 5000])
async def test_a_response_that_is_not_json_is_an_error(body: bytes) -> None:
    async with service([Reply(body)]) as fake:
        assert await error_message(fake.url) == "provider_failed: openai returned invalid JSON."


async def test_a_key_repeated_by_the_provider_is_masked_in_errors_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with service(lambda _: error_reply(400, f"Bad header: Bearer {KEY} (sk-live-Zm9vYm…).")) as fake:
        bad_request = await error_message(fake.url)
    async with service(lambda _: error_reply(401, f"Incorrect API key provided: {KEY[:12]}")) as fake:
        unauthorized = await error_message(fake.url)

    assert bad_request == "provider_failed: openai responded with status 400: Bad header: Bearer *** (***…)."
    assert unauthorized == "provider_failed: openai responded with status 401: the API key was rejected."
    assert caplog.records
    assert [record.name for record in caplog.records if KEY in record.getMessage()] == []
