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
from tests.discovery.test_connections import table
from tests.frameworks.fake_servers import ReceivedRequest, fake_server, full_response, serve_workflows
from tests.server.keyed_server import KeyedServer, keyed_server

CHAT = full_response({"flags": {"is_chat": True}, "revision": {"name": "far-away", "data": {"parameters": {"t": 1}}}})


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    """A server elsewhere, of `scripted` and `echo`."""
    with serve_workflows(scripted, echo) as url:
        yield url


@pytest.fixture
async def house() -> AsyncIterator[KeyedServer]:
    async with keyed_server(allow_private_urls=True) as made:
        yield made


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("path")


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# Adding


async def test_a_service_is_connected_and_served_from_then_on(house: KeyedServer, far: str) -> None:
    made = await house.http.post("/api/connections", json={"url": f"{far}/scripted/invoke?key=x", "name": "far"})
    shown = await house.http.get("/api/workflows/far")
    said = await house.http.post("/v1/responses", json={"model": "far", "input": "Hello there"})
    listed = (await house.http.get("/api/connections")).json()

    assert (made.status_code, made.headers["location"]) == (201, "/api/workflows/far")
    assert made.json() == shown.json()
    assert made.headers["etag"] == shown.headers["etag"]
    body = made.json()
    assert (body["name"], body["origin"], body["state"], body["is_chat"]) == ("far", "connected", "ready", True)
    assert [(one["name"], one["head"]) for one in body["variants"]] == [("default", 1)]
    assert (body["evidence"]["evidence"], body["evidence"]["url"]) == ("inspect.flags", f"{far}/scripted")
    assert body["routes"]["responses"] == "http://localhost/far/v1/responses"
    assert said.json()["output"][0]["content"][0]["text"] == "Hello there"
    assert listed == {
        "data": [
            {
                "name": "far",
                "url": f"{far}/scripted/invoke",
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


async def test_a_dry_run_keeps_nothing(house: KeyedServer, far: str) -> None:
    tried = await house.http.post("/api/connections", json={"url": f"{far}/scripted", "name": "far", "dry_run": True})
    listed = (await house.http.get("/api/connections")).json()["data"]

    assert (tried.status_code, tried.json()["name"], tried.json()["variants"]) == (200, "far", [])
    assert tried.json()["evidence"]["confidence"] == "declared"
    assert "location" not in tried.headers
    assert listed == []
    assert (await house.http.get("/api/workflows/far")).status_code == 404


@pytest.mark.parametrize(
    ("path", "name"), [("/apps/tutor/invoke", "tutor"), ("/", "far-away"), ("/v1", "far-away"), ("/a%20b", None)]
)
async def test_a_name_comes_from_the_url_or_from_the_service(house: KeyedServer, path: str, name: str | None) -> None:
    with fake_server(table(inspect=CHAT)) as there:
        made = await house.http.post("/api/connections", json={"url": f"{there.url}{path}"})

    if name is None:
        assert problem(made) == (422, "invalid_value", "/name")
    else:
        assert (made.status_code, made.json()["name"]) == (201, name)


async def test_what_the_caller_says_goes_over_what_was_found(house: KeyedServer) -> None:
    with fake_server(table(models=full_response({"data": [{"id": "a"}, {"id": "b"}]}))) as there:
        body = {"url": there.url, "name": "far", "model": "b", "is_chat": True, "dialect": "responses"}
        made = await house.http.post("/api/connections", json={**body, "timeout_seconds": 3})
        listed = await house.database.read(kept.get_connection, "default", "far")

    assert made.status_code == 201
    assert (made.json()["evidence"]["dialect"], made.json()["is_chat_source"]) == ("responses", "declared")
    assert listed is not None
    assert listed.options == kept.ConnectionOptions(is_chat=True, dialect="responses", model="b", timeout_seconds=3)


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"url": 3}, (400, "invalid_type", "/url")),
        ({"url": ""}, (422, "invalid_value", "/url")),
        ({"url": "http://a.example/" + "x" * 2_000}, (422, "invalid_value", "/url")),
        ({"name": "inspect"}, (422, "invalid_value", "/name")),
        ({"name": "workflows"}, (422, "invalid_value", "/name")),
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
async def test_what_makes_no_sense_is_refused_before_anybody_is_asked(
    house: KeyedServer, more: dict[str, Any], wanted: tuple[int, str, str]
) -> None:
    with fake_server(table(inspect=CHAT)) as there:
        answer = await house.http.post("/api/connections", json={"url": f"{there.url}/far", **more})

    assert problem(answer) == wanted
    assert there.requests == []


async def test_a_body_without_a_url_is_none(house: KeyedServer) -> None:
    assert problem(await house.http.post("/api/connections", json={})) == (400, "invalid_body", "/url")


async def test_headers_are_no_field_and_no_secret_is_sent_or_kept(house: KeyedServer, far: str) -> None:
    with fake_server(table(inspect=CHAT)) as there:
        body = {"url": f"{there.url}/far", "headers": {"authorization": "hunter2"}, "key": "hunter2"}
        made = await house.http.post("/api/connections", json=body)
        row = await house.database.read(kept.get_connection, "default", "far")

    assert made.status_code == 201
    assert "hunter2" not in f"{there.requests} {made.text} {row}"


async def test_what_does_not_say_what_it_is_is_refused_with_what_was_tried(house: KeyedServer) -> None:
    with fake_server(table()) as there:
        answer = await house.http.post("/api/connections", json={"url": f"{there.url}/far"})

    assert problem(answer) == (422, "not_discovered", None)
    tried = answer.json()["error"]["details"]["tried"]
    assert [(one["request"], one["status"], one["found"]) for one in tried] == [
        ("POST /inspect", 404, "not there"),
        ("GET /inspect", 404, "not there"),
        ("GET /openapi.json", 404, "not there"),
        ("GET /agent/info", 404, "not there"),
        ("GET /v1/models", 404, "not there"),
    ]


async def test_who_is_away_is_not_connected_unless_the_caller_knows_what_it_is(house: KeyedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/far"
    away = await house.http.post("/api/connections", json={"url": url})
    known = await house.http.post("/api/connections", json={"url": url, "dialect": "invoke", "is_chat": True})

    assert problem(away) == (422, "not_discovered", None)
    assert (known.status_code, known.json()["is_chat"]) == (201, True)


async def test_several_models_are_listed(house: KeyedServer) -> None:
    with fake_server(table(models=full_response({"data": [{"id": "a"}, {"id": "b"}]}))) as there:
        answer = await house.http.post("/api/connections", json={"url": there.url, "name": "far"})

    assert problem(answer) == (422, "not_discovered", None)
    assert answer.json()["error"]["details"]["models"] == ["a", "b"]
    assert answer.json()["error"]["details"]["tried"][-1]["step"] == "openai.models"


async def test_who_wants_credentials_is_declared_by_lines_that_are_shown(house: KeyedServer) -> None:
    with fake_server(table(inspect=full_response({}, status="401 Who"))) as there:
        answer = await house.http.post("/api/connections", json={"url": f"{there.url}/tutor/?key=x"})

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "discovery_refused")
    assert error["details"]["tried"][0]["found"] == "wants credentials"
    assert tomllib.loads(error["details"]["settings"]) == {
        "connections": {"tutor": {"url": f"{there.url}/tutor/", "headers": {"authorization": "env:TUTOR_KEY"}}}
    }


async def test_a_name_is_taken_once(house: KeyedServer, far: str) -> None:
    body = {"url": f"{far}/scripted", "name": "far"}
    answers = [await house.http.post("/api/connections", json=body) for _ in range(2)]
    both = await asyncio.gather(
        *(house.http.post("/api/connections", json={**body, "name": "other"}) for _ in range(3))
    )

    assert [answer.status_code for answer in answers] == [201, 409]
    assert problem(answers[1]) == (409, "name_taken", "/name")
    assert sorted(answer.status_code for answer in both) == [201, 409, 409]


async def test_there_is_room_for_so_many(house: KeyedServer, far: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_CONNECTIONS", 1)
    names = ("one", "two")
    answers = [await house.http.post("/api/connections", json={"url": f"{far}/echo", "name": one}) for one in names]

    assert [answer.status_code for answer in answers] == [201, 413]


async def test_the_same_post_again_asks_nobody_and_answers_the_same(house: KeyedServer) -> None:
    with fake_server(table(inspect=CHAT)) as there:
        url, headers = f"{there.url}/far", {"idempotency-key": "k-1"}
        first = await house.http.post("/api/connections", json={"url": url}, headers=headers)
        asked = len(there.requests)
        again = await house.http.post("/api/connections", json={"url": url}, headers=headers)
        other = await house.http.post("/api/connections", json={"url": url, "name": "x"}, headers=headers)
        bad = await house.http.post("/api/connections", json={"url": url}, headers={"idempotency-key": "a b"})

    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert (again.headers["idempotency-replayed"], again.headers["location"]) == ("true", "/api/workflows/far")
    assert problem(other)[:2] == (409, "idempotency_mismatch")
    assert bad.status_code == 400
    assert len(there.requests) == asked


# Letting go


async def test_one_that_is_removed_is_served_no_longer_and_what_was_said_stays(house: KeyedServer, far: str) -> None:
    (await house.http.post("/api/connections", json={"url": f"{far}/scripted", "name": "far"})).raise_for_status()
    thread = (await house.http.post("/api/threads", json={"workflow": "far"})).json()["id"]
    turn = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "Hello"}]}]}
    first = await house.http.post(f"/api/threads/{thread}/turns", json=turn)
    run = first.json()["run"]["id"]

    async def is_over() -> bool:
        return (await house.http.get(f"/api/runs/{run}")).json()["status"] == "finished"

    await until(is_over)
    gone = await house.http.delete("/api/connections/far")
    kept_thread = await house.http.get(f"/api/threads/{thread}")
    messages = (await house.http.get(f"/api/threads/{thread}/messages")).json()["data"]
    refused = await house.http.post(f"/api/threads/{thread}/turns", json=turn)
    call = await house.http.post("/far/invoke", json={"messages": []})
    again = await house.http.delete("/api/connections/far")

    assert (gone.status_code, gone.content) == (204, b"")
    assert (kept_thread.status_code, kept_thread.json()["workflow"]) == (200, "far")
    assert [node["role"] for node in messages] == ["user", "assistant"]
    assert problem(refused)[:2] == (404, "workflow_not_found")
    assert call.status_code == 404
    assert problem(again)[:2] == (404, "not_found")
    assert (await house.http.get("/api/connections")).json()["data"] == []


