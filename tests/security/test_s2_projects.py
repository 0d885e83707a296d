"""S2.5: objects of another project are invisible: every request is answered as for an unknown id.

Each request is sent to two servers: one where another project has the objects, and an empty one. Their responses are
compared byte by byte.
"""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from palaver.core.api_keys import format_key_id
from palaver.server import routing
from palaver.server.routing import WORKFLOW_ROUTES
from tests.server.keyed_server import KeyedServer, keyed_server

CALL_BODIES = {
    "invoke": {"messages": [{"role": "user", "content": "x"}]},
    "run": {"messages": [{"role": "user", "content": "x"}]},
    "test": {"messages": [{"role": "user", "content": "x"}]},
    "invocations": {"input": "x"},
    "responses": {"input": "x"},
    "v1/responses": {"input": "x"},
    "v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "api/chat": {"messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "x"}]}]},
}
"""A call in every protocol."""

BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("PUT", "/api/boards/{board:str}"): {"name": "Taken"},
    ("PUT", "/api/views/{view:str}"): {"name": "Taken", "body": {}},
    ("PUT", "/api/runs/{run:str}/feedback"): {"rating": "up"},
    ("POST", "/api/threads/{thread:str}/messages"): {"messages": [{"role": "user", "content": "x"}]},
    ("PATCH", "/api/threads/{thread:str}"): {"title": "Taken"},
    ("PATCH", "/api/keys/{key_id:str}"): {"name": "Taken"},
    ("PATCH", "/api/variants/{variant:str}"): {"name": "taken"},
    ("POST", "/api/variants/{variant:str}/versions"): {"base": 1, "parameters": {}},
    ("PATCH", "/api/testsets/{testset:str}"): {"name": "Taken"},
    ("POST", "/api/testsets/{testset:str}/revisions"): {"base": 1, "rows": []},
    ("POST", "/api/testsets/{testset:str}/rows/from"): {"base": 1, "source": {"kind": "trace", "trace_id": "0"}},
    ("POST", "/api/reviews/{review:str}/items/{item:str}/answers"): {"answers": {"correct": True}},
    ("POST", "(v1/)?conversations/{id}"): {"metadata": {"a": "b"}},
    ("POST", "(v1/)?conversations/{id}/items"): {"items": [{"type": "message", "role": "user", "content": "x"}]},
}
"""Bodies that routes validate before they look up the object."""
QUERIES = {
    "/api/variants/{variant:str}/diff": "?from=1&to=2",
    "/api/testsets/{testset:str}/diff": "?from=1&to=1",
    "/api/testsets/{testset:str}/revisions/{revision:str}/export": "?format=jsonl",
    "/api/evaluations/{evaluation:str}/export": "?format=jsonl",
}
SERVER_WIDE_PREFIXES = ("/api/workflows/", "/api/connections/", "/api/projects/", "/api/evaluators/")
"""Workflows, evaluators and connections belong to the server; only administrators see projects (S2.4)."""


class ComparableResponse(NamedTuple):
    """A response without the headers that differ between any two."""

    status: int
    body: bytes
    headers: frozenset[tuple[str, str]]


def comparable_response(answer: httpx.Response) -> ComparableResponse:
    varying_headers = ("x-request-id", "date", "server-timing")
    return ComparableResponse(
        answer.status_code,
        answer.content,
        frozenset((k, v) for k, v in answer.headers.items() if k not in varying_headers),
    )


class ProjectObjects(NamedTuple):
    """One object of each kind, by the name of the path parameter."""

    ids: dict[str, str]
    cursors: dict[str, str]
    header: dict[str, str]


