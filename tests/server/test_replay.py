"""Readers of a run get an error in the format of their protocol when their key is revoked."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from palaver.core.events import RunFailed, TextDelta, TextEnded, TextStarted, ToolDelta, ToolEnded, ToolStarted
from palaver.core.runs import OpenItems, rejection_events
from palaver.storage import api_keys as kept
from tests.server.keyed_server import KeyedServer, keyed_server

pytestmark = pytest.mark.anyio
SCRIPT = msgspec.json.encode([{"text": "Hel"}, {"sleep": 60}]).decode()


@pytest.fixture(autouse=True)
def _poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaver.server.auth._WATCH_INTERVAL_S", 0.02)


@pytest.fixture
async def backend() -> AsyncIterator[KeyedServer]:
    async with keyed_server(record="full") as backend:
        yield backend


async def start_run(backend: KeyedServer, header: dict[str, str]) -> str:
    """Start a run that produces some text and keeps running; return its id."""
    body = {"model": "scripted", "input": SCRIPT, "background": True}
    created = (await backend.http.post("/v1/responses", json=body, headers=header)).json()
    run = created["id"].replace("resp_", "run_")
    async with asyncio.timeout(60):
        while len(await backend.server.runtime.run_reader.read_log("default", run)) < 3:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
    return run


async def read_until_revoked(
    backend: KeyedServer, path: str, header: dict[str, str], key: str, trigger: str
) -> list[Any]:
    """Return the frames of a reader whose key is revoked as soon as it receives `trigger`."""
    received = ""
    async with asyncio.timeout(60), backend.http.stream("GET", path, headers=header) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_text():
            if trigger in piece and trigger not in received:
                await backend.database.write(kept.revoke_key, "default", key, at=backend.server.authenticator.now())
                backend.server.authenticator.invalidate(key)
            received += piece
    return [msgspec.json.decode(line) for line in re.findall(r"^data: (\{.*\})$", received, re.MULTILINE)]


async def test_an_event_reader_gets_an_error_when_its_key_is_revoked_and_the_run_continues(
    backend: KeyedServer,
) -> None:
    _, theirs = await backend.create_key()
    key, mine = await backend.create_key()
    run = await start_run(backend, theirs)

    events = await read_until_revoked(backend, f"/api/runs/{run}/events", mine, key.id, '"Hel"')
    row = (await backend.http.get(f"/api/runs/{run}", headers=theirs)).json()
    (await backend.http.post(f"/api/runs/{run}/cancel", headers=theirs)).raise_for_status()

    assert [event["type"] for event in events] == ["run-started", "text-started", "text-delta", "run-failed"]
    assert events[-1] == {
        "type": "run-failed",
        "code": "unauthorized",
        "message": "The API key has expired or been revoked.",
    }
    assert (row["status"], row["readers"]) == ("running", 0)


async def test_a_response_reader_gets_an_error_when_its_key_is_revoked(backend: KeyedServer) -> None:
    _, theirs = await backend.create_key()
    key, mine = await backend.create_key()
    run = await start_run(backend, theirs)
    path = f"/v1/responses/{run.replace('run_', 'resp_')}?stream=true"

    frames = await read_until_revoked(backend, path, mine, key.id, '"Hel"')
    (await backend.http.post(f"/api/runs/{run}/cancel", headers=theirs)).raise_for_status()

    assert frames[-1]["type"] == "response.failed"
    assert frames[-1]["response"]["error"]["message"] == "The API key has expired or been revoked."
    assert "response.output_text.done" in [frame["type"] for frame in frames]


async def test_a_chat_reader_gets_an_error_when_its_key_is_revoked(backend: KeyedServer) -> None:
    _, theirs = await backend.create_key()
    key, mine = await backend.create_key()
    body = {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": SCRIPT}]}]}

    async with backend.http.stream("POST", "/scripted/api/chat", json=body, headers=theirs) as stream:
        async for piece in stream.aiter_text():
            if "Hel" in piece:
                break
        frames = await read_until_revoked(backend, "/scripted/api/chat/chat-1/stream", mine, key.id, '"Hel"')
        (await backend.http.post("/scripted/api/chat/chat-1/stop", headers=theirs)).raise_for_status()

    assert [frame["type"] for frame in frames[-4:]] == ["text-end", "error", "finish-step", "finish"]
    assert frames[-3] == {"type": "error", "errorText": "The API key has expired or been revoked."}


def test_rejection_events_close_open_items_before_the_failure() -> None:
    open_items = OpenItems()
    for event in (
        TextStarted(1, "a", "m"),
        TextDelta(2, "a", "Hel"),
        ToolStarted(3, "fc_c", "m", "c", "now"),
        ToolDelta(4, "fc_c", "{}"),
        TextEnded(5, "a", "Hel"),
        TextDelta(6, "before", "It opened before we were asked."),
    ):
        open_items.feed(event)

    assert rejection_events(open_items, RunFailed(message="Go.")) == [
        ToolEnded(-1, "fc_c", "{}"),
        RunFailed(message="Go."),
    ]