async def test_a_run_that_goes_on_ends_and_one_that_waits_is_refused(house: KeyedServer, far: str) -> None:
    (await house.http.post("/api/connections", json={"url": f"{far}/scripted", "name": "far"})).raise_for_status()
    body = {"model": "far", "input": '[{"text": "begin "}, {"sleep": 0.5}, {"text": "end"}]', "stream": True}
    async with house.http.stream("POST", "/v1/responses", json=body) as going:
        lines = going.aiter_lines()
        async for line in lines:
            if "begin" in line:
                break
        house.server.runtime.run_queue._max_runs = 0
        later = await house.http.post("/v1/responses", json={"model": "far", "input": "x", "background": True})
        gone = await house.http.delete("/api/connections/far")
        said = "\n".join([line async for line in lines])

    row = await house.database.read(runs.get_run, "default", "run_" + later.json()["id"].removeprefix("resp_"))
    assert gone.status_code == 204
    assert "response.completed" in said
    assert "begin end" in said
    assert row is not None
    assert (row.status, (row.error or {})["code"]) == ("failed", "workflow_not_found")


async def test_a_name_is_free_again(house: KeyedServer, far: str) -> None:
    body = {"name": "far", "url": f"{far}/scripted"}
    (await house.http.post("/api/connections", json=body)).raise_for_status()
    (await house.http.delete("/api/connections/far")).raise_for_status()
    again = await house.http.post("/api/connections", json={**body, "url": f"{far}/echo"})

    assert (again.status_code, again.json()["is_chat"]) == (201, False)


