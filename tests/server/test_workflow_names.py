"""A workflow may have any name, also that of a route: its own routes come first, and the server's others still work."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from palaver.server.routing import _PATTERNS, PAGE_SEGMENTS, SERVER_ROUTES, SERVICE_ROUTES, WORKFLOW_ROUTES
from tests.server_process import ServerProcess, server_process

NAMES = sorted(
    {
        *(name.removeprefix("(v1/)?").partition("/")[0] for name, _, _ in _PATTERNS),
        *(path.partition("/")[0] for path in (*WORKFLOW_ROUTES, *SERVER_ROUTES, *SERVICE_ROUTES)),
        *PAGE_SEGMENTS,
        *("docs", "assets", "files", "runs", "mcp", "models", "input_tokens", "default", "chat", "stream", "palaver"),
    }
)
"""The first segments of all routes, and other words of their paths."""
SOURCE = f"""
from palaver import Message, chat

def declare(name):
    @chat(name=name)
    def answer(messages: list[Message]):
        return f"{{name}}: {{messages[-1].text}}"

    return answer

globals().update({{f"workflow_{{index}}": declare(name) for index, name in enumerate({NAMES!r})}})
"""
MESSAGES = [{"role": "user", "content": "Hi"}]
UI_BODY = {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("names"), SOURCE) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def ok(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, (answer.request.url, answer.text)
    return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_with_the_name_of_a_route_answers_in_every_protocol(http: httpx.Client, name: str) -> None:
    said = f"{name}: Hi"
    # Below /v1, `responses` and `conversations` belong to OpenAI's clients: they are at the root, for every workflow.
    without_v1 = ["invocations"] if name == "v1" else ["invocations", "responses"]

    for method in ("GET", "POST"):
        body = {} if method == "POST" else None
        assert (
            ok(http.request(method, f"/{name}/inspect", json=body))["meta"]["palaver"]["routes"]["invoke"]
            == f"/{name}/invoke"
        )
    for route in ("invoke", "run", "test"):
        assert said in json.dumps(ok(http.post(f"/{name}/{route}", json={"messages": MESSAGES})))
    for route in (*without_v1, "v1/responses"):
        assert ok(http.post(f"/{name}/{route}", json={"input": "Hi"}))["output"][0]["content"][0]["text"] == said
    completion = ok(http.post(f"/{name}/v1/chat/completions", json={"messages": MESSAGES}))
    assert completion["choices"][0]["message"]["content"] == said
    assert said in ok(http.post(f"/{name}/api/chat", json=UI_BODY))
    assert http.get(f"/{name}/api/chat/chat-1/stream").status_code == 204
    assert http.post(f"/{name}/api/chat/chat-1/stop", json={}).status_code == 204
    assert [model["id"] for model in ok(http.get(f"/{name}/v1/models"))["data"]] == [name]
    assert ok(http.get(f"/{name}/v1/models/{name}"))["id"] == name
    assert ok(http.get(f"/{name}/agent/info"))["name"] == name


@pytest.mark.parametrize("name", NAMES)
def test_stored_objects_below_a_workflow_with_the_name_of_a_route(http: httpx.Client, name: str) -> None:
    for version in ("/v1",) if name == "v1" else ("/v1", ""):
        response_id = ok(http.post(f"/{name}/v1/responses", json={"input": "Hi"}))["id"]
        path = f"/{name}{version}/responses/{response_id}"
        assert ok(http.get(path))["model"] == name
        assert ok(http.get(f"{path}/input_items"))["data"][0]["content"][0]["text"] == "Hi"
        assert http.post(f"{path}/cancel", json={}).json()["error"]["code"] == "not_cancellable"
        assert ok(http.delete(path))["deleted"] is True
        conversations = f"/{name}{version}/conversations"
        conversation = ok(http.post(conversations, json={"metadata": {"a": "b"}}))["id"]
        path = f"{conversations}/{conversation}"
        assert ok(http.post(path, json={"metadata": {"a": "c"}}))["metadata"] == {"a": "c"}
        items = [{"role": "user", "content": "Hi"}]
        item = ok(http.post(f"{path}/items", json={"items": items}))["data"][0]["id"]
        assert ok(http.get(f"{path}/items/{item}"))["content"][0]["text"] == "Hi"
        assert ok(http.delete(path))["deleted"] is True


@pytest.mark.parametrize("name", NAMES)
def test_a_service_with_the_name_of_a_route(server: ServerProcess, http: httpx.Client, name: str) -> None:
    # POST /services/invoke calls the workflow `services`, as there is one; the others are free.
    if name != "conversations" and name not in WORKFLOW_ROUTES:
        assert ok(http.post(f"/services/{name}", json={"content": "Hi"}))["response"] == f"{name}: Hi"
    if name != "inspect":
        assert ok(http.get(f"/services/{name}"))["name"] == name
    assert f"{name}: Hi" in ok(http.post(f"/services/{name}/stream", json={"content": "Hi"}))
    assert name in ok(http.get(f"/services/{name}/README.md"))
    with connect(f"ws://localhost:{server.port}/services/{name}", proxy=None, open_timeout=30) as connection:
        connection.send(json.dumps({"event": "start", "data": {"content": "Hi"}}))
        while (message := json.loads(connection.recv(30)))["event"] != "complete":
            pass
    assert message["data"]["response"] == f"{name}: Hi"


def test_the_routes_of_the_server_still_work_beside_such_workflows(http: httpx.Client) -> None:
    for route in SERVER_ROUTES:
        assert http.get(f"/{route}").status_code == 200, route
    for path in (
        "/api/about",
        "/api/workflows",
        "/api/runs",
        "/api/files",
        "/api/bootstrap",
        "/services",
        "/v1/models",
    ):
        assert http.get(path).status_code == 200, path
    for segment in PAGE_SEGMENTS:
        home = http.get("/play").status_code  # 404 where the page is not built.
        assert {http.get(f"/{segment}{id_}").status_code for id_ in ("", "/one", "/invoke")} == {home}, segment
    response = ok(http.post("/v1/responses", json={"model": "v1", "input": "Hi"}))
    assert response["output"][0]["content"][0]["text"] == "v1: Hi"
    for path in (f"/v1/responses/{response['id']}", f"/responses/{response['id']}"):
        assert ok(http.get(path))["id"] == response["id"]
    conversation = ok(http.post("/v1/conversations", json={}))["id"]
    for path in (f"/v1/conversations/{conversation}", f"/conversations/{conversation}"):
        assert ok(http.get(path))["id"] == conversation
    assert ok(http.get("/agent/info")) == {"name": "palaver", "use_case": "agent", "agent_api": "responses"}


def test_without_a_workflow_of_that_name_paths_below_a_route_are_unknown(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source = "from palaver.testing import scripted"
    with server_process(tmp_path_factory.mktemp("plain"), source) as plain, httpx.Client(base_url=plain.url) as http:
        rest = http.post("/api/invoke", json={})
        service = http.post("/services/invoke", json={"content": "Hi"})
        response = http.get("/responses/inspect")

    assert (rest.status_code, rest.json()["error"]["code"]) == (404, "not_found")
    assert (service.status_code, service.json()["type"]) == (404, "NOT_FOUND")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "response_not_found")
