"""The services protocol over HTTP and WebSocket, in process: routes, keys, streams and probes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver import Failure, Message, chat, workflow
from palaver.core.messages import Data
from palaver.discovery.registry import Registry
from palaver.protocols.services.adapter import VERSION
from palaver.server import services
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.testing import client, in_process_transport, scripted
from palaver.testing import echo as own_echo
from palaver.workflows.context import Context
from tests.protocols.test_services import decode_events
from tests.server.fake_tab import FakeConnection, FakeTab, open_tab, wait_until
from tests.server.keyed_server import KeyedServer, keyed_server

cancelled_runs: list[str] = []


@chat(readme="# Tutor\n\nTeaches a subject. Patiently.\n")
async def tutor(messages: list[Message], ctx: Context, subject: str = "maths", wait: bool = False) -> Any:
    """Not shown: the README is."""
    ctx.log("Thinking")
    try:
        yield f"{subject}: {messages[-1].text}"
        if wait:
            await asyncio.sleep(60)
    except asyncio.CancelledError:
        cancelled_runs.append(ctx.run_id)
        raise
    yield Data(name="reply", value={"suggested_code": "x", "meta": {"page": 1}})


@workflow
async def headline(text: str, session_id: str, ctx: Context) -> dict[str, str]:
    """Makes a headline. In capitals."""
    ctx.log("Shouting")
    return {"headline": text.upper(), "session": session_id}


@workflow
async def slow(ctx: Context) -> str:
    """Waits a minute without output."""
    await asyncio.sleep(60)
    return "late"


@chat
async def keyhole(messages: list[Message], ctx: Context, how: str = "tell") -> str:
    """Does with a key what a provider's client may do: return, fail or raise."""
    key = ctx.secrets["api_key"].reveal() if ctx.secrets else "none"
    if how == "fail":
        raise Failure("auth_error", f"Bad key {key}", status=401, details={"key": [key, {key: 1}]})
    if how == "raise":
        raise RuntimeError(f"Bad key {key}")
    return f"{len(key)} characters, {ctx.secrets!r}"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(tutor, headline, keyhole, scripted) as opened:
        yield opened


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    running = Server(Registry([tutor, headline, slow, scripted]), Settings())
    yield running
    await running.engine.drain(0)
    await running.close()


# Answers


async def test_a_chat_accepts_the_payload_of_lightning(http: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {
        "content": "Why?",
        "history": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
        "subject": "physics",
        "unknown": 1,
        "meta": {"session_id": "s-1"},
    }
    answer = await http.post("/services/tutor", json=body)

    assert (answer.status_code, answer.headers["x-api-version"]) == (200, VERSION)
    assert answer.json() == {
        "response": "physics: Why?",
        "history": [
            *body["history"],
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": "physics: Why?"},
        ],
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
        "meta": {"page": 1},
        "suggested_code": "x",
    }
    run = (await http.get(f"/api/runs/{answer.headers['x-palaver-run-id']}")).json()
    assert run["session"] == "s-1"


async def test_a_stream_ends_with_the_answer_of_the_plain_route(http: httpx.AsyncClient) -> None:
    body = {"content": "Why?"}
    plain = await http.post("/services/tutor", json=body)
    streamed = await http.post("/services/tutor/stream", json=body)
    sparse = await http.post("/services/tutor/stream", json={**body, "stream": False})

    assert streamed.headers["content-type"] == "text/event-stream"
    assert [name for name, _ in decode_events(streamed.content)] == [
        "message_start", "log", "content_block_start", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "complete",
    ]  # fmt: skip
    assert decode_events(streamed.content)[-1] == ("complete", plain.json())
    assert decode_events(sparse.content) == [("log", "Thinking"), ("complete", plain.json())]


async def test_a_workflow_that_is_not_a_chat_returns_its_value(http: httpx.AsyncClient) -> None:
    body = {"text": "hello", "meta": {"session_id": "s-1"}}
    value = {"headline": "HELLO", "session": "s-1"}

    assert (await http.post("/services/headline", json=body)).json() == value
    streamed = await http.post("/services/headline/stream", json=body)
    assert decode_events(streamed.content) == [("log", "Shouting"), ("complete", value)]


async def test_every_call_without_a_session_id_gets_a_new_session(http: httpx.AsyncClient) -> None:
    sessions = {(await http.post("/services/headline", json={"text": "x"})).json()["session"] for _ in range(3)}

    assert len(sessions) == 3
    assert all(0 < len(session) <= 64 for session in sessions)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ({"fail": {"code": "no_city", "message": "Where?", "status": 418}}, (418, "NO_CITY")),
        ({"fail": {"code": "timeout", "message": "Late."}}, (504, "TIMEOUT")),
        ({"fail": {"code": "own", "message": "Odd."}}, (500, "OWN")),
        ({"raise": "secret words"}, (500, "INTERNAL_ERROR")),
    ],
)
async def test_a_failed_run_returns_the_error_object_on_both_routes(
    http: httpx.AsyncClient, step: Any, error: tuple[int, str]
) -> None:
    body = {"content": "x", "script": [step]}
    plain = await http.post("/services/scripted", json=body)
    streamed = await http.post("/services/scripted/stream", json=body)
    name, data = decode_events(streamed.content)[-1]

    assert (plain.status_code, plain.json()["code"], plain.json()["type"]) == (error[0], *error)
    assert (streamed.status_code, name, data["code"], data["type"]) == (200, "error", *error)
    assert "secret words" not in plain.text + streamed.text