# Declared elsewhere


async def test_what_code_and_settings_connect_is_listed_and_stays(far: str) -> None:
    with_settings = Settings(connections={"tutor": ConnectionSettings(url=f"{far}/scripted")})
    by_code = connect(f"{far}/echo", name="coded")
    registry = Registry([echo, by_code], connections=declared_workflows(with_settings.connections, {}))
    server = Server(registry, with_settings)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:

        async def is_known() -> bool:
            rows = (await http.get("/api/connections")).json()["data"]
            return all(row["state"] == "ready" for row in rows)

        await until(is_known)
        rows = (await http.get("/api/connections")).json()["data"]
        pages = [(await http.get("/api/connections", params={"limit": 1})).json()]
        pages.append((await http.get("/api/connections", params={"limit": 1, "after": pages[0]["next"]})).json())
        answers = [await http.delete(f"/api/connections/{name}") for name in ("coded", "tutor", "echo")]
        said = await http.post("/tutor/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})
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
    assert "declared in the code that is served here: remove it there." in answers[0].json()["error"]["message"]
    assert "declared in [connections.tutor] of palaver.toml: remove it" in answers[1].json()["error"]["message"]
    assert said.json() == {"role": "assistant", "content": "Hi"}


# Who may


async def test_only_admins_of_the_house_change_them_and_everybody_sees_them(house: KeyedServer, far: str) -> None:
    _, admin = await house.create_key()
    _, reader = await house.create_key("read", "invoke")
    _, elsewhere = await house.create_key(project="team-a")
    body = {"url": f"{far}/scripted", "name": "far"}

    refused = [
        await house.http.post("/api/connections", json=body, headers=headers) for headers in ({}, reader, elsewhere)
    ]
    made = await house.http.post("/api/connections", json=body, headers=admin)
    refused += [await house.http.delete("/api/connections/far", headers=headers) for headers in (reader, elsewhere)]
    seen = [(await house.http.get("/api/connections", headers=one)).json()["data"] for one in (reader, elsewhere)]
    called = await house.http.post("/v1/responses", json={"model": "far", "input": "Hello"}, headers=elsewhere)
    gone = await house.http.delete("/api/connections/far", headers=admin)

    assert [problem(answer)[:2] for answer in refused] == [
        (401, "unauthorized"),
        (403, "missing_scope"),
        (403, "missing_scope"),
        (403, "missing_scope"),
        (403, "missing_scope"),
    ]
    assert refused[2].json()["error"]["message"] == "This needs an admin of the project default."
    assert (made.status_code, gone.status_code) == (201, 204)
    assert [[row["name"] for row in rows] for rows in seen] == [["far"], ["far"]]
    assert called.json()["status"] == "completed"


# Kept, and seen by others


async def served(url: str, *workflows: Workflow, **settings: Any) -> Server:
    server = Server(
        Registry(workflows or [echo]), Settings(allow_private_urls=True, **settings), database=open_database(url)
    )
    await server.runtime.start()
    return server


def client(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost", timeout=30)


async def test_after_a_restart_it_is_served_as_it_was_known_and_asked_again(tmp_path: Path) -> None:
    url = str(tmp_path / "palaver.db")
    answers = {"inspect": CHAT}
    with fake_server(table(**answers)) as there:
        server = await served(url)
        async with client(server) as http:
            made = (await http.post("/api/connections", json={"url": f"{there.url}/far"})).json()
        await server.close()
        there.requests.clear()
        server = await served(url)
        async with client(server) as http:
            found = (await http.get("/api/workflows/far")).json()
            default = server.registry.default

            async def is_asked() -> bool:
                return bool(there.requests)

            await until(is_asked)
        await server.close()

    assert default == "echo"  # It answered at the root before, and does so still.
    changing = ("checked_at", "state")
    assert {name: found[name] for name in found if name not in changing} == {
        name: made[name] for name in made if name not in changing
    }


async def test_one_that_is_away_at_the_start_is_known_all_the_same(tmp_path: Path) -> None:
    url = str(tmp_path / "palaver.db")
    with fake_server(table(inspect=CHAT)) as there:
        server = await served(url)
        async with client(server) as http:
            (await http.post("/api/connections", json={"url": f"{there.url}/far"})).raise_for_status()
        await server.close()
    server = await served(url)
    async with client(server) as http:

        async def is_noticed() -> bool:
            return (await http.get("/api/connections")).json()["data"][0]["state"] == "unreachable"

        await until(is_noticed)
        found = (await http.get("/api/workflows/far")).json()
    await server.close()

    assert (found["is_chat"], found["state"], found["parameters"]) == (True, "unreachable", {"t": 1})


async def test_code_that_takes_the_name_later_wins_and_the_list_says_so(tmp_path: Path, far: str) -> None:
    url = str(tmp_path / "palaver.db")
    server = await served(url)
    async with client(server) as http:
        for name in ("scripted", "status_page"):
            (await http.post("/api/connections", json={"url": f"{far}/echo", "name": name})).raise_for_status()
    await server.close()
    database = open_database(url)
    row = await database.read(kept.get_connection, "default", "status_page")
    assert row is not None
    await database.write(kept.delete_connection, "default", "status_page")
    await database.write(
        kept.insert_connection, "default", kept.StoredConnection(name="status", url=row.url, created_at=row.created_at)
    )
    await database.close()

    server = await served(url, echo, scripted)
    async with client(server) as http:
        listed = (await http.get("/api/connections")).json()["data"]
        whose = (await http.get("/api/workflows/scripted")).json()["origin"]
        gone = await http.delete("/api/connections/scripted")
        left = (await http.get("/api/workflows/scripted")).status_code
    await server.close()

    assert [(row["name"], row["state"]) for row in listed] == [("scripted", "failed"), ("status", "failed")]
    assert listed[0]["message"].startswith("A workflow of this name comes from code or settings")
    assert "one of Palaver's own routes" in listed[1]["message"]
    assert (whose, gone.status_code, left) == ("served", 204, 200)


async def test_what_was_kept_and_cannot_be_read_is_asked_again(tmp_path: Path, far: str) -> None:
    url = str(tmp_path / "palaver.db")
    database = open_database(url)
    now = kept.datetime.fromisoformat("2026-11-15T12:00:00+00:00")
    for name, evidence in (("one", {"of": "another version"}), ("two", None)):
        added = kept.StoredConnection(name=name, url=f"{far}/scripted", created_at=now, evidence=evidence)
        await database.write(kept.insert_connection, "default", added)
    await database.close()

    server = await served(url)
    async with client(server) as http:
        said = await http.post("/one/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})

        async def is_kept() -> bool:
            rows = await server.runtime.database.read(kept.list_connections, "default")
            return all((row.evidence or {}).get("dialect") == "invoke" for row in rows)

        await until(is_kept)
    await server.close()

    assert said.status_code == 200


async def test_what_it_says_when_it_is_asked_again_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "REFRESH_INTERVAL_S", 0)
    url = str(tmp_path / "palaver.db")
    answers = {"inspect": CHAT}

    def answer(connection: socket.socket, asked: ReceivedRequest) -> None:
        table(**answers)(connection, asked)  # As they are now.

    with fake_server(answer) as there:
        server = await served(url)
        async with client(server) as http:
            (await http.post("/api/connections", json={"url": f"{there.url}/far"})).raise_for_status()
            answers["inspect"] = full_response({"flags": {"is_chat": False}})
            refreshed = (await http.post("/api/workflows/far/refresh")).json()
            answers.clear()
            silent = (await http.post("/api/workflows/far/refresh")).json()
            row = await server.runtime.database.read(kept.get_connection, "default", "far")
        await server.close()

    assert (refreshed["is_chat"], refreshed["state"]) == (False, "ready")
    assert (silent["is_chat"], silent["state"]) == (False, "unreachable")
    assert row is not None
    assert row.evidence["description"]["flags"] == {"is_chat": False}


@pytest.mark.parametrize("kind", ["told", "looking"])
async def test_every_process_serves_it_and_lets_it_go(
    postgres_url: str, far: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_sync, "SLOW_POLL_INTERVAL_S", 600 if kind == "told" else 0.1)
    monkeypatch.setattr(connection_sync, "POLL_INTERVAL_S", 600 if kind == "told" else 0.1)
    monkeypatch.setattr(remote, "REFRESH_INTERVAL_S", 0)
    here, there = await served(postgres_url), await served(postgres_url)
    if kind == "looking":
        monkeypatch.setattr(there.runtime.connection_sync, "wake", lambda: None)
    async with client(here) as http:
        (await http.post("/api/connections", json={"url": f"{far}/scripted", "name": "far"})).raise_for_status()

        async def is_there() -> bool:
            return "far" in there.registry

        await until(is_there)
        first = there.registry.workflow("far")
        refreshed = (await http.post("/api/workflows/far/refresh")).json()["checked_at"]

        async def is_told() -> bool:
            (one,) = there.runtime.connection_sync.list_synced()
            return connection_sync.msgspec.to_builtins(one.version.checked_at)[:23] == refreshed[:23]

        await until(is_told)
        same = there.registry.workflow("far") is first
        (await http.delete("/api/connections/far")).raise_for_status()
        (await http.post("/api/connections", json={"url": f"{far}/echo", "name": "far"})).raise_for_status()

        async def is_another() -> bool:
            return "far" in there.registry and not there.registry.find("far").is_chat

        await until(is_another)
        (await http.delete("/api/connections/far")).raise_for_status()

        async def is_gone() -> bool:
            return "far" not in there.registry

        await until(is_gone)
    for server in (here, there):
        await server.close()

    assert same


async def test_a_table_that_cannot_be_read_is_looked_at_again(
    far: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_sync, "POLL_INTERVAL_S", 0.05)
    raised: list[Exception] = [Overloaded("away"), ZeroDivisionError("a mistake of ours")]
    marks = kept.list_connection_versions

    def failing(*args: Any) -> Any:
        if raised:
            raise raised.pop(0)
        return marks(*args)

    server = await served(MEMORY_URL)
    monkeypatch.setattr(kept, "list_connection_versions", failing)
    async with client(server) as http:

        async def is_over() -> bool:
            return not raised

        await until(is_over)
        made = await http.post("/api/connections", json={"url": f"{far}/scripted", "name": "far"})
    await server.close()

    assert made.status_code == 201
    assert "Looking at connections failed" in caplog.text
