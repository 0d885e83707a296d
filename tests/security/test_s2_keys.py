"""S2 and S1.1: keys, scopes and projects, on every route of the router."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver.core.api_keys import ALL_SCOPES, Scope, format_key_id
from palaver.server.routing import (
    _PATTERNS,
    OTLP_ROUTES,
    PAGE_SEGMENTS,
    SERVER_ROUTES,
    SERVICE_ROUTES,
    WORKFLOW_ROUTES,
    match_path,
)
from palaver.server.scopes import API_RULES, required_scope
from palaver.storage import api_keys
from tests.cli.test_commands import palaver
from tests.server.keyed_server import KeyedServer, keyed_server
from tests.server_process import server_process

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
PUBLIC_ROUTES = {
    *((method, path) for method in ("GET", "HEAD") for path in ("/health", "/ready", "/livez")),
    *(("HEAD", path) for path in ("/", *(f"/{page}" for page in PAGE_SEGMENTS))),
    ("HEAD", "/services/echo"),
    ("POST", "/api/session"),
}
"""Routes without a credential. (A method that a route does not support is also rejected without one.)"""


ANY_METHOD_PATHS = ("/health", "/ready", "/livez", "/assets/nothing.js")


def sample_paths(pattern: str) -> list[str]:
    """Return example paths for a pattern of the router."""
    pattern = re.sub(r"\{\w+(:\w+)?\}", "some-id", pattern)
    while match := re.search(r"\(([^()]*)\)(\?)?", pattern):
        choices = [*match[1].split("|"), *([""] if match[2] else [])]
        return [path for choice in choices for path in sample_paths(pattern.replace(match[0], choice, 1))]
    return [pattern]


def router_paths() -> Iterator[str]:
    below = [*WORKFLOW_ROUTES, *(path for name, _, _ in _PATTERNS for path in sample_paths(name))]
    for name in below:
        yield f"/{name}"
        yield f"/echo/{name}"
    for name in SERVICE_ROUTES:
        yield f"/{name.replace('{w}', 'echo')}"
    for name in (*SERVER_ROUTES, *OTLP_ROUTES):
        yield f"/{name}"
    for name in PAGE_SEGMENTS:
        yield f"/{name}"
    yield from ("/", "/nothing", "/echo/nothing", "/api", "/api/nothing", "/assets/nothing.js")


ROUTES = sorted(set(router_paths()))


def api_paths(server: KeyedServer) -> list[str]:
    paths = {path for route in server.server.rest_api._app.routes for path in sample_paths(route.path)}
    return sorted(path for path in paths if path.startswith("/api/") and "/_" not in path)


@pytest.fixture
async def server() -> AsyncIterator[KeyedServer]:
    """A server with one key."""
    async with keyed_server(rate_per_minute=0) as created:
        await created.create_key("read")
        yield created


async def send_request(
    server: KeyedServer, method: str, path: str, header: dict[str, str] | None = None
) -> httpx.Response:
    body: dict[str, Any] = {"json": {}} if method in ("POST", "PUT", "PATCH") else {}
    return await server.http.request(method, path, headers=header, **body)


def test_serving_on_a_public_host_needs_a_key(tmp_path: Path) -> None:  # S1.1
    (tmp_path / "app.py").write_text("from palaver.testing import echo\n", encoding="utf-8")

    run = palaver("serve", "app.py", "--host", "0.0.0.0", "--port", "0", "--db", "palaver.db", cwd=tmp_path)

    database = tmp_path / "palaver.db"
    line = f"error: Refusing to listen on 0.0.0.0: no valid API key found in {database}."
    line += f" Run `palaver key create --db {database}` or use --host 127.0.0.1.\n"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", line)


async def test_every_route_of_the_router_needs_a_credential(server: KeyedServer) -> None:  # S2.1
    open_: set[tuple[str, str]] = set()
    for path in [*ROUTES, *api_paths(server)]:
        for method in METHODS:
            answer = await send_request(server, method, path)
            if answer.status_code != 401:
                open_.add((method, path))
            else:
                assert answer.headers["www-authenticate"] == "Bearer", (method, path)

    open_to_any_method = {(method, path) for method, path in open_ if path in ANY_METHOD_PATHS}
    assert open_ - open_to_any_method == PUBLIC_ROUTES - open_to_any_method


POST_PATHS = ["/echo/invoke", "/v1/responses", "/v1/chat/completions", "/v1/traces", "/api/extract", "/nothing"]


@pytest.mark.parametrize("path", POST_PATHS)
async def test_body_is_not_read_before_the_credential_is_checked(server: KeyedServer, path: str) -> None:  # S2.1
    messages: list[dict[str, Any]] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"9000000")],
        "server": ("localhost", 80),
    }
    await server.server(scope, receive, send)

    assert messages[0]["status"] == 401


@pytest.mark.parametrize("name", ["key", "token", "api_key", "apikey", "access_token", "authorization", "palaver"])
async def test_key_in_the_query_is_ignored(server: KeyedServer, name: str) -> None:  # S2.2
    _, header = await server.create_key()
    secret = header["authorization"].removeprefix("Bearer ")

    assert (await server.http.get(f"/version?{name}={secret}")).status_code == 401


PROTECTED_PATHS = ["/echo/invoke", "/echo/run", "/echo/test", "/echo/invocations", "/echo/v1/responses"]
PROTECTED_PATHS += ["/echo/responses", "/echo/v1/chat/completions", "/echo/api/chat", "/echo/inspect", "/api/extract"]


@pytest.mark.parametrize("path", PROTECTED_PATHS)
async def test_every_route_accepts_and_rejects_the_same_credentials(server: KeyedServer, path: str) -> None:  # S2.3
    _, header = await server.create_key()
    _, other = await server.create_key()
    secret, second = (one["authorization"].removeprefix("Bearer ") for one in (header, other))
    login = await server.http.post("/api/session", json={"key": secret})
    server.http.cookies.clear()
    cookie = login.headers["set-cookie"].partition(";")[0]
    good: list[dict[str, str]] = [
        {"authorization": f"Bearer {secret}"},
        {"Authorization": f"ApiKey {secret}"},
        {"AUTHORIZATION": f"bearer {secret}"},
        {"X-Api-Key": secret},
        {"API-KEY": secret},
        {"Cookie": cookie},
        {"x-api-key": secret, "authorization": f"Bearer {secret}"},
    ]
    two = [
        {"x-api-key": secret, "authorization": f"Bearer {second}"},
        {"x-api-key": secret, "cookie": cookie},
        {"x-api-key": secret, "api-key": "x"},
    ]
    bad = [
        {"authorization": "Bearer "},
        {"authorization": "Bearer"},
        {"authorization": secret},
        {"authorization": f"Basic {secret}"},
        {"x-api-key": ""},
        {"x-api-key": f"{secret}, {secret}"},
        {"x-api-key": secret[:-1]},
        {"cookie": cookie[:-1]},
        {"cookie": f"{cookie}; {cookie}"},
        {"cookie": f"palaver={secret}"},
    ]

    assert not {(await send_request(server, "POST", path, header)).status_code for header in good} & {401, 403}
    assert {(await send_request(server, "POST", path, header)).status_code for header in two} == {400}
    assert {(await send_request(server, "POST", path, header)).status_code for header in bad} == {401}
    doubled = [("x-api-key", secret), ("x-api-key", secret)]
    assert (await server.http.post(path, json={}, headers=doubled)).status_code == 401
    too_long = {"x-api-key": f"{secret}{'x' * 10_240}"}
    assert (await send_request(server, "POST", path, too_long)).status_code == 431
    strange = {b"x-api-key": secret[:-1].encode() + "é".encode("latin-1")}
    assert (await server.http.post(path, json={}, headers=strange)).status_code == 401


async def test_openai_routes_use_the_openai_authentication_error(server: KeyedServer) -> None:  # S2.1
    responses = {
        path: (await send_request(server, "POST", path)).json()
        for path in ("/v1/responses", "/echo/invoke", "/api/keys")
    }

    line = "Missing or invalid API key. Send it as 'Authorization: Bearer plv_…'."
    assert responses["/v1/responses"]["error"] == {
        "message": line,
        "type": "authentication_error",
        "code": "invalid_api_key",
        "param": None,
    }
    assert responses["/echo/invoke"]["status"]["type"] == "unauthorized"
    assert responses["/api/keys"] == {"error": {"code": "unauthorized", "message": line}}


SCOPE_SETS: list[frozenset[Scope]] = [
    frozenset({"invoke"}),
    frozenset({"read"}),
    frozenset({"invoke", "read"}),
    ALL_SCOPES,
]


@pytest.mark.parametrize("scopes", SCOPE_SETS, ids=lambda scopes: "+".join(sorted(scopes)))
async def test_every_route_needs_its_scope(server: KeyedServer, scopes: frozenset[Scope]) -> None:  # S2.4
    _, header = await server.create_key(*scopes)
    api = api_paths(server)

    for path in [*ROUTES, *api]:
        for method in METHODS:
            if (method, path) == ("DELETE", "/api/session"):
                continue
            need = required_scope(match_path(path), method, path)
            answer = await send_request(server, method, path, header)
            refused = need not in ("nothing", "credential") and need not in scopes
            assert (answer.status_code == 403) is refused, (method, path, need, answer.status_code)
            if refused and method != "HEAD":
                assert f"scope '{need}'" in answer.text, (method, path)


async def test_every_section_of_the_api_has_a_scope_rule(server: KeyedServer) -> None:  # S2.4
    sections = {path.split("/")[2] for path in api_paths(server)}

    assert sections <= API_RULES.keys()


async def test_project_comes_only_from_the_credential(server: KeyedServer) -> None:  # S2.5
    _, header = await server.create_key(project="team-a")
    headers = {**header, "x-palaver-project": "default", "project": "default", "openai-project": "default"}
    body = {"name": "x", "scopes": ["read"], "project": "default", "metadata": {"project": "default"}}
    created = (await server.http.post("/api/keys?project=default", json=body, headers=headers)).json()

    (key,) = await server.database.read(api_keys.find_keys, [created["id"].removeprefix("key_")])
    assert key.project == "team-a"


async def test_another_projects_key_is_the_same_404_as_an_unknown_one(server: KeyedServer) -> None:  # S2.5
    _, header = await server.create_key()
    other, _ = await server.create_key(project="team-a")
    results: set[tuple[int, bytes]] = set()
    for name in (format_key_id(other.id), "key_00000000"):
        for method in ("PATCH", "DELETE"):
            answer = await send_request(server, method, f"/api/keys/{name}", header)
            results.add((answer.status_code, answer.content.replace(name.encode(), b"<id>")))

    assert results == {(404, b'{"error":{"code":"not_found","message":"API key \'<id>\' not found."}}')}


async def test_revoked_key_is_rejected_on_the_next_request(server: KeyedServer) -> None:  # S2.6
    _, admin_header = await server.create_key()
    key, header = await server.create_key("invoke")
    before = await send_request(server, "POST", "/echo/invoke", header)
    await send_request(server, "DELETE", f"/api/keys/{format_key_id(key.id)}", admin_header)
    after = await send_request(server, "POST", "/echo/invoke", header)

    assert (before.status_code, after.status_code) == (200, 401)


STREAMS = {
    "/scripted/invoke": {"inputs": {"messages": [{"role": "user", "content": "x"}]}},
    "/scripted/v1/responses": {"input": "x", "stream": True},
    "/scripted/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "stream": True},
    "/scripted/api/chat": {"messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]},
}


@pytest.mark.parametrize("path", STREAMS)
async def test_open_streams_of_a_revoked_key_end_within_five_seconds(server: KeyedServer, path: str) -> None:  # S2.6
    key, header = await server.create_key("invoke")
    script = '[{"text": "Hi"}, {"sleep": 60}, {"text": "there"}]'
    body = _with_text(STREAMS[path], script)
    accept = {"accept": "text/event-stream", **header}
    async with asyncio.timeout(60), server.http.stream("POST", path, json=body, headers=accept) as stream:
        pieces = stream.aiter_text()
        chunk = await anext(pieces)
        while "Hi" not in chunk:
            chunk += await anext(pieces)
        await server.database.write(lambda db: api_keys.revoke_key(db, "default", key.id, at=key.created_at) and None)
        async with asyncio.timeout(30):
            chunk += "".join([piece async for piece in pieces])

    assert "there" not in chunk
    assert "unauthorized" in chunk or "expired or been revoked" in chunk


@pytest.mark.parametrize("path", ["/v1/responses/resp_{}?stream=true", "/api/runs/run_{}/events"])
async def test_reader_with_a_revoked_key_is_disconnected_and_the_run_continues(
    server: KeyedServer, path: str
) -> None:  # S2.6
    _, starter = await server.create_key("invoke")
    reader_key, reader = await server.create_key("invoke", "read")
    body = {"input": '[{"text": "Hi"}, {"sleep": 60}, {"text": "there"}]', "stream": True}
    async with (
        asyncio.timeout(60),
        server.http.stream("POST", "/scripted/v1/responses", json=body, headers=starter) as stream,
    ):
        await anext(stream.aiter_text())
        run = stream.headers["x-palaver-run-id"]
        async with server.http.stream("GET", path.format(run.removeprefix("run_")), headers=reader) as response:
            assert "Hi" in await anext(response.aiter_text())
            await server.database.write(
                lambda db: api_keys.revoke_key(db, "default", reader_key.id, at=reader_key.created_at)
            )
            async with asyncio.timeout(30):
                with suppress(RuntimeError):  # The application aborts the response.
                    async for _ in response.aiter_text():
                        pass
        alive = server.server.engine.find(run)
        assert alive is not None
        assert not alive.is_finished


def _with_text(body: Any, text: str) -> Any:
    match body:
        case "x":
            return text
        case dict():
            return {name: _with_text(value, text) for name, value in body.items()}
        case list():
            return [_with_text(value, text) for value in body]
        case _:
            return body


async def test_a_page_of_another_origin_cannot_use_the_cookie(server: KeyedServer) -> None:  # S2.7
    _, header = await server.create_key()
    (
        await server.http.post("/api/session", json={"key": header["authorization"].removeprefix("Bearer ")})
    ).raise_for_status()
    body = {"name": "x", "scopes": ["admin"]}

    same_origin = await server.http.post("/api/keys", json=body, headers={"origin": "http://localhost"})
    foreign = [
        await server.http.post("/api/keys", json=body, headers=headers)
        for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"})
    ]

    assert [answer.status_code for answer in (same_origin, *foreign)] == [201, 403, 403, 403]


async def test_cookie_and_key_are_not_stored_in_plain_text(tmp_path: Path) -> None:  # S2.7, S2.2
    async with keyed_server(str(tmp_path / "palaver.db")) as server:
        _, header = await server.create_key()
        secret = header["authorization"].removeprefix("Bearer ")
        login = await server.http.post("/api/session", json={"key": secret})
        value = re.findall(r"palaver=(\w{40});", login.headers["set-cookie"])[0]

        assert (await server.http.get("/api/session")).status_code == 200
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 - all is done
    assert value.encode() not in content
    assert secret[-40:].encode() not in content


async def test_failed_logins_are_answered_identically_and_rate_limited(server: KeyedServer) -> None:  # S2.8
    key, header = await server.create_key("read")
    await server.database.write(lambda db: api_keys.revoke_key(db, "default", key.id, at=key.created_at) and None)
    revoked = header["authorization"].removeprefix("Bearer ")
    tries = [revoked, "plv_00000000_" + "0" * 40, revoked[:-1], "", "é"] * 2

    results = {
        (a.status_code, a.content) for a in [await server.http.post("/api/session", json={"key": k}) for k in tries]
    }
    beyond = await server.http.post("/api/session", json={"key": revoked})

    assert results == {(401, b'{"error":{"code":"unauthorized","message":"Invalid API key."}}')}
    assert (beyond.status_code, beyond.json()["error"]["code"]) == (429, "rate_limited")
    assert 50 <= int(beyond.headers["retry-after"]) <= 60


async def test_requests_per_minute_are_limited_per_key() -> None:  # S4.3
    async with keyed_server(rate_per_minute=3) as server:
        _, one = await server.create_key("invoke")
        _, two = await server.create_key("invoke")
        responses = [await send_request(server, "POST", "/echo/v1/responses", one) for _ in range(4)]
        other = await send_request(server, "POST", "/echo/invoke", two)
        health = await send_request(server, "GET", "/health")

    assert [answer.status_code == 429 for answer in responses] == [False, False, False, True]
    assert responses[3].json()["error"]["code"] == "rate_limited"
    assert 50 <= int(responses[3].headers["retry-after"]) <= 60
    assert (other.status_code, health.status_code) == (200, 200)


@pytest.mark.parametrize("limit", ["max_runs", "max_streams"])
async def test_concurrent_runs_and_streams_are_limited_per_key(limit: str) -> None:  # S4.3
    body = {"messages": [{"role": "user", "content": '[{"text": "Hi"}, {"sleep": 60}]'}], "stream": True}
    path = "/scripted/v1/chat/completions"
    limits: dict[str, Any] = {limit: 1}
    async with keyed_server(**limits) as server:
        _, one = await server.create_key("invoke")
        _, two = await server.create_key("invoke")
        async with server.http.stream("POST", path, json=body, headers=one) as stream:
            await anext(stream.aiter_text())
            beyond = await server.http.post(path, json=body, headers=one)
            async with server.http.stream("POST", path, json=body, headers=two) as other:
                assert other.status_code == 200
        async with asyncio.timeout(60):
            while (response := await send_request(server, "POST", "/echo/invoke", one)).status_code == 429:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    assert (beyond.status_code, beyond.headers["retry-after"]) == (429, "1")
    assert beyond.json()["error"]["code"] == "rate_limited"
    assert response.status_code == 200


async def test_key_at_its_limits_does_not_slow_down_another_key() -> None:  # S4.4
    busy = _stream_body('[{"repeat": {"times": 100000, "steps": [{"text": "x"}, {"sleep": 0.02}]}}]')
    short = _stream_body('[{"repeat": {"times": 10, "steps": [{"text": "x"}]}}]')
    path = "/scripted/v1/chat/completions"
    async with keyed_server(rate_per_minute=0) as server, AsyncExitStack() as open_:
        _, one = await server.create_key("invoke")
        _, two = await server.create_key("invoke")

        async def p95() -> float:
            durations: list[float] = []
            for _ in range(60):
                since = time.perf_counter()
                assert (await server.http.post(path, json=short, headers=two)).status_code == 200
                durations.append(time.perf_counter() - since)
            return sorted(durations)[56]

        await p95()
        idle = [await p95() for _ in range(3)]
        readers: list[asyncio.Task[None]] = []
        for _ in range(32):
            stream = await open_.enter_async_context(server.http.stream("POST", path, json=busy, headers=one))
            readers.append(asyncio.create_task(_read_to_end(stream)))
        assert (await server.http.post(path, json=busy, headers=one)).status_code == 429
        loaded = [await p95() for _ in range(3)]
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    assert min(loaded) < 10 * max(idle) + 0.5  # A watchdog: this process is also the client, and machines are shared.


def _stream_body(script: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": script}], "stream": True}


async def _read_to_end(stream: httpx.Response) -> None:
    async for _ in stream.aiter_raw():
        pass


def test_keys_created_and_revoked_by_cli_take_effect_on_a_running_server(tmp_path: Path) -> None:  # S2.1, S2.6
    database = str(tmp_path / "palaver.db")

    def statuses(header: dict[str, str], status: int) -> list[int]:
        """Return the statuses until the expected one, which may take two seconds."""
        seen: list[int] = []
        until = time.monotonic() + 30
        while time.monotonic() < until and status not in seen:
            seen.append(httpx.get(f"{server.url}/version", headers=header, trust_env=False).status_code)
            time.sleep(0.1)
        return seen

    with server_process(tmp_path, "from palaver.testing import echo\n", "--db", database) as server:
        open_ = statuses({}, 200)
        secret = palaver("key", "create", "--db", database, cwd=tmp_path).stdout.strip()
        closed = statuses({}, 401)
        good = statuses({"x-api-key": secret}, 200)
        palaver("key", "revoke", secret, "--db", database, cwd=tmp_path)
        revoked = statuses({"x-api-key": secret}, 401)
        still_closed = statuses({}, 401)

    assert (open_, good, still_closed) == ([200], [200], [401])
    assert (closed[-1], revoked[-1]) == (401, 401)
    assert max(len(closed), len(revoked)) < 30  # About two seconds on a busy machine.
    assert not any(secret[-40:] in line for line in server.lines)