async def test_an_invalid_payload_is_a_400_or_an_error_event_of_the_stream(http: httpx.AsyncClient) -> None:
    plain = await http.post("/services/headline", json={"text": 7})
    streamed = await http.post("/services/headline/stream", json={"text": 7})

    assert (plain.status_code, plain.json()["type"]) == (400, "BAD_REQUEST")
    assert plain.json()["details"]["errors"][0]["field"] == "text"
    assert (streamed.status_code, decode_events(streamed.content)) == (200, [("error", plain.json())])


@pytest.mark.parametrize("route", ["", "/stream"])
@pytest.mark.parametrize(
    ("name", "options", "status", "error_type"),
    [
        ("nobody", {"json": {}}, 404, "NOT_FOUND"),
        ("tutor", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, "BAD_REQUEST"),
        ("tutor", {"json": []}, 400, "BAD_REQUEST"),
        ("tutor", {"json": {"content": "x", "api_key": 7}}, 400, "BAD_REQUEST"),
        ("tutor", {"json": {"content": "x", "api_key": f"plv_abcd1234_{'x' * 40}"}}, 401, "UNAUTHORIZED"),
        ("tutor", {"content": b"x", "headers": {"content-type": "text/plain"}}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
async def test_a_request_that_cannot_become_a_call_is_an_http_error(
    http: httpx.AsyncClient, route: str, name: str, options: Any, status: int, error_type: str
) -> None:
    answer = await http.post(f"/services/{name}{route}", **options)

    assert (answer.status_code, answer.json()["code"], answer.json()["type"]) == (status, status, error_type)
    assert answer.headers["x-api-version"] == VERSION


async def test_a_payload_with_metrics_opt_out_is_stored_without_texts(http: httpx.AsyncClient) -> None:
    body = {"content": "private words", "metrics_opt_in": False, "meta": {"user": {"id": "ann"}}}
    run = (await http.post("/services/tutor", json=body)).headers["x-palaver-run-id"]
    stored = await http.get(f"/api/runs/{run}?include=input,reply")

    assert stored.status_code == 200
    assert "private words" not in stored.text
    assert "ann" not in stored.text


async def test_a_client_disconnect_cancels_the_run(http: httpx.AsyncClient) -> None:
    async with http.stream("POST", "/services/tutor/stream", json={"content": "x", "wait": True}) as answer:
        run = answer.headers["x-palaver-run-id"]
        async for piece in answer.aiter_bytes():
            if b"text_delta" in piece:
                break
    await wait_until(lambda: run in cancelled_runs)
    async with asyncio.timeout(60):
        while (await http.get(f"/api/runs/{run}")).json()["status"] == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert (await http.get(f"/api/runs/{run}")).json()["status"] == "cancelled"


@pytest.mark.parametrize("route", ["", "/stream"])
async def test_a_stopping_server_answers_with_shutting_down(server: Server, route: str) -> None:
    body = {"content": "x", "wait": True}
    error = {"code": 503, "type": "SHUTTING_DOWN", "message": "The server is shutting down."}
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        request = asyncio.create_task(http.post(f"/services/tutor{route}", json=body))
        await wait_until(lambda: server.engine.active_count)
        await server.engine.drain(0)
        answer = await request
        later = await http.post(f"/services/tutor{route}", json=body)

    if not route:
        assert (answer.status_code, answer.json()) == (503, error)
        assert (later.status_code, later.json()["type"]) == (503, "SHUTTING_DOWN")
        return
    names = [name for name, _ in decode_events(answer.content)]
    assert (answer.status_code, decode_events(answer.content)[-1]) == (200, ("error", error))
    assert names.count("content_block_start") == names.count("content_block_stop")
    assert (later.status_code, decode_events(later.content)[-1][1]["type"]) == (200, "SHUTTING_DOWN")


# Listing and descriptions


async def test_services_are_listed_and_described(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/services")).json()["services"]
    one = (await http.get("/services/headline")).json()

    assert [service["name"] for service in listed] == ["echo", "headline", "keyhole", "scripted", "status", "tutor"]
    assert listed[1] == {
        "name": "headline",
        "summary": "Makes a headline.",
        "is_chat": False,
        "version": VERSION,
    }
    assert listed[5]["summary"] == "Teaches a subject."
    assert one == {**listed[1], "inputs": one["inputs"]}
    assert set(one["inputs"]["required"]) == {"text", "session_id"}


async def test_a_readme_comes_from_the_author_or_is_generated(http: httpx.AsyncClient) -> None:
    authored = await http.get("/services/tutor/README.md")
    generated = await http.get("/services/headline/README.md")

    assert (authored.headers["content-type"], authored.text) == (
        "text/markdown; charset=utf-8",
        "# Tutor\n\nTeaches a subject. Patiently.\n",
    )
    assert generated.text.startswith("# headline\n\nMakes a headline. In capitals.\n")
    assert (await http.get("/services/nobody/README.md")).json()["type"] == "NOT_FOUND"


async def test_probes_are_answered(http: httpx.AsyncClient) -> None:
    head = await http.head("/services/tutor")
    root = await http.head("/")
    alive = await http.get("/livez")

    assert (head.status_code, head.content, head.headers["x-api-version"]) == (200, b"", VERSION)
    assert (root.status_code, root.content, root.headers["x-api-version"]) == (200, b"", VERSION)
    assert (alive.status_code, alive.json(), alive.headers["x-api-version"]) == (200, {"version": VERSION}, VERSION)
    assert (await http.head("/services/nobody")).status_code == 404
    assert (await http.get("/services/tutor/more")).status_code == 404
    assert (await http.get("/services/tutor/stream")).status_code == 405


@pytest.mark.parametrize(
    ("method", "path", "status", "error_type"),
    [
        ("GET", "/services/tutor/more", 404, "NOT_FOUND"),
        ("POST", "/services/tutor/more", 404, "NOT_FOUND"),
        ("DELETE", "/services/tutor/stream/x", 404, "NOT_FOUND"),
        ("GET", "/services/nobody", 404, "NOT_FOUND"),
        ("GET", "/services/tutor/stream", 405, "METHOD_NOT_ALLOWED"),
        ("PUT", "/services", 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_unknown_paths_and_wrong_methods_get_service_errors(
    http: httpx.AsyncClient, method: str, path: str, status: int, error_type: str
) -> None:
    answer = await http.request(method, path)

    assert (answer.status_code, answer.json()["code"], answer.json()["type"]) == (status, status, error_type)
    assert answer.headers["x-api-version"] == VERSION


async def test_an_internal_error_is_answered_with_a_service_error(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("palaver.server.app.require_method", broken)
    answer = await http.post("/services/tutor", json={"content": "x"})

    message = f"Internal server error (request {answer.headers['x-request-id']})."
    assert (answer.status_code, answer.json()) == (500, {"code": 500, "type": "INTERNAL_ERROR", "message": message})
    assert answer.headers["x-api-version"] == VERSION


async def test_the_openapi_document_lists_every_workflow_as_a_service(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]

    def payload(path: str) -> Any:
        return paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]

    of_all = ["api_key", "stream", "metrics_opt_in", "meta"]
    of_chats = ["content", "history", "messages", "parameters"]
    assert [path for path in paths if path.startswith("/services/tutor")] == [
        "/services/tutor",
        "/services/tutor/stream",
        "/services/tutor/README.md",
    ]
    assert list(paths["/services/tutor"]) == ["get", "post"]
    assert list(payload("/services/tutor/stream")) == [*of_all, *of_chats, "subject", "wait"]
    assert list(payload("/services/headline")) == [*of_all, "text", "session_id"]
    assert list(paths["/services/tutor/stream"]["post"]["responses"]["200"]["content"]) == ["text/event-stream"]


async def test_the_health_of_a_workflow_is_part_of_the_status() -> None:
    def health() -> dict[str, str]:
        return {"anthropic": "not configured", "docs_index": "working", "database": "mine", "version": "mine"}

    @chat(health=health)
    async def job_chat(messages: list[Message]) -> str:
        return "x"

    async with client(job_chat) as http:
        status = (await http.get("/status")).json()

        assert status == {
            "anthropic": "not configured",
            "docs_index": "working",
            "database": "working",
            "version": VERSION,
        }
        assert (await http.post("/services/status", json={})).json() == status


async def test_the_status_is_also_a_service(http: httpx.AsyncClient) -> None:
    plain = await http.post("/services/status")
    streamed = await http.post("/services/status/stream", json={})

    assert plain.json() == {"database": "working", "version": VERSION} == (await http.get("/status")).json()
    assert decode_events(streamed.content) == [("complete", plain.json())]


async def test_the_built_in_echo_service_leaves_out_the_api_key(http: httpx.AsyncClient) -> None:
    body = {"a": [1], "meta": {"session_id": "s"}, "api_key": "sk-secret", "stream": True, "metrics_opt_in": False}
    expected = {"a": [1], "meta": {"session_id": "s"}, "session_id": "s"}

    assert (await http.post("/services/echo", json=body)).json() == expected
    streamed = await http.post("/services/echo/stream", json=body)
    assert decode_events(streamed.content) == [("complete", expected)]


@pytest.mark.parametrize("options", [{}, {"json": {}}, {"json": {"api_key": "sk-x"}}])
async def test_the_echo_service_rejects_an_empty_payload(http: httpx.AsyncClient, options: Any) -> None:
    required = {"code": 400, "type": "BAD_REQUEST", "message": "payload is required"}
    plain = await http.post("/services/echo", **options)

    assert (plain.status_code, plain.json()) == (400, required)
    assert decode_events((await http.post("/services/echo/stream", **options)).content) == [("error", required)]


async def test_a_workflow_named_echo_replaces_the_built_in_service() -> None:
    async with client(own_echo) as http:
        answer = await http.post("/services/echo", json={"a": 1, "meta": {"session_id": "s"}})
        listed = (await http.get("/services")).json()["services"]

    assert "x-palaver-run-id" in answer.headers
    assert answer.json() == {"a": 1, "meta": {"session_id": "s"}, "session_id": "s"}
    assert listed[0]["summary"] == "Returns its inputs unchanged."


# Keys


@pytest.fixture
async def backend() -> AsyncIterator[KeyedServer]:
    """A server with keys that serves `echo` and `scripted`."""
    async with keyed_server(rate_per_minute=0) as keyed:
        await keyed.create_key("read")
        yield keyed


async def test_a_palaver_key_can_be_sent_in_the_payload(backend: KeyedServer) -> None:
    key, header = await backend.create_key("invoke")
    secret = header["authorization"].removeprefix("Bearer ")
    answer = await backend.http.post("/services/echo", json={"a": 1, "api_key": secret})
    both = await backend.http.post("/services/echo", json={"a": 1, "api_key": secret}, headers=header)

    assert (answer.status_code, both.status_code) == (200, 200)
    assert secret not in answer.text
    assert answer.json()["a"] == 1
    assert key.id not in answer.text


async def test_other_keys_in_a_payload_are_rejected(backend: KeyedServer) -> None:
    _, header = await backend.create_key("invoke")
    _, other = await backend.create_key("invoke")
    _, reads = await backend.create_key("read")
    secret, second, third = (one["authorization"].removeprefix("Bearer ") for one in (header, other, reads))

    async def send_key(key: Any, headers: dict[str, str] | None = None) -> tuple[int, str]:
        answer = await backend.http.post("/services/echo/stream", json={"a": 1, "api_key": key}, headers=headers)
        return answer.status_code, answer.json()["type"]

    assert await send_key("sk-ant-provider") == (401, "UNAUTHORIZED")
    assert await send_key(secret[:-1]) == (401, "UNAUTHORIZED")
    assert await send_key(None) == (401, "UNAUTHORIZED")
    assert await send_key(7) == (401, "UNAUTHORIZED")
    assert await send_key(third) == (403, "MISSING_SCOPE")
    assert await send_key(second, header) == (400, "BAD_REQUEST")
    assert await send_key(secret, {"authorization": "Bearer wrong"}) == (401, "UNAUTHORIZED")
    in_url = await backend.http.post(f"/services/echo?api_key={secret}", json={"a": 1})
    assert in_url.status_code == 401
    other_route = await backend.http.post("/echo/invoke", json={"inputs": {}, "api_key": secret})
    assert other_route.status_code == 401


async def test_a_provider_key_is_revealed_only_to_the_workflow(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    key = "an-odd-key-of-no-shape"
    texts: list[str] = []
    for how in ("tell", "fail", "raise"):
        for route in ("", "/stream"):
            answer = await http.post(f"/services/keyhole{route}", json={"content": "x", "how": how, "api_key": key})
            run = answer.headers["x-palaver-run-id"]
            texts += [answer.text, str(answer.headers)]
            texts += [(await http.get(f"/api/runs/{run}?include=input,reply")).text]
            texts += [(await http.get(f"/api/runs/{run}/events")).text]

    assert "22 characters, {'api_key': ***}" in texts[0]
    assert [text for text in texts if key in text] == []
    assert key not in caplog.text
    assert "Bad key ***" in caplog.text
    failed = await http.post("/services/keyhole", json={"content": "x", "how": "fail", "api_key": key})
    assert failed.json() == {
        "code": 401,
        "type": "AUTH_ERROR",
        "message": "Bad key ***",
        "details": {"key": ["***", {"***": 1}]},
    }


# WebSocket


def start(tab: FakeTab, **payload: Any) -> None:
    tab.send_text({"event": "start", "data": payload})


def complete_data(tab: FakeTab) -> list[Any]:
    return [message["data"] for message in tab.messages if message["event"] == "complete"]


async def test_a_socket_sends_the_events_of_a_stream(server: Server) -> None:
    async with open_tab(server, path="/services/tutor") as tab:
        start(tab, content="Why?")
        await wait_until(lambda: complete_data(tab))
        start(tab, content="And then?")
        await wait_until(lambda: len(complete_data(tab)) == 2)

    kinds = [(message["event"], message.get("type")) for message in tab.messages]
    assert kinds[:3] == [("event", "message_start"), ("log", None), ("event", "content_block_start")]
    assert [body["response"] for body in complete_data(tab)] == ["maths: Why?", "maths: And then?"]


@pytest.mark.parametrize(
    ("path", "payload", "code", "error_type"),
    [
        ("/services/nobody", {}, 404, "NOT_FOUND"),
        ("/services/tutor", {}, 400, "BAD_REQUEST"),
        ("/services/tutor", {"content": "x", "api_key": "plv_nobodys"}, 401, "UNAUTHORIZED"),
        ("/services/scripted", {"content": "x", "script": [{"raise": "x"}]}, 500, "INTERNAL_ERROR"),
        ("/services/echo", {}, 400, "BAD_REQUEST"),
    ],
)
async def test_every_error_is_sent_as_a_complete_event(
    server: Server, path: str, payload: Any, code: int, error_type: str
) -> None:
    async with open_tab(server, path=path) as tab:
        start(tab, **payload)
        await wait_until(lambda: complete_data(tab))

    assert [(body["code"], body["type"]) for body in complete_data(tab)] == [(code, error_type)]


async def test_a_start_without_a_payload_completes_with_an_error(server: Server) -> None:
    async with open_tab(server, path="/services/tutor/") as tab:
        tab.send_text({"event": "start"})
        await wait_until(lambda: complete_data(tab))

    assert complete_data(tab)[0]["message"] == "The body must be a JSON object."


async def test_invalid_socket_messages_get_errors_and_the_call_continues(server: Server) -> None:
    async with open_tab(server, path="/services/tutor") as tab:
        tab.send_text("{")
        tab.send_text({"event": "stop"})
        tab.send_text({"event": "cancel"})  # There is nothing to cancel.
        start(tab, content="x", wait=True)
        start(tab, content="y")
        await wait_until(lambda: len([message for message in tab.messages if message["event"] == "error"]) == 3)
        await wait_until(lambda: any(message.get("type") == "content_block_delta" for message in tab.messages))
        tab.send_text({"event": "cancel"})
        await wait_until(lambda: complete_data(tab))

    problems = [message["data"] for message in tab.messages if message["event"] == "error"]
    assert [(data["code"], data["type"]) for data in problems] == [
        (400, "BAD_REQUEST"),
        (400, "BAD_REQUEST"),
        (409, "STILL_RUNNING"),
    ]
    assert complete_data(tab) == [{"code": 499, "type": "CANCELLED", "message": "The run was cancelled."}]


async def test_a_call_without_output_can_be_cancelled(server: Server) -> None:
    async with open_tab(server, path="/services/slow") as tab:
        start(tab)
        await wait_until(lambda: server.engine.active_count)
        tab.send_text({"event": "cancel"})
        await wait_until(lambda: complete_data(tab))

    assert complete_data(tab)[0]["type"] == "CANCELLED"
    assert server.engine.active_count == 0


async def test_closing_a_socket_cancels_its_call(server: Server) -> None:
    async with open_tab(server, path="/services/tutor") as tab:
        start(tab, content="x", wait=True)
        await wait_until(lambda: any(message.get("type") == "content_block_delta" for message in tab.messages))
        (run,) = server.engine._active

    assert run in cancelled_runs


async def test_a_socket_without_a_call_is_closed_after_a_timeout(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_FIRST_CALL_TIMEOUT_S", 0.05)
    async with open_tab(server, path="/services/tutor") as tab:
        await wait_until(lambda: tab.closed)

    assert tab.closed == (1008, "no call was started in time")


async def test_a_socket_with_only_unauthorized_calls_is_closed_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_FIRST_CALL_TIMEOUT_S", 0.05)
    async with keyed_server(rate_per_minute=0) as backend:
        await backend.create_key("invoke")
        async with open_tab(backend.server, path="/services/echo") as tab:
            start(tab, a=1)
            await wait_until(lambda: tab.closed)

    assert complete_data(tab)[0]["type"] == "UNAUTHORIZED"
    assert tab.closed == (1008, "no call was started in time")


async def test_the_first_call_timeout_does_not_end_a_running_call(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_FIRST_CALL_TIMEOUT_S", 0.05)
    async with open_tab(server, path="/services/scripted") as tab:
        start(tab, content="x", script=[{"sleep": 0.3}, {"text": "Late."}])
        await wait_until(lambda: complete_data(tab))
        start(tab, content="Again")
        await wait_until(lambda: len(complete_data(tab)) == 2)

    assert [body["response"] for body in complete_data(tab)] == ["Late.", "Again"]


async def test_a_foreign_origin_cannot_open_a_socket(server: Server) -> None:
    async with open_tab(server, {"origin": "https://evil.example"}, path="/services/tutor") as tab:
        await wait_until(lambda: tab.refused)

    assert tab.refused is not None
    assert tab.refused[0] == 403
    assert tab.refused[1]["type"] == "FOREIGN_ORIGIN"


async def test_a_stopping_server_completes_the_call_and_closes_the_socket(server: Server) -> None:
    connection = FakeConnection()
    async with open_tab(server, path="/services/tutor", connection=connection) as tab:
        start(tab, content="x", wait=True)
        await wait_until(lambda: any(message.get("type") == "content_block_delta" for message in tab.messages))
        assert connection.on_shutdown is not None
        connection.on_shutdown()
        await server.engine.drain(0)
        await wait_until(lambda: tab.closed)

    assert (complete_data(tab)[0]["code"], complete_data(tab)[0]["type"]) == (503, "SHUTTING_DOWN")
    assert tab.closed == (1012, "server shutting down")


async def test_an_idle_socket_is_closed_when_the_server_stops(server: Server) -> None:
    connection = FakeConnection()
    async with open_tab(server, path="/services/tutor", connection=connection) as tab:
        await wait_until(lambda: connection.on_shutdown)
        assert connection.on_shutdown is not None
        connection.on_shutdown()
        await wait_until(lambda: tab.closed)

    assert tab.closed == (1012, "server shutting down")


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    server, connection = Server(Registry([tutor]), Settings(stream_stall=0.2)), FakeConnection()
    async with open_tab(server, path="/services/tutor", connection=connection) as tab:
        tab.can_read.clear()
        start(tab, content="x")
        await wait_until(lambda: connection.aborted)
    await server.close()


async def test_the_key_of_a_socket_authorizes_its_calls() -> None:
    async with keyed_server(rate_per_minute=0) as backend:
        _, header = await backend.create_key("invoke")
        async with open_tab(backend.server, header, path="/services/echo") as tab:
            start(tab, a=1)
            await wait_until(lambda: complete_data(tab))
        async with open_tab(backend.server, path="/services/echo") as anonymous:
            start(anonymous, a=1)
            await wait_until(lambda: complete_data(anonymous))

    assert complete_data(tab)[0]["a"] == 1
    assert complete_data(anonymous)[0]["type"] == "UNAUTHORIZED"
