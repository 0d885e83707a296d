"""Rehearsals: answers without a key or a model, marked as such."""

from typing import Any

import pytest

from palaver.testing import client
from palaver_jobchat import javascript
from tests.jobchat.adaptors.fake_registry import FakeRegistry, package
from tests.jobchat.scenarios import ChatFactory
from tests.protocols.test_services import decode_events


@pytest.mark.parametrize("key", [None, "sk-ant-the-servers-own-key"])
async def test_a_rehearsal_needs_no_key_and_uses_none(create_chat: ChatFactory, key: str | None) -> None:
    workflow, fake = create_chat([], key=key)
    job = "get('/patients');\n"
    payload = {"content": "log how many there are", "context": {"expression": job}, "suggest_code": True}

    async with client(workflow) as http:
        body = (await http.post("/services/job_chat", json={**payload, "rehearsal": True})).json()

    assert body["response"].startswith("Test mode: no model was called.")
    assert body["suggested_code"] != job
    assert job.strip() in body["suggested_code"]
    assert javascript.check_syntax(body["suggested_code"]).ok
    assert body["application_status"]["success"] is True
    assert body["meta"]["job_chat"]["model"] == "rehearsal"
    assert fake.requests == []


async def test_a_rehearsal_downloads_nothing(create_chat: ChatFactory, registry: FakeRegistry) -> None:
    registry.publish("http", {"6.5.4": package("one")})
    workflow, _ = create_chat([{"text": "Yes."}], online=True, registry=registry.url)
    payload = {"content": "why?", "context": {"adaptor": "http@6.5.4"}}

    async with client(workflow) as http:
        rehearsed = (await http.post("/services/job_chat", json={**payload, "rehearsal": True})).json()
        requests_of_rehearsal = list(registry.requests)
        answered = (await http.post("/services/job_chat", json=payload)).json()

    assert requests_of_rehearsal == []
    assert rehearsed["meta"]["job_chat"]["adaptor"]["source"] == "bundled"
    assert "source" not in answered["meta"]["job_chat"]["adaptor"]


async def test_stream_has_a_notice_that_the_answer_is_a_rehearsal(create_chat: ChatFactory) -> None:
    workflow, _ = create_chat([], key=None)

    async with client(workflow) as http:
        stream = await http.post("/services/job_chat/stream", json={"content": "why?", "rehearsal": True})

    (notice,) = [data["value"] for event, data in decode_events(stream.content) if event == "data"]
    assert notice["level"] == "info"
    assert notice["text"].startswith("Test mode: no model was called.")


async def test_only_true_requests_a_rehearsal(create_chat: ChatFactory) -> None:
    workflow, _ = create_chat([], key=None)

    async def status_of(http: Any, value: Any) -> int:
        return (await http.post("/services/job_chat", json={"content": "why?", "rehearsal": value})).status_code

    async with client(workflow) as http:
        assert [await status_of(http, value) for value in (True, False, None, "yes")] == [200, 401, 401, 400]
