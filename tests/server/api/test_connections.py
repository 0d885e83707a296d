"""/api/connections: services are probed, stored, served and removed."""

import asyncio
import socket
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver import connect
from palaver.discovery.config import ConnectionSettings, declared_workflows
from palaver.discovery.registry import Registry
from palaver.discovery.workflow_loader import load
from palaver.errors import Overloaded
from palaver.frameworks import remote
from palaver.server import connection_sync
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage import connections as kept
from palaver.storage import runs
from palaver.storage.database import MEMORY_URL, open_database
from palaver.testing import echo, in_process_transport, scripted
from palaver.workflows.workflow import Workflow
from tests.discovery.test_connections import answer_by_path
from tests.frameworks.fake_servers import ReceivedRequest, fake_server, full_response, serve_workflows
from tests.server.keyed_server import KeyedServer, keyed_server

CHAT = full_response({"flags": {"is_chat": True}, "revision": {"name": "far-away", "data": {"parameters": {"t": 1}}}})


@pytest.fixture(scope="module")
def remote_url() -> Iterator[str]:
    """The URL of another server, which serves `scripted` and `echo`."""
    with serve_workflows(scripted, echo) as url:
        yield url


@pytest.fixture
async def backend() -> AsyncIterator[KeyedServer]:
    async with keyed_server(allow_private_urls=True) as keyed:
        yield keyed


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("path")


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# Creating


async def test_a_service_is_connected_and_served_from_then_on(backend: KeyedServer, remote_url: str) -> None:
    made = await backend.http.post(
        "/api/connections", json={"url": f"{remote_url}/scripted/invoke?key=x", "name": "far"}
    )
    shown = await backend.http.get("/api/workflows/far")
    response = await backend.http.post("/v1/responses", json={"model": "far", "input": "Hello there"})
    listed = (await backend.http.get("/api/connections")).json()

    assert (made.status_code, made.headers["location"]) == (201, "/api/workflows/far")
    assert made.json() == shown.json()
    assert made.headers["etag"] == shown.headers["etag"]
    body = made.json()
    assert (body["name"], body["origin"], body["state"], body["is_chat"]) == ("far", "connected", "ready", True)
    assert [(one["name"], one["head"]) for one in body["variants"]] == [("default", 1)]
    assert (body["evidence"]["evidence"], body["evidence"]["url"]) == ("inspect.flags", f"{remote_url}/scripted")
    assert body["routes"]["responses"] == "http://localhost/far/v1/responses"
    assert response.json()["output"][0]["content"][0]["text"] == "Hello there"
    assert listed == {
        "data": [
            {
                "name": "far",
                "url": f"{remote_url}/scripted/invoke",
                "fixed": False,
                "declared_in": None,
                "state": "ready",
                "message": None,
                "is_chat": True,
                "created_at": listed["data"][0]["created_at"],
                "checked_at": body["checked_at"],
            }
        ],
        "next": None,
    }


async def test_a_dry_run_stores_nothing(backend: KeyedServer, remote_url: str) -> None:
    tried = await backend.http.post(
        "/api/connections", json={"url": f"{remote_url}/scripted", "name": "far", "dry_run": True}
    )
    listed = (await backend.http.get("/api/connections")).json()["data"]

    assert (tried.status_code, tried.json()["name"], tried.json()["variants"]) == (200, "far", [])
    assert tried.json()["evidence"]["confidence"] == "declared"
    assert "location" not in tried.headers
    assert listed == []
    assert (await backend.http.get("/api/workflows/far")).status_code == 404


@pytest.mark.parametrize(
    ("path", "name"), [("/apps/tutor/invoke", "tutor"), ("/", "far-away"), ("/v1", "far-away"), ("/a%20b", None)]
)
async def test_a_name_comes_from_the_url_or_from_the_service(backend: KeyedServer, path: str, name: str | None) -> None:
    with fake_server(answer_by_path(inspect=CHAT)) as service:
        made = await backend.http.post("/api/connections", json={"url": f"{service.url}{path}"})

    if name is None:
        assert problem(made) == (422, "invalid_value", "/name")
    else:
        assert (made.status_code, made.json()["name"]) == (201, name)