async def create_objects(server: KeyedServer) -> ProjectObjects:
    """Create the objects of the project team-a."""
    key, header = await server.create_key(project="team-a")
    http, ids = server.http, {"key_id": format_key_id(key.id), "number": "1"}

    async def create(path: str, body: Any, **headers: str) -> dict[str, Any]:
        answer = await http.post(path, json=body, headers=header | headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    response = await create("/scripted/v1/responses", {"input": "secret of team-a"})
    ids["response"], ids["run"] = response["id"], response["id"].replace("resp_", "run_")
    item = {"type": "message", "role": "user", "content": "secret of team-a"}
    ids["conversation"] = (await create("/v1/conversations", {"items": [item]}))["id"]
    items = (await http.get(f"/v1/conversations/{ids['conversation']}/items", headers=header)).json()
    ids["item"] = items["data"][0]["id"]
    conversation = {"workflow": "scripted", "messages": [{"role": "user", "content": "secret of team-a"}]}
    ids["thread"] = (await create("/api/threads", conversation))["id"]
    messages = (await http.get(f"/api/threads/{ids['thread']}/messages", headers=header)).json()
    ids["message"] = messages["data"][0]["id"]
    kind = {"content-type": "application/pdf", "x-palaver-filename": "secret.pdf"}
    file = await http.post("/api/files", content=b"secret", headers=header | kind)
    ids["file_id"] = file.json()["id"]
    ids["variant"] = (await create("/api/workflows/scripted/variants", {"name": "ours", "parameters": {}}))["id"]
    ids["board"] = (await create("/api/boards", {"name": "ours"}))["id"]
    ids["view"] = (await create("/api/views", {"page": "traces", "name": "ours", "body": {}}))["id"]
    rows = [{"data": {"messages": "secret of team-a", "expected": "x"}}]
    ids["testset"] = (await create("/api/testsets", {"name": "ours", "rows": rows}))["id"]
    row_page = (await http.get(f"/api/testsets/{ids['testset']}/revisions/1/rows", headers=header)).json()
    ids |= {"revision": "1", "row": row_page["data"][0]["id"], "cell": "cell_0"}
    evaluation = {"variants": [{"name": "ours", "column": "expected"}], "evaluators": [{"key": "exact_match"}]}
    ids["evaluation"] = (await create("/api/evaluations", evaluation | {"testset": {"id": ids["testset"]}}))["id"]
    await http.get(f"/api/evaluations/{ids['evaluation']}/events", headers=header)  # Until it has ended.
    judged = {"items": {"run": ids["evaluation"]}, "questions": [{"key": "correct"}]}
    ids["review"] = (await create("/api/reviews", judged))["id"]
    ids["rule"] = (await create("/api/online", {"name": "ours", "evaluators": [{"key": "refusal"}]}))["id"]
    (await http.put(f"/api/runs/{ids['run']}/feedback", json={"rating": "up"}, headers=header)).raise_for_status()
    ids |= {"trace": "0af7651916cd43dd8448eb211c80319c", "span": "b7ad6b7169203331", "session": "s-1"}
    span: dict[str, Any] = {"traceId": ids["trace"], "spanId": ids["span"], "name": "secret of team-a"}
    span["attributes"] = [{"key": "session.id", "value": {"stringValue": ids["session"]}}]
    other_span = span | {"traceId": ids["trace"][::-1]}
    await create("/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": [span, other_span]}]}]})
    await create("/v1/responses", {"model": "scripted", "input": "another"})
    await create("/api/threads", conversation)
    cursors = {}
    for path in ("/api/runs", "/api/threads", "/api/traces"):
        page = (await http.get(f"{path}?limit=1", headers=header)).json()
        cursors[path] = page["next"]
    return ProjectObjects(ids, cursors, header)


