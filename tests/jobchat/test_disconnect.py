"""A client that disconnects ends its run: the model's connection is closed, and the text so far is stored."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from palaver.testing import client
from tests.jobchat.scenarios import ChatFactory, edit, replace

_TIMEOUT_S = 30.0  # A watchdog: disconnects are handled within a second, and the model would hang forever.


async def wait_until(condition: Callable[[], bool]) -> None:
    started_at = time.monotonic()
    while not condition():
        assert time.monotonic() - started_at < _TIMEOUT_S
        await asyncio.sleep(0.01)


async def wait_for_finished_run(http: Any) -> dict[str, Any]:
    started_at = time.monotonic()
    while True:
        (run,) = (await http.get("/api/runs")).json()["data"]
        if run["status"] not in ("running", "queued"):
            return (await http.get(f"/api/runs/{run['id']}")).json()
        assert time.monotonic() - started_at < _TIMEOUT_S
        await asyncio.sleep(0.02)


async def test_closing_the_stream_cancels_the_run_and_closes_the_model_connection(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([{"text": "Half of it", "hang": True}])

    async with client(workflow) as http:
        async with http.stream("POST", "/services/job_chat/stream", json={"content": "zzz"}) as stream:
            async for line in stream.aiter_lines():
                if "Half of it" in line:
                    break
        await wait_until(lambda: fake.hung_up == 1)
        run = await wait_for_finished_run(http)

    assert run["status"] == "cancelled"
    assert run["out"]["text"] == "Half of it"
    assert run["usage"]["input_tokens"] == 10


@pytest.mark.parametrize("awaited", ["Thinking", "Half of it", "Writing code", "Correcting an edit"])
async def test_disconnecting_in_any_phase_cancels_the_run(create_chat: ChatFactory, awaited: str) -> None:
    scripts: dict[str, list[dict[str, Any]]] = {
        "Thinking": [{"text": "", "hang": True}],
        "Half of it": [{"text": "Half of it", "hang": True}],
        "Writing code": [
            {"blocks": [{"text": "Now."}, {"raw_tool": {"name": "edit_job", "json": '{"edits":['}}], "hang": True}
        ],
        "Correcting an edit": [edit(replace("x", "y")), {"text": "", "hang": True}],
    }
    workflow, fake = create_chat(scripts[awaited])
    payload = {"content": "zzz", "context": {"expression": "a();"}, "suggest_code": True}

    async with client(workflow) as http:
        async with http.stream("POST", "/services/job_chat/stream", json=payload) as stream:
            async for line in stream.aiter_lines():
                if awaited in line:
                    break
            await wait_until(lambda: len(fake.requests) == len(scripts[awaited]))
        await wait_until(lambda: fake.hung_up == 1)
        run = await wait_for_finished_run(http)

    assert run["status"] == "cancelled"


async def test_one_failed_request_does_not_affect_concurrent_ones(create_chat: ChatFactory) -> None:
    def step(request: Any) -> dict[str, Any]:
        question = request.body["messages"][-1]["content"][-1]["text"]
        if question == "question 13":
            return {"error": {"status": 500, "type": "api_error", "message": "boom"}}
        return {"text": f"To {question}.", "chunks": 5, "delay": 0.01}

    workflow, _ = create_chat(step)

    async with client(workflow) as http:

        async def send_question(number: int) -> Any:
            return (await http.post("/services/job_chat", json={"content": f"question {number}"})).json()

        responses = await asyncio.gather(*(send_question(number) for number in range(60)))

    assert [answer.get("response") for answer in responses] == [
        None if number == 13 else f"To question {number}." for number in range(60)
    ]
    assert responses[13]["type"] == "PROVIDER_ERROR"