async def test_options_in_the_request_override_what_was_discovered(backend: KeyedServer) -> None:
    with fake_server(answer_by_path(models=full_response({"data": [{"id": "a"}, {"id": "b"}]}))) as service:
        body = {"url": service.url, "name": "far", "model": "b", "is_chat": True, "dialect": "responses"}
        made = await backend.http.post("/api/connections", json={**body, "timeout_seconds": 3})
        stored = await backend.database.read(kept.get_connection, "default", "far")

    assert made.status_code == 201
    assert (made.json()["evidence"]["dialect"], made.json()["is_chat_source"]) == ("responses", "declared")
    assert stored is not None
    assert stored.options == kept.ConnectionOptions(is_chat=True, dialect="responses", model="b", timeout_seconds=3)


@pytest.mark.parametrize(
    ("more", "expected_error"),
    [
        ({"url": 3}, (400, "invalid_type", "/url")),
        ({"url": ""}, (422, "invalid_value", "/url")),
        ({"url": "http://a.example/" + "x" * 2_000}, (422, "invalid_value", "/url")),
        ({"name": "../x"}, (422, "invalid_value", "/name")),
        ({"name": "x" * 65}, (422, "invalid_value", "/name")),
        ({"name": "echo"}, (409, "name_taken", "/name")),
        ({"dialect": "soap"}, (422, "invalid_value", "/dialect")),
        ({"model": ""}, (422, "invalid_value", "/model")),
        ({"timeout_seconds": 0}, (422, "invalid_value", "/timeout_seconds")),
        ({"timeout_seconds": 601}, (422, "invalid_value", "/timeout_seconds")),
        ({"dry_run": "yes"}, (400, "invalid_type", "/dry_run")),
    ],
)
async def test_an_invalid_request_is_rejected_before_the_service_is_probed(
    backend: KeyedServer, more: dict[str, Any], expected_error: tuple[int, str, str]
) -> None:
    with fake_server(answer_by_path(inspect=CHAT)) as service:
        answer = await backend.http.post("/api/connections", json={"url": f"{service.url}/far", **more})

    assert problem(answer) == expected_error
    assert service.requests == []


async def test_a_body_without_a_url_is_rejected(backend: KeyedServer) -> None:
    assert problem(await backend.http.post("/api/connections", json={})) == (400, "invalid_body", "/url")


async def test_headers_and_keys_in_the_body_are_neither_sent_nor_stored(backend: KeyedServer, remote_url: str) -> None:
    with fake_server(answer_by_path(inspect=CHAT)) as service:
        body = {"url": f"{service.url}/far", "headers": {"authorization": "hunter2"}, "key": "hunter2"}
        made = await backend.http.post("/api/connections", json=body)
        row = await backend.database.read(kept.get_connection, "default", "far")

    assert made.status_code == 201
    assert "hunter2" not in f"{service.requests} {made.text} {row}"


async def test_an_unrecognised_service_is_rejected_with_the_requests_that_were_tried(backend: KeyedServer) -> None:
    with fake_server(answer_by_path()) as service:
        answer = await backend.http.post("/api/connections", json={"url": f"{service.url}/far"})

    assert problem(answer) == (422, "not_discovered", None)
    tried = answer.json()["error"]["details"]["tried"]
    assert [(one["request"], one["status"], one["found"]) for one in tried] == [
        ("POST /inspect", 404, "not found"),
        ("GET /inspect", 404, "not found"),
        ("GET /openapi.json", 404, "not found"),
        ("GET /agent/info", 404, "not found"),
        ("GET /v1/models", 404, "not found"),
    ]


async def test_an_unreachable_service_is_rejected_unless_its_dialect_is_declared(backend: KeyedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/far"
    undeclared = await backend.http.post("/api/connections", json={"url": url})
    declared = await backend.http.post("/api/connections", json={"url": url, "dialect": "invoke", "is_chat": True})

    assert problem(undeclared) == (422, "not_discovered", None)
    assert (declared.status_code, declared.json()["is_chat"]) == (201, True)


async def test_a_service_with_several_models_is_rejected_with_their_names(backend: KeyedServer) -> None:
    with fake_server(answer_by_path(models=full_response({"data": [{"id": "a"}, {"id": "b"}]}))) as service:
        answer = await backend.http.post("/api/connections", json={"url": service.url, "name": "far"})

    assert problem(answer) == (422, "not_discovered", None)
    assert answer.json()["error"]["details"]["models"] == ["a", "b"]
    assert answer.json()["error"]["details"]["tried"][-1]["step"] == "openai.models"


async def test_a_service_that_needs_credentials_is_rejected_with_the_settings_to_add(backend: KeyedServer) -> None:
    with fake_server(answer_by_path(inspect=full_response({}, status="401 Who"))) as service:
        answer = await backend.http.post("/api/connections", json={"url": f"{service.url}/tutor/?key=x"})

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "discovery_refused")
    assert error["details"]["tried"][0]["found"] == "requires credentials"
    assert tomllib.loads(error["details"]["settings"]) == {
        "connections": {"tutor": {"url": f"{service.url}/tutor/", "headers": {"authorization": "env:TUTOR_KEY"}}}
    }


