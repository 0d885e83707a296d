"""S5, files: the server fetches no URL from the input unless a workflow asks for it."""

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from palaver import Context, File, Message, chat
from palaver.testing import client
from tests.frameworks.fake_servers import FakeServer, fake_server, full_response, response_head
from tests.security.test_histories import PROTOCOLS, image


@chat
async def deaf(messages: list[Message]) -> str:
    """Ignore the messages."""
    return "Noted."


@chat
async def curious(messages: list[Message], ctx: Context) -> str:
    """Fetch every file."""
    parts = [part for message in messages for part in message.parts if isinstance(part, File)]
    return ", ".join([(await ctx.fetch(part)).decode() for part in parts])


@chat
def curious_in_a_thread(messages: list[Message], ctx: Context) -> str:
    """The same, in sync code."""
    parts = [part for message in messages for part in message.parts if isinstance(part, File)]
    return ", ".join([ctx.fetch(part).decode() for part in parts])


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(deaf, curious, curious_in_a_thread) as opened:
        yield opened


@pytest.fixture
def remote_server() -> Iterator[FakeServer]:
    with fake_server(full_response(b"secret", "text/plain")) as server:
        yield server


async def post_image(http: httpx.AsyncClient, name: str, path: str, url: str) -> httpx.Response:
    form, body = PROTOCOLS[path]
    return await http.post(f"/{name}{path}", json=body([image(url)[form]]))


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_file_url_is_not_fetched_unless_a_workflow_requests_it(
    http: httpx.AsyncClient, remote_server: FakeServer, path: str
) -> None:  # S5.4
    answer = await post_image(http, "deaf", path, f"{remote_server.url}/sky.png")

    assert answer.status_code == 200, answer.text
    runs = (await http.get("/api/runs")).json()["data"]
    for run in runs:
        await http.get(f"/api/runs/{run['id']}", params={"include": "input,reply"})
    assert len(runs) == 1
    assert remote_server.requests == []


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize("name", ["curious", "curious_in_a_thread"])
async def test_fetch_of_a_private_url_by_a_workflow_is_rejected(
    http: httpx.AsyncClient, remote_server: FakeServer, name: str, path: str
) -> None:  # S5.4, S6.2
    answer = await post_image(http, name, path, f"{remote_server.url}/sky.png")

    assert "This URL is not allowed." in answer.text
    assert remote_server.url not in answer.text
    assert remote_server.requests == []


async def test_allowed_private_url_is_fetched_without_the_callers_credentials(
    remote_server: FakeServer,
) -> None:  # S5.4, S6.4
    async with client(curious, allow_private_urls=True) as http:
        form, body = PROTOCOLS["/v1/responses"]
        headers = {"authorization": "Bearer abc", "cookie": "a=b", "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        answer = await http.post(
            "/curious/v1/responses", json=body([image(f"{remote_server.url}/sky.png")[form]]), headers=headers
        )

    assert answer.json()["output"][0]["content"][0]["text"] == "secret"
    [request] = remote_server.requests
    assert request.line == "GET /sky.png HTTP/1.1"
    assert {"authorization", "cookie", "traceparent", "baggage"}.isdisjoint(request.headers)


async def test_fetch_follows_no_redirect_and_rejects_a_too_large_file() -> None:  # S6.4
    def moved(connection: socket.socket, _: Any) -> None:
        connection.sendall(response_head(status="302 Found", location="http://127.0.0.1:1/"))

    def endless(connection: socket.socket, _: Any) -> None:
        connection.sendall(response_head("text/plain"))
        for _ in range(12):
            connection.sendall(b"x" * 1024 * 1024)

    results = []
    for respond in (moved, endless):
        with fake_server(respond) as remote:
            async with client(curious, allow_private_urls=True) as http:
                answer = await post_image(http, "curious", "/v1/chat/completions", f"{remote.url}/a")
                results.append((answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["message"]))

    assert results == [
        (502, "upstream_failed", "Cannot fetch the file: the remote service responded with status 302."),
        (502, "upstream_failed", "The response from the remote service exceeds the limit of 10,485,760 bytes."),
    ]


@pytest.mark.parametrize(
    "url",
    [
        "//localhost/api/files/file_01k00000000000000000000000",
        "/api/files/../../etc/passwd",
        "/api/files/file_1?x=1",
        "/elsewhere/api/files/file_1",
        "file:///api/files/file_1",
    ],
)
async def test_url_that_only_resembles_a_file_path_is_rejected(http: httpx.AsyncClient, url: str) -> None:  # S5.4
    answer = await post_image(http, "deaf", "/api/chat", url)

    assert answer.status_code == 400, answer.text


async def test_file_path_on_another_host_is_an_ordinary_url(http: httpx.AsyncClient) -> None:  # S5.4
    answer = await post_image(http, "deaf", "/api/chat", "https://other.example/api/files/file_1")

    assert answer.status_code == 200, answer.text
