"""S6, evaluators sent over HTTP: hosts, keys and folders that they cannot reach."""

from typing import Any

import httpx
import pytest

from palaver import chat
from palaver.core.messages import Message
from palaver.testing import client
from tests.evaluation.fake_services import KEY, Reply, completion, openai, service
from tests.outbound.test_ssrf import PUBLIC_ADDRESS
from tests.security.test_s6_connections import FakeNetwork

VERDICT = {"passed": True, "score": 1, "reason": "Good."}
CASE = {"output": "Paris.", "expected": "Paris"}


@chat
async def court(messages: list[Message]) -> str:
    """Approve everything."""
    return '{"passed": true, "score": 1, "reason": "Good."}' if messages else ""


async def try_evaluator(http: httpx.AsyncClient, key: str, **parameters: Any) -> httpx.Response:
    return await http.post(f"/api/evaluators/{key}/try", json={"parameters": parameters, "case": CASE})


async def test_webhook_to_a_non_public_url_is_rejected_without_a_reason() -> None:  # S6.1, S6.2
    urls = [
        "http://127.0.0.1/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://example.org:22/",
        "file:///x",
    ]
    async with client(court) as http:
        responses = [await try_evaluator(http, "webhook", url=url) for url in urls]
        responses.append(await try_evaluator(http, "combine", of=[{"key": "webhook", "parameters": {"url": urls[0]}}]))

    refusal = (422, {"code": "url_refused", "message": "This URL is not allowed."})
    assert [(answer.status_code, answer.json()["error"]) for answer in responses] == [refusal] * 6


async def test_webhook_connects_only_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:  # S6.3
    async with service(lambda _: Reply(True)) as fake, client(court) as http:
        fake_network = FakeNetwork(monkeypatch, int(fake.url.rpartition(":")[2]))
        result = (await try_evaluator(http, "webhook", url="http://hooks.example/")).json()
        fake_network.addresses = [PUBLIC_ADDRESS, "10.0.0.1"]
        refused = (await try_evaluator(http, "webhook", url="http://hooks.example/")).json()

    assert (result["status"], result["passed"]) == ("scored", True)
    assert (refused["status"], refused["reason"]) == ("error", "url_refused: This URL is not allowed.")
    assert [(request.headers["host"], "cookie" in request.headers) for request in fake.requests] == [
        ("hooks.example", False)
    ]


async def test_operator_can_allow_private_webhook_urls() -> None:  # S6.2
    async with service(lambda _: Reply({"score": 0.5})) as fake, client(court, allow_private_urls=True) as http:
        answer = await try_evaluator(http, "webhook", url=fake.url)

    assert answer.json()["score"] == 0.5


async def test_webhook_secret_must_be_a_webhook_environment_variable() -> None:
    secrets = ["word", "env:PATH", "env:OPENAI_API_KEY", "env:PALAVER_DB", "env:PALAVER_WEBHOOK_"]
    async with client(court) as http:
        responses = [
            await try_evaluator(http, "webhook", url="https://example.org", secret=secret) for secret in secrets
        ]

    assert [(answer.status_code, answer.json()["error"]["path"]) for answer in responses] == [
        (422, "/parameters/secret")
    ] * 5


async def test_model_name_cannot_be_a_url_or_a_path() -> None:  # S6.6
    async with client(court, providers=openai("http://127.0.0.1:1", models=("gpt-*",))) as http:
        responses = [
            await try_evaluator(http, "llm_judge", judge="http://127.0.0.1/v1", prompt="x"),
            await try_evaluator(http, "llm_judge", judge="openai/gpt-4", prompt="x", base_url="http://127.0.0.1"),
            await try_evaluator(http, "semantic_similarity", model="http://127.0.0.1/v1"),
            await try_evaluator(http, "semantic_similarity", model="local:../../etc"),
        ]

    assert [answer.status_code for answer in responses] == [422] * 4


async def test_provider_key_is_sent_to_its_provider_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # S6.6, S8
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with service([completion(VERDICT)]) as fake, client(court, providers=openai(fake.url)) as http:
        scored = await try_evaluator(http, "llm_judge", judge="openai/m", prompt="{{text}}")
        settings = await http.get("/api/settings")
        evaluators = await http.get("/api/evaluators")

    assert (scored.json()["passed"], scored.json()["usage"]["input_tokens"]) == (True, 100)
    assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "env:OPENAI_API_KEY" in settings.text
    assert [KEY in answer.text for answer in (scored, settings, evaluators)] == [False] * 3


async def test_served_workflow_can_be_the_judge() -> None:
    async with client(court) as http:
        answer = await try_evaluator(http, "llm_judge", judge="court", prompt="{{text}}")

    assert (answer.json()["status"], answer.json()["reason"]) == ("scored", "Good.")