async def test_a_name_that_is_taken_is_rejected_with_409(backend: KeyedServer, remote_url: str) -> None:
    body = {"url": f"{remote_url}/scripted", "name": "far"}
    answers = [await backend.http.post("/api/connections", json=body) for _ in range(2)]
    both = await asyncio.gather(
        *(backend.http.post("/api/connections", json={**body, "name": "other"}) for _ in range(3))
    )

    assert [answer.status_code for answer in answers] == [201, 409]
    assert problem(answers[1]) == (409, "name_taken", "/name")
    assert sorted(answer.status_code for answer in both) == [201, 409, 409]


async def test_the_number_of_connections_is_limited(
    backend: KeyedServer, remote_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_CONNECTIONS", 1)
    names = ("one", "two")
    answers = [
        await backend.http.post("/api/connections", json={"url": f"{remote_url}/echo", "name": one}) for one in names
    ]

    assert [answer.status_code for answer in answers] == [201, 413]


async def test_a_repeated_idempotent_request_is_replayed_without_probing_again(backend: KeyedServer) -> None:
    with fake_server(answer_by_path(inspect=CHAT)) as service:
        url, headers = f"{service.url}/far", {"idempotency-key": "k-1"}
        first = await backend.http.post("/api/connections", json={"url": url}, headers=headers)
        request_count = len(service.requests)
        again = await backend.http.post("/api/connections", json={"url": url}, headers=headers)
        other = await backend.http.post("/api/connections", json={"url": url, "name": "x"}, headers=headers)
        bad = await backend.http.post("/api/connections", json={"url": url}, headers={"idempotency-key": "a b"})

    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert (again.headers["idempotency-replayed"], again.headers["location"]) == ("true", "/api/workflows/far")
    assert problem(other)[:2] == (409, "idempotency_mismatch")
    assert bad.status_code == 400
    assert len(service.requests) == request_count


# Removing


async def test_a_removed_connection_is_no_longer_served_but_its_threads_remain(
    backend: KeyedServer, remote_url: str
) -> None:
    (
        await backend.http.post("/api/connections", json={"url": f"{remote_url}/scripted", "name": "far"})
    ).raise_for_status()
    thread = (await backend.http.post("/api/threads", json={"workflow": "far"})).json()["id"]
    turn = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "Hello"}]}]}
    first = await backend.http.post(f"/api/threads/{thread}/turns", json=turn)
    run = first.json()["run"]["id"]

    async def is_over() -> bool:
        return (await backend.http.get(f"/api/runs/{run}")).json()["status"] == "finished"

    await wait_until(is_over)
    deleted = await backend.http.delete("/api/connections/far")
    stored_thread = await backend.http.get(f"/api/threads/{thread}")
    messages = (await backend.http.get(f"/api/threads/{thread}/messages")).json()["data"]
    refused = await backend.http.post(f"/api/threads/{thread}/turns", json=turn)
    call = await backend.http.post("/far/invoke", json={"messages": []})
    again = await backend.http.delete("/api/connections/far")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (stored_thread.status_code, stored_thread.json()["workflow"]) == (200, "far")
    assert [node["role"] for node in messages] == ["user", "assistant"]
    assert problem(refused)[:2] == (404, "workflow_not_found")
    assert call.status_code == 404
    assert problem(again)[:2] == (404, "not_found")
    assert (await backend.http.get("/api/connections")).json()["data"] == []