class ServerPair(NamedTuple):
    """A server where another project has objects, and an empty one. A key of team-b calls both."""

    full: KeyedServer
    empty: KeyedServer
    objects: ProjectObjects
    in_full: dict[str, str]
    in_empty: dict[str, str]
    before: list[list[bytes]]
    """What team-a saw of its objects at the start."""

    async def unchanged(self) -> bool:
        """Whether team-a still sees the same."""
        now = await visible_objects(self)
        if not self.before:
            self.before.append(now)
        return now == self.before[0]

    async def same(self, method: str, path: str, body: Any = None, **headers: str) -> ComparableResponse:
        """Return the response, which must be the same from both."""
        request: dict[str, Any] = {} if body is None else {"json": body}
        full = comparable_response(
            await self.full.http.request(method, path, headers=self.in_full | headers, **request)
        )
        empty = comparable_response(
            await self.empty.http.request(method, path, headers=self.in_empty | headers, **request)
        )
        assert full == empty, (method, path)
        assert b"secret" not in full.body
        return full


@pytest.fixture(scope="module")
async def servers() -> AsyncIterator[ServerPair]:
    async with keyed_server(rate_per_minute=0) as full, keyed_server(rate_per_minute=0) as empty:
        _, in_full = await full.create_key(project="team-b")
        _, in_empty = await empty.create_key(project="team-b")
        pair = ServerPair(full, empty, await create_objects(full), in_full, in_empty, [])
        await pair.unchanged()
        yield pair


async def visible_objects(servers: ServerPair) -> list[bytes]:
    """Return all that team-a sees of its objects."""
    ids, http = servers.objects.ids, servers.full.http
    paths = [f"/api/runs/{ids['run']}?include=input,reply", f"/v1/responses/{ids['response']}"]
    paths += [f"/v1/conversations/{ids['conversation']}/items", f"/api/threads/{ids['thread']}/tree"]
    paths += [f"/api/threads/{ids['thread']}", f"/api/files/{ids['file_id']}", f"/api/variants/{ids['variant']}"]
    paths += [f"/api/traces/{ids['trace']}", f"/api/spans/{ids['trace']}/{ids['span']}"]
    paths += [f"/api/reviews/{ids['review']}", f"/api/online/{ids['rule']}"]
    paths += [f"/api/evaluations/{ids['evaluation']}", f"/api/testsets/{ids['testset']}/revisions"]
    paths += [f"/api/boards/{ids['board']}", f"/api/variants/{ids['variant']}/versions", "/api/feedback", "/api/keys"]
    responses = [await http.get(path, headers=servers.objects.header) for path in paths]
    assert {answer.status_code for answer in responses} == {200}
    return [answer.content for answer in responses[:-1]]


async def test_api_paths_to_another_projects_objects_are_not_found(servers: ServerPair) -> None:  # S2.5
    count = 0
    for route in servers.full.server.rest_api._app.routes:
        if "{" not in route.path or route.path.startswith(SERVER_WIDE_PREFIXES) or "/_" in route.path:
            continue
        path = route.path.replace(":str", "").replace(":int", "").format_map(servers.objects.ids)
        for method in sorted(route.methods - {"OPTIONS"}):
            body = BODIES.get((method, route.path), {} if method in ("POST", "PUT", "PATCH") else None)
            answer = await servers.same(method, path + QUERIES.get(route.path, ""), body)
            assert answer.status == 404, (method, path, answer.body)
            count += 1

    assert count >= 26
    assert await servers.unchanged()


async def test_protocol_paths_treat_another_projects_objects_as_unknown(servers: ServerPair) -> None:  # S2.5
    count = 0
    for name, _, endpoint in routing._PATTERNS:
        if "{id}" not in name:
            continue
        kinds = {"chat": "thread", "conversations": "conversation", "files": "file_id"}
        kind = next((kind for word, kind in kinds.items() if word in name), "response")
        ids = {"id": servers.objects.ids[kind], "item": servers.objects.ids["item"]}
        for route_name in [name.removeprefix("(v1/)?"), name.replace("(v1/)?", "v1/")]:
            for path in (f"/{route_name}".format_map(ids), f"/scripted/{route_name}".format_map(ids)):
                for method in endpoint.methods:
                    if "chat" in name and not path.startswith("/scripted"):
                        continue  # Without a default workflow there is no chat at the root.
                    body = BODIES.get((method, name), {} if method == "POST" else None)
                    answer = await servers.same(method, path, body)
                    expected = {204} if name.endswith("/stream") else {200, 204} if name.endswith("/stop") else {404}
                    assert answer.status in expected, (method, path, answer)
                    count += 1

    assert count >= 50
    assert await servers.unchanged()


