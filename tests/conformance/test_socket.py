"""Requests on a tab's WebSocket get the same bytes as requests on separate connections, in every protocol."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import openai
import pytest

from tests.conformance.stored_server import StoredServer, run_second_server, run_stored_server
from tests.postgres import Postgres
from tests.server_process import ServerProcess
from tests.tab_client import TabClient, joined_text, tab_client

SCRIPT: list[dict[str, Any]] = [
    {"reasoning": "Hm. "},
    {"text": "Grüße, "},
    {"text": "世界 👋\u2028\n\n"},
    {"tool_call": {"name": "add", "arguments": {"a": 1, "b": [2, "ö"]}, "id": "call_1"}},
    {"tool_result": {"id": "call_1", "output": "3"}},
    {"data": {"name": "chart", "value": {"x": [1, 2]}}},
    {"text": "Done. "},
    {"usage": {"input_tokens": 3, "output_tokens": 5}},
]
FAILING = [*SCRIPT[:3], {"fail": {"code": "out_of_ink", "message": "Nothing left to write with."}}]
UI: dict[str, Any] = {
    "id": "chat-1",
    "trigger": "submit-message",
    "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}],
}


def request_bodies(script: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    inputs = {"script": script}
    messages = [{"role": "user", "content": "go"}]
    return {
        "/scripted/invocations": {"input": "go", "stream": True, "custom_inputs": inputs},
        "/scripted/v1/responses": {"input": "go", "stream": True, "custom_inputs": inputs},
        "/scripted/v1/chat/completions": {"messages": messages, "stream": True, "custom_inputs": inputs},
        "/scripted/api/chat": {**UI, "custom_inputs": inputs},
        "/scripted/invoke": {"messages": messages, "flags": {"stream": True}, "inputs": inputs},
        "/scripted/run": {"messages": messages, "inputs": inputs},
        "/services/scripted/stream": {"content": "go", **inputs},
    }


PATHS = sorted(request_bodies([]))


def normalize(text: str) -> str:
    """The text with ids and times replaced by placeholders."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "TREE", text)
    text = re.sub(r"\b([0-9a-f]{16}){1,2}\b", "TRACE", text)
    text = re.sub(r"(?<=_)01[0-9a-z]{24}", "ID", text)
    text = re.sub(r'"(created|created_at|completed_at)":\d+(\.\d+)?', r'"\1":0', text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)


@pytest.fixture(scope="module")
def page(server: ServerProcess) -> Iterator[TabClient]:
    with tab_client(server.url) as opened:
        yield opened


numbers = iter(range(1_000))


@pytest.mark.parametrize("script", [SCRIPT, FAILING], ids=["done", "failed"])
@pytest.mark.parametrize("path", PATHS)
def test_a_stream_over_the_socket_equals_the_http_stream(
    http: httpx.Client, page: TabClient, path: str, script: list[dict[str, Any]]
) -> None:
    body, number = request_bodies(script)[path], next(numbers)
    response = http.post(path, json=body)
    page.send(number, path, body)
    messages = page.read_until(number)

    assert normalize(joined_text(messages)) == normalize(response.content.decode())
    assert messages[0]["status"] == response.status_code
    socket_headers = {name: normalize(value) for name, value in messages[0]["headers"].items()}
    expected_headers = {
        name: normalize(value) for name, value in response.headers.items() if name not in ("date", "transfer-encoding")
    }
    assert socket_headers == {
        name: value for name, value in expected_headers.items() if name not in ("connection", "server")
    }


def test_stored_runs_are_the_same_bytes_over_the_socket(http: httpx.Client, page: TabClient) -> None:
    answer = http.post("/scripted/v1/responses", json={"input": "go", "custom_inputs": {"script": SCRIPT}})
    run = answer.headers["x-palaver-run-id"]
    for path in (f"/api/runs/{run}/events", f"/v1/responses/{answer.json()['id']}?stream=true", f"/api/runs/{run}"):
        number = next(numbers)
        page.send(number, path)
        assert joined_text(page.read_until(number)) == http.get(path).text


def test_the_openai_client_reads_a_stream_over_the_socket(server: ServerProcess) -> None:
    """A page's `fetch` over the socket gives clients an ordinary response; this transport does the same in Python."""

    class OverSocket(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            number = next(numbers)
            page.send(number, request.url.raw_path.decode(), json.loads(request.read()))
            while not any(message["id"] == number for message in page.messages):
                page.next()
            head = next(message for message in page.messages if message["id"] == number)

            def pieces() -> Iterator[bytes]:
                frame_count = 0
                while True:
                    mine = [message for message in page.messages if message["id"] == number][1:]
                    for message in mine[frame_count:]:
                        if "data" not in message:
                            return
                        yield message["data"].encode()
                    frame_count = len(mine)
                    page.next()

            return httpx2.Response(head["status"], headers=head["headers"], content=pieces())

    with (
        tab_client(server.url) as page,
        httpx2.Client(transport=OverSocket()) as transport,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", http_client=transport) as client,
    ):
        stream = client.responses.create(
            model="scripted", input="go", stream=True, extra_body={"custom_inputs": {"script": SCRIPT}}
        )
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]

    assert texts == ["Grüße, ", "世界 👋\u2028\n\n", "Done. "]


def test_changes_in_one_process_are_sent_to_the_tabs_of_all_processes(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = postgres.create()
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    with (
        run_stored_server(folders[0], url) as first_server,
        run_second_server(folders[1], first_server) as second_server,
    ):
        _assert_notify_each_other(first_server, second_server)
    postgres.drop(url)


def _assert_notify_each_other(first_server: StoredServer, second_server: StoredServer) -> None:
    headers = {"authorization": f"Bearer {_admin_key(first_server)}"}
    other = {"authorization": f"Bearer {_admin_key(first_server, 'theirs')}"}
    with (
        tab_client(second_server.url, headers) as page,
        tab_client(first_server.url, headers) as first_tab,
        tab_client(second_server.url, other) as foreign,
    ):
        result = httpx.post(
            f"{first_server.url}/api/threads", json={"workflow": "scripted"}, headers=headers, trust_env=False
        )
        thread = result.json()["id"]
        for tab in (page, first_tab):
            tab.wait_for_change({"changed": "thread", "ref": thread})
        body = {"messages": [{"role": "user", "content": "hello"}]}
        turn_response = httpx.post(
            f"{first_server.url}/api/threads/{thread}/turns", json=body, headers=headers, trust_env=False
        )
        run = turn_response.json()["run"]["id"]
        for tab in (page, first_tab):
            tab.wait_for_change({"changed": "run", "ref": run})
            tab.wait_for_change({"changed": "thread", "ref": thread, "run": run})
        foreign.send(1, "/api/about")
        foreign.read_until(1)

    assert foreign.changed == []


def _admin_key(keeper: StoredServer, project: str = "ours") -> str:
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--scope", "admin", "--project", project]
    result = subprocess.run(
        command, env={**os.environ, "PALAVER_DB": keeper.db}, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()