async def test_after_removal_the_running_run_completes_and_the_queued_one_fails(
    backend: KeyedServer, remote_url: str
) -> None:
    (
        await backend.http.post("/api/connections", json={"url": f"{remote_url}/scripted", "name": "far"})
    ).raise_for_status()
    body = {"model": "far", "input": '[{"text": "begin "}, {"sleep": 0.5}, {"text": "end"}]', "stream": True}
    async with backend.http.stream("POST", "/v1/responses", json=body) as stream:
        lines = stream.aiter_lines()
        async for line in lines:
            if "begin" in line:
                break
        backend.server.runtime.run_queue._max_runs = 0
        queued = await backend.http.post("/v1/responses", json={"model": "far", "input": "x", "background": True})
        deleted = await backend.http.delete("/api/connections/far")
        output = "\n".join([line async for line in lines])

    row = await backend.database.read(runs.get_run, "default", "run_" + queued.json()["id"].removeprefix("resp_"))
    assert deleted.status_code == 204
    assert "response.completed" in output
    assert "begin end" in output
    assert row is not None
    assert (row.status, (row.error or {})["code"]) == ("failed", "workflow_not_found")


async def test_the_name_of_a_removed_connection_can_be_reused(backend: KeyedServer, remote_url: str) -> None:
    body = {"name": "far", "url": f"{remote_url}/scripted"}
    (await backend.http.post("/api/connections", json=body)).raise_for_status()
    (await backend.http.delete("/api/connections/far")).raise_for_status()
    again = await backend.http.post("/api/connections", json={**body, "url": f"{remote_url}/echo"})

    assert (again.status_code, again.json()["is_chat"]) == (201, False)


# Declared in code or settings