@pytest.mark.parametrize("query", ["stream=true", "stream=true&starting_after=0", "stream=true&starting_after=99"])
async def test_stream_of_another_project_cannot_be_resumed(servers: ServerPair, query: str) -> None:  # S2.5
    ids = servers.objects.ids
    for path in (f"/v1/responses/{ids['response']}?{query}", f"/scripted/responses/{ids['response']}?{query}"):
        assert (await servers.same("GET", path)).status == 404
    assert (await servers.same("GET", f"/api/runs/{ids['run']}/events?after=0")).status == 404
    assert (await servers.same("GET", f"/api/runs/{ids['run']}/events", **{"last-event-id": "0"})).status == 404


@pytest.mark.parametrize(
    "route", ["/v1/responses", "/scripted/v1/responses", "/scripted/responses", "/scripted/invocations"]
)
@pytest.mark.parametrize(
    "body",
    [
        {"previous_response_id": "{response}"},
        {"conversation": "{conversation}"},
        {"conversation": "{thread}"},
        {"conversation": {"id": "{conversation}"}},
        {"input": [{"type": "item_reference", "id": "{item}"}]},
        {"previous_response_id": "{response}", "stream": True},
        {"conversation": "{conversation}", "background": True},
    ],
)
async def test_request_body_cannot_continue_another_projects_conversation(
    servers: ServerPair, route: str, body: Any
) -> None:  # S2.5
    request = {"model": "scripted", "input": "x", **fill_ids(body, servers.objects.ids)}

    assert (await servers.same("POST", route, request)).status == 404
    assert await servers.unchanged()


def fill_ids(value: Any, ids: dict[str, str]) -> Any:
    match value:
        case str():
            return value.format_map(ids)
        case dict():
            return {key: fill_ids(inner, ids) for key, inner in value.items()}
        case list():
            return [fill_ids(inner, ids) for inner in value]
        case _:
            return value


@pytest.mark.parametrize("name", CALL_BODIES)
async def test_headers_cannot_refer_to_another_projects_objects(servers: ServerPair, name: str) -> None:  # S2.5
    ids = servers.objects.ids
    in_thread = {"x-palaver-thread": ids["thread"], "x-palaver-answer": ids["message"]}

    thread = await servers.same("POST", f"/scripted/{name}", CALL_BODIES[name], **in_thread)
    variant = await servers.same(
        "POST", f"/scripted/{name}", CALL_BODIES[name], **{"x-palaver-variant": ids["variant"]}
    )
    version = await servers.same(
        "POST", f"/scripted/{name}", CALL_BODIES[name], **{"x-palaver-variant": f"{ids['variant']}:1"}
    )

    assert thread.status == 404
    assert {variant.status, version.status} <= {400, 422}  # A variant is a parameter of the call.
    assert await servers.unchanged()


async def test_service_headers_cannot_refer_to_another_projects_thread(servers: ServerPair) -> None:  # S2.5
    ids = servers.objects.ids
    in_thread = {"x-palaver-thread": ids["thread"], "x-palaver-answer": ids["message"]}
    body = {"content": "x", "meta": {"session_id": ids["thread"]}}

    assert (await servers.same("POST", "/services/scripted", body, **in_thread)).status == 404
    assert await servers.unchanged()


def test_call_bodies_cover_every_protocol_route() -> None:  # S2.5
    assert CALL_BODIES.keys() == {name for name, endpoint in WORKFLOW_ROUTES.items() if endpoint.kind == "call"}


