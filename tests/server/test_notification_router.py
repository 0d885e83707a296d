"""Several servers on one PostgreSQL notify each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from palaver.core.api_keys import ALL_SCOPES
from palaver.discovery.registry import Registry
from palaver.engine import heartbeat
from palaver.engine.engine import utc_now
from palaver.errors import Overloaded
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage import api_keys, runs
from palaver.storage.database import Database, open_database
from palaver.storage.notifications import Notification
from palaver.testing import in_process_transport, scripted
from palaver.workflows.workflow import Workflow


@asynccontextmanager
async def running_server(
    url: str, *workflows: Workflow, **settings: Any
) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    server = Server(Registry(workflows or [scripted]), Settings(**settings), database=open_database(url))
    await server.runtime.start()
    async with httpx.AsyncClient(
        transport=in_process_transport(server), base_url="http://localhost", timeout=30
    ) as http:
        try:
            yield server, http
        finally:
            await server.engine.drain(0)
            await server.close()


@asynccontextmanager
async def closing(database: Database) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await database.close()


@pytest.fixture(autouse=True)
def disable_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable polling: without a notification, a server reacts too late for the test."""
    monkeypatch.setattr(heartbeat, "NOTIFIED_CANCEL_POLL_S", 600)
    monkeypatch.setattr("palaver.engine.background_runs.POLL_INTERVAL_S", 600)
    monkeypatch.setattr("palaver.engine.run_reader.NOTIFIED_POLL_INTERVAL_S", 600)
    monkeypatch.setattr("palaver.server.auth.CACHE_TTL_S", 600)


async def test_a_run_can_be_followed_and_cancelled_through_another_server(postgres_url: str) -> None:
    body = {"model": "scripted", "input": '[{"text": "Hel"}, {"sleep": 60}]', "stream": True}
    async with (
        running_server(postgres_url) as (_, here),
        running_server(postgres_url) as (_, there),
        asyncio.timeout(60),
        here.stream("POST", "/v1/responses", json=body) as answer,
    ):
        run = answer.headers["x-palaver-run-id"]
        following = asyncio.create_task(there.get(f"/api/runs/{run}/events"))
        await asyncio.sleep(0.5)
        ended = await there.post(f"/api/runs/{run}/cancel")
        followed = await following

    assert ended.json()["status"] == "cancelled"
    assert "run-cancelled" in followed.text


async def test_a_queued_run_starts_on_a_server_with_free_background_slots(postgres_url: str) -> None:
    async with (
        running_server(postgres_url, background_runs=0) as (_, here),
        running_server(postgres_url) as (other, _),
        asyncio.timeout(60),
    ):
        made = (await here.post("/v1/responses", json={"model": "scripted", "input": "hi", "background": True})).json()
        stream = await here.get(f"/v1/responses/{made['id']}", params={"stream": "true"})
        row = await other.runtime.database.read(runs.get_run, "default", "run_" + made["id"].removeprefix("resp_"))

    assert "response.completed" in stream.text
    assert row is not None
    assert row.process == other.runtime.heartbeat._process.id


async def test_a_key_created_or_revoked_elsewhere_takes_effect_at_once(postgres_url: str) -> None:
    key, secret = api_keys.new_api_key(project="default", name="one", scopes=ALL_SCOPES, now=datetime.now(UTC))
    database = open_database(postgres_url)

    async def answered(http: httpx.AsyncClient, status: int) -> None:
        async with asyncio.timeout(60):
            while (await http.get("/api/workflows", headers={"x-api-key": secret})).status_code != status:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async with running_server(postgres_url) as (_, http), closing(database):
        before = (await http.get("/api/workflows")).status_code
        await database.write(api_keys.insert_key, key)
        async with asyncio.timeout(60):
            while (await http.get("/api/workflows")).status_code != 401:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await answered(http, 200)
        await database.write(api_keys.revoke_key, "default", key.id, at=utc_now())
        await answered(http, 401)

    assert before == 200


async def test_missed_notifications_invalidate_the_cached_keys(postgres_url: str) -> None:
    key, secret = api_keys.new_api_key(project="default", name="one", scopes=ALL_SCOPES, now=datetime.now(UTC))
    async with running_server(postgres_url) as (server, http):
        await server.runtime.database.write(api_keys.insert_key, key)
        headers = {"x-api-key": secret}
        assert (await http.get("/api/workflows", headers=headers)).status_code == 200
        server.runtime.notifications.dispatch(Notification("missed", ()))

        assert not server.authenticator._keys.contains(key.id)
        assert (await http.get("/api/workflows", headers=headers)).status_code == 200


async def test_failing_to_notify_followers_does_not_end_the_stream(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise Overloaded("gone")

    async with running_server(postgres_url) as (server, http):
        monkeypatch.setattr(server.runtime.run_reader, "announce_growth", fail)
        body = {"messages": [], "flags": {"stream": True}, "inputs": {"script": [{"text": "a"}, {"sleep": 0.2}]}}
        async with http.stream("POST", "/scripted/invoke", json=body) as answer:
            server.runtime.notifications.dispatch(Notification("followed", [answer.headers["x-palaver-run-id"]]))
            server.runtime.notifications.dispatch(Notification("followed", ["run_of_others"]))
            lines = [line async for line in answer.aiter_lines()]

    assert lines