async def test_connections_from_code_and_settings_are_listed_and_cannot_be_removed(remote_url: str) -> None:
    with_settings = Settings(connections={"tutor": ConnectionSettings(url=f"{remote_url}/scripted")})
    by_code = connect(f"{remote_url}/echo", name="coded")
    registry = Registry([echo, by_code], connections=declared_workflows(with_settings.connections, {}))
    server = Server(registry, with_settings)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:

        async def is_known() -> bool:
            rows = (await http.get("/api/connections")).json()["data"]
            return all(row["state"] == "ready" for row in rows)

        await wait_until(is_known)
        rows = (await http.get("/api/connections")).json()["data"]
        pages = [(await http.get("/api/connections", params={"limit": 1})).json()]
        pages.append((await http.get("/api/connections", params={"limit": 1, "after": pages[0]["next"]})).json())
        answers = [await http.delete(f"/api/connections/{name}") for name in ("coded", "tutor", "echo")]
        response = await http.post("/tutor/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})
    await server.close()

    assert [(row["name"], row["fixed"], row["declared_in"], row["created_at"]) for row in rows] == [
        ("coded", True, "code", None),
        ("tutor", True, "settings", None),
    ]
    assert [[row["name"] for row in page["data"]] for page in pages] == [["coded"], ["tutor"]]
    assert [problem(answer)[:2] for answer in answers] == [
        (405, "method_not_allowed"),
        (405, "method_not_allowed"),
        (404, "not_found"),
    ]
    assert "declared in code. Remove it there." in answers[0].json()["error"]["message"]
    assert "declared in [connections.tutor] in palaver.toml. Remove it" in answers[1].json()["error"]["message"]
    assert response.json() == {"role": "assistant", "content": "Hi"}


# Authorization


async def test_only_default_project_admins_change_connections_and_every_project_lists_them(
    backend: KeyedServer, remote_url: str
) -> None:
    _, admin = await backend.create_key()
    _, reader = await backend.create_key("read", "invoke")
    _, elsewhere = await backend.create_key(project="team-a")
    body = {"url": f"{remote_url}/scripted", "name": "far"}

    refused = [
        await backend.http.post("/api/connections", json=body, headers=headers) for headers in ({}, reader, elsewhere)
    ]
    made = await backend.http.post("/api/connections", json=body, headers=admin)
    refused += [await backend.http.delete("/api/connections/far", headers=headers) for headers in (reader, elsewhere)]
    listed = [(await backend.http.get("/api/connections", headers=one)).json()["data"] for one in (reader, elsewhere)]
    called = await backend.http.post("/v1/responses", json={"model": "far", "input": "Hello"}, headers=elsewhere)
    deleted = await backend.http.delete("/api/connections/far", headers=admin)

    assert [problem(answer)[:2] for answer in refused] == [
        (401, "unauthorized"),
        (403, "missing_scope"),
        (403, "missing_scope"),
        (403, "missing_scope"),
        (403, "missing_scope"),
    ]
    assert (
        refused[2].json()["error"]["message"]
        == "This request needs an API key of the project 'default' with the scope 'admin'."
    )
    assert (made.status_code, deleted.status_code) == (201, 204)
    assert [[row["name"] for row in rows] for rows in listed] == [["far"], ["far"]]
    assert called.json()["status"] == "completed"


# Stored, and synchronised between processes


async def start_server(url: str, *workflows: Workflow, **settings: Any) -> Server:
    server = Server(
        Registry(workflows or [echo]), Settings(allow_private_urls=True, **settings), database=open_database(url)
    )
    await server.runtime.start()
    return server


def client(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost", timeout=30)


async def test_after_a_restart_a_connection_is_restored_and_probed_again(tmp_path: Path) -> None:
    url = str(tmp_path / "palaver.db")
    answers = {"inspect": CHAT}
    with fake_server(answer_by_path(**answers)) as service:
        server = await start_server(url)
        async with client(server) as http:
            made = (await http.post("/api/connections", json={"url": f"{service.url}/far"})).json()
        await server.close()
        service.requests.clear()
        server = await start_server(url)
        async with client(server) as http:
            restored = (await http.get("/api/workflows/far")).json()
            default = server.registry.default

            async def is_probed() -> bool:
                return bool(service.requests)

            await wait_until(is_probed)
        await server.close()

    assert default == "echo"  # It was the default workflow before, and still is.
    changing = ("checked_at", "state")
    assert {name: restored[name] for name in restored if name not in changing} == {
        name: made[name] for name in made if name not in changing
    }


async def test_a_service_that_is_unreachable_at_startup_is_described_from_the_database(tmp_path: Path) -> None:
    url = str(tmp_path / "palaver.db")
    with fake_server(answer_by_path(inspect=CHAT)) as service:
        server = await start_server(url)
        async with client(server) as http:
            (await http.post("/api/connections", json={"url": f"{service.url}/far"})).raise_for_status()
        await server.close()
    server = await start_server(url)
    async with client(server) as http:

        async def is_noticed() -> bool:
            return (await http.get("/api/connections")).json()["data"][0]["state"] == "unreachable"

        await wait_until(is_noticed)
        workflow = (await http.get("/api/workflows/far")).json()
    await server.close()

    assert (workflow["is_chat"], workflow["state"], workflow["parameters"]) == (True, "unreachable", {"t": 1})


async def test_a_connection_whose_name_code_took_later_is_listed_as_failed(tmp_path: Path, remote_url: str) -> None:
    url = str(tmp_path / "palaver.db")
    server = await start_server(url)
    async with client(server) as http:
        (await http.post("/api/connections", json={"url": f"{remote_url}/echo", "name": "scripted"})).raise_for_status()
    await server.close()

    server = await start_server(url, echo, scripted)
    async with client(server) as http:
        [listed] = (await http.get("/api/connections")).json()["data"]
        origin = (await http.get("/api/workflows/scripted")).json()["origin"]
        deleted = await http.delete("/api/connections/scripted")
        status_after = (await http.get("/api/workflows/scripted")).status_code
    await server.close()

    assert (listed["name"], listed["state"]) == ("scripted", "failed")
    assert listed["message"].startswith("A workflow with this name is declared in code or settings.")
    assert (origin, deleted.status_code, status_after) == ("served", 204, 200)


async def test_a_connection_with_unreadable_stored_evidence_is_probed_again(tmp_path: Path, remote_url: str) -> None:
    url = str(tmp_path / "palaver.db")
    database = open_database(url)
    now = kept.datetime.fromisoformat("2026-11-15T12:00:00+00:00")
    for name, evidence in (("one", {"of": "another version"}), ("two", None)):
        added = kept.StoredConnection(name=name, url=f"{remote_url}/scripted", created_at=now, evidence=evidence)
        await database.write(kept.insert_connection, "default", added)
    await database.close()

    server = await start_server(url)
    async with client(server) as http:
        response = await http.post("/one/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})

        async def is_stored() -> bool:
            rows = await server.runtime.database.read(kept.list_connections, "default")
            return all((row.evidence or {}).get("dialect") == "invoke" for row in rows)

        await wait_until(is_stored)
    await server.close()

    assert response.status_code == 200


async def test_what_a_refresh_discovers_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "REFRESH_INTERVAL_S", 0)
    url = str(tmp_path / "palaver.db")
    answers = {"inspect": CHAT}

    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        answer_by_path(**answers)(connection, request)  # With the current answers.

    with fake_server(answer) as service:
        server = await start_server(url)
        async with client(server) as http:
            (await http.post("/api/connections", json={"url": f"{service.url}/far"})).raise_for_status()
            answers["inspect"] = full_response({"flags": {"is_chat": False}})
            refreshed = (await http.post("/api/workflows/far/refresh")).json()
            answers.clear()
            silent = (await http.post("/api/workflows/far/refresh")).json()
            row = await server.runtime.database.read(kept.get_connection, "default", "far")
        await server.close()

    assert (refreshed["is_chat"], refreshed["state"]) == (False, "ready")
    assert (silent["is_chat"], silent["state"]) == (False, "unavailable")
    assert row is not None
    assert row.evidence["description"]["flags"] == {"is_chat": False}


async def test_a_service_that_was_not_recognised_is_discovered_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "REFRESH_INTERVAL_S", 0)
    monkeypatch.setattr(connection_sync, "RETRY_INTERVAL_S", 0.01)
    answers: dict[str, Any] = {}

    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        answer_by_path(**answers)(connection, request)  # With the current answers.

    with fake_server(answer) as service:
        target = tmp_path / "far_app.py"
        target.write_text(
            f"from palaver import connect\nfar = connect('{service.url}', name='far')\n", encoding="utf-8"
        )
        (far,) = load([str(target)])
        server = Server(Registry([far]))
        async with client(server) as http:

            async def state() -> tuple[str, str | None]:
                shown = (await http.get("/api/workflows/far")).json()
                return shown["state"], shown["problem"]

            before = await state()
            answers["inspect"] = CHAT

            async def is_ready() -> bool:
                return await state() == ("ready", None)

            await wait_until(is_ready)
        await server.close()

    assert before[0] == "unavailable"
    assert before[1] is not None
    assert before[1].startswith(f"{service.url} could not be identified. Tried: POST /inspect: not found;")


@pytest.mark.parametrize("kind", ["told", "looking"])
async def test_every_process_adds_updates_and_removes_a_connection(
    postgres_url: str, remote_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_sync, "SLOW_POLL_INTERVAL_S", 600 if kind == "told" else 0.1)
    monkeypatch.setattr(connection_sync, "POLL_INTERVAL_S", 600 if kind == "told" else 0.1)
    monkeypatch.setattr(remote, "REFRESH_INTERVAL_S", 0)
    first_server, second_server = await start_server(postgres_url), await start_server(postgres_url)
    if kind == "looking":
        monkeypatch.setattr(second_server.runtime.connection_sync, "wake", lambda: None)
    async with client(first_server) as http:
        (await http.post("/api/connections", json={"url": f"{remote_url}/scripted", "name": "far"})).raise_for_status()

        async def is_there() -> bool:
            return "far" in second_server.registry

        await wait_until(is_there)
        first = second_server.registry.workflow("far")
        refreshed = (await http.post("/api/workflows/far/refresh")).json()["checked_at"]

        async def is_updated() -> bool:
            (one,) = second_server.runtime.connection_sync.list_synced()
            return connection_sync.msgspec.to_builtins(one.version.checked_at)[:23] == refreshed[:23]

        await wait_until(is_updated)
        same = second_server.registry.workflow("far") is first
        (await http.delete("/api/connections/far")).raise_for_status()
        (await http.post("/api/connections", json={"url": f"{remote_url}/echo", "name": "far"})).raise_for_status()

        async def is_replaced() -> bool:
            return "far" in second_server.registry and not second_server.registry.find("far").is_chat

        await wait_until(is_replaced)
        (await http.delete("/api/connections/far")).raise_for_status()

        async def is_removed() -> bool:
            return "far" not in second_server.registry

        await wait_until(is_removed)
    for server in (first_server, second_server):
        await server.close()

    assert same


async def test_a_failed_read_of_the_connections_table_is_retried(
    remote_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_sync, "POLL_INTERVAL_S", 0.05)
    raised: list[Exception] = [Overloaded("away"), ZeroDivisionError("a mistake of ours")]
    list_versions = kept.list_connection_versions

    def failing(*args: Any) -> Any:
        if raised:
            raise raised.pop(0)
        return list_versions(*args)

    server = await start_server(MEMORY_URL)
    monkeypatch.setattr(kept, "list_connection_versions", failing)
    async with client(server) as http:

        async def is_over() -> bool:
            return not raised

        await wait_until(is_over)
        made = await http.post("/api/connections", json={"url": f"{remote_url}/scripted", "name": "far"})
    await server.close()

    assert made.status_code == 201
    assert "Failed to update connections" in caplog.text
