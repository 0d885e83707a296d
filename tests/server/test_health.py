"""GET /status: health of the server, and health reported by workflows."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from palaver import Message, chat
from palaver.errors import Overloaded
from palaver.server import health
from palaver.server.app import app
from palaver.server.settings import VERSION
from palaver.testing import in_process_transport
from tests.server.keyed_server import keyed_server


async def talk(messages: list[Message]) -> str:
    """Says hello."""
    return "Hello."


def workflow_with_health(name: str, check: Any) -> Any:
    return chat(talk, name=name, health=check)


async def get_status(*workflows: Any) -> dict[str, str]:
    server = app(*workflows)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        answer = await http.get("/status")
        await server.close()
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-api-version"] == VERSION
    return answer.json()


def failing_check() -> bool:
    raise RuntimeError("no")


async def async_value(value: object) -> object:
    return value


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (lambda: True, "working"),
        (lambda: None, "working"),
        (lambda: False, "not working"),
        (lambda: 0, "not working"),
        (lambda: "", "not working"),
        (lambda: "not configured", "not configured"),
        (lambda: "\x1b[31m" + "x" * 100, "\\x1b[31m" + "x" * 74 + "…"),
        (lambda: async_value("slow today"), "slow today"),
        (failing_check, "not working"),
        (lambda: sys.exit(1), "not working"),
    ],
    ids=["true", "none", "false", "zero", "empty", "word", "long", "awaitable", "raises", "exits"],
)
async def test_status_shows_the_result_of_a_health_check(check: Callable[[], object], word: str) -> None:
    assert await get_status(workflow_with_health("tutor", check)) == {
        "tutor": word,
        "database": "working",
        "version": VERSION,
    }


async def test_async_and_multi_part_health_checks_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def several() -> dict[str, object]:
        return {"anthropic": "not configured", "docs_index": True, "database": "mine", "version": "9"}

    async def broken() -> bool:
        raise RuntimeError("sk-ant-REDACTED")

    status = await get_status(
        workflow_with_health("b", several), workflow_with_health("c", broken), chat(talk, name="silent")
    )

    assert status == {
        "anthropic": "not configured",
        "docs_index": "working",
        "c": "not working",
        "database": "working",
        "version": VERSION,
    }
    assert "The health check of c failed: RuntimeError" in caplog.text


async def test_a_hanging_health_check_times_out_and_runs_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.1)
    release, on_main_thread = threading.Event(), []

    def hangs() -> bool:
        on_main_thread.append(threading.current_thread() is threading.main_thread())
        release.wait(20)
        return True

    server = app(workflow_with_health("tutor", hangs))
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        first, second = await asyncio.gather(http.get("/status"), http.get("/status"))
        third = await http.get("/status")
        release.set()
        async with asyncio.timeout(60):
            while (last := (await http.get("/status")).json())["tutor"] != "working":  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.01)
        again = (await http.get("/status")).json()
        await server.close()

    assert [answer.json()["tutor"] for answer in (first, second, third)] == ["not working"] * 3
    assert (last, again) == (again, last)
    assert on_main_thread == [False]  # Called once, off the event loop: the result is cached.


async def test_a_health_check_runs_again_when_its_cached_result_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STATUS_CACHE_S", 0.0)
    states = iter([True, False])
    server = app(workflow_with_health("tutor", lambda: next(states)))
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        reported = [(await http.get("/status")).json()["tutor"] for _ in range(2)]
        await server.close()

    assert reported == ["working", "not working"]


async def test_an_unreachable_database_is_reported_as_not_working(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise Overloaded("away")

    server = app(chat(talk))
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        before = await http.get("/status")
        with monkeypatch.context() as patch:
            patch.setattr(server.runtime.database, "read", fail)
            answer = await http.get("/status")
        await server.close()

    assert before.json() == {"database": "working", "version": VERSION}
    assert (answer.status_code, answer.json()) == (200, {"database": "not working", "version": VERSION})


async def test_status_requires_a_key_when_keys_exist() -> None:
    async with keyed_server() as backend:
        _, mine = await backend.create_key("invoke")

        assert (await backend.http.get("/status")).status_code == 401
        assert (await backend.http.get("/status", headers=mine)).json() == {"database": "working", "version": VERSION}
        assert (await backend.http.post("/status", headers=mine)).status_code == 405