async def test_chat_in_another_projects_thread_is_not_found(servers: ServerPair) -> None:  # S2.5
    body = CALL_BODIES["api/chat"] | {"id": servers.objects.ids["thread"]}

    assert (await servers.same("POST", "/scripted/api/chat", body)).status == 404


@pytest.mark.parametrize("path", ["/api/runs", "/api/threads", "/api/traces"])
async def test_cursor_of_another_project_is_rejected_like_a_damaged_one(servers: ServerPair, path: str) -> None:  # S2.5
    answer = await servers.same("GET", f"{path}?limit=1&after={servers.objects.cursors[path]}")
    damaged = await servers.full.http.get(f"{path}?limit=1&after=AAAA", headers=servers.in_full)

    assert answer == comparable_response(damaged)
    assert answer.status == 400


LIST_PATHS = ["/api/runs?thread={thread}", "/api/runs?board={board}", "/api/runs?key={key_id}", "/api/feedback"]
LIST_PATHS += ["/api/runs?variant={variant}", "/api/runs?search=secret", "/api/threads?search=secret", "/api/files"]
LIST_PATHS += ["/api/boards", "/api/threads/export?search=secret", "/api/threads/export", "/api/sessions"]
LIST_PATHS += ["/api/traces", "/api/traces?search=secret", "/api/traces/stats?group=session", "/api/traces/export"]


@pytest.mark.parametrize("path", LIST_PATHS)
async def test_lists_and_filters_show_no_objects_of_another_project(servers: ServerPair, path: str) -> None:  # S2.5
    answer = await servers.same("GET", path.format_map(servers.objects.ids))

    assert answer.status == 200
    assert answer.body in (b"", b'{"data":[],"next":null}', b'{"data":[]}')


MESSAGE_WITH_FILE = {"role": "user", "content": [{"type": "file", "file": {"file_id": "{file_id}"}}]}


@pytest.mark.parametrize(
    "fields", [{"messages": [MESSAGE_WITH_FILE]}, {"cell": {"board": "{board}", "row": "r", "column": "c"}}]
)
async def test_new_thread_cannot_use_another_projects_objects(servers: ServerPair, fields: Any) -> None:  # S2.5

    body = {"workflow": "scripted", **fill_ids(fields, servers.objects.ids)}

    assert (await servers.same("POST", "/api/threads", body)).status == 404
    assert await servers.unchanged()


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("turns", {"parent": "{message}", "messages": [{"role": "user", "content": "x"}]}),
        ("turns", {"again": "{message}"}),
        ("turns", {"messages": [MESSAGE_WITH_FILE]}),
        ("turns", {"variant": "{variant}", "messages": [{"role": "user", "content": "x"}]}),
        ("messages", {"parent": "{message}", "messages": [{"role": "user", "content": "x"}]}),
        ("messages", {"replaces": "{message}", "messages": [{"role": "user", "content": "x"}]}),
        ("messages", {"messages": [MESSAGE_WITH_FILE]}),
        ("duplicate", {"upto": "{message}"}),
    ],
)
async def test_existing_thread_cannot_use_another_projects_objects(
    servers: ServerPair, route: str, body: Any
) -> None:  # S2.5
    responses: list[ComparableResponse] = []
    for server, header in ((servers.full, servers.in_full), (servers.empty, servers.in_empty)):
        thread = (await server.http.post("/api/threads", json={"workflow": "scripted"}, headers=header)).json()["id"]
        request = fill_ids(body, servers.objects.ids)
        responses.append(
            comparable_response(await server.http.post(f"/api/threads/{thread}/{route}", json=request, headers=header))
        )
        (await server.http.delete(f"/api/threads/{thread}", headers=header)).raise_for_status()

    assert responses[0] == responses[1]
    assert responses[0].status == (422 if "variant" in body else 404)  # A variant is a parameter of the call.
    assert await servers.unchanged()
