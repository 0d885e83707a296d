"""Job Chat with OpenFn's clients: a real server and the real SDK, with a fake model behind them.

The package of the `openfn` command, @openfn/cli, is not available from npm here. drivers/openfn_apollo.mjs sends its
recorded messages with its WebSocket client and its logger, which are.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver_jobchat.testing import FakeAnthropic
from tests.conformance.node_drivers import run_node
from tests.conformance.test_services import call_socket, open_socket, without_ids
from tests.jobchat.scenarios import edit, replace
from tests.server_process import ServerProcess, server_process

JOB = "get('/patients');\n"
PAYLOAD = {
    "content": "send them instead",
    "context": {"expression": JOB, "adaptor": "@openfn/language-http@6.5.4", "page_name": "my_job"},
    "suggest_code": True,
    "meta": {"session_id": "s-1", "user": {"id": "u-1"}},
    "api_key": "sk-ant-of-lightning-12345",
}


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeAnthropic]:
    with FakeAnthropic(lambda _: edit(replace("get(", "post("), text="I'll send them.")) as server:
        yield server


@pytest.fixture(scope="module")
def server(fake: FakeAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("jobchat")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", fake.url)
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        settings = {"jobchat_online": "0", "jobchat_cache": str(folder / "cache")}
        with server_process(folder, "from palaver_jobchat import app\n", **settings) as running:
            yield running


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        yield client


def test_http_stream_and_socket_return_the_same_answer(
    server: ServerProcess, http: httpx.Client, fake: FakeAnthropic
) -> None:
    response = http.post("/services/job_chat", json=PAYLOAD)
    streamed = http.post("/services/job_chat/stream", json=PAYLOAD)
    with open_socket(server, "/services/job_chat") as line:
        messages = call_socket(line, PAYLOAD)

    body = response.json()
    assert body["suggested_code"] == "post('/patients');\n"
    assert body["meta"]["job_chat"]["adaptor"] == {
        "name": "@openfn/language-http",
        "version": "6.5.4",
        "docs": "exact",
        "source": "bundled",
    }
    events = re.findall(r"event: (\w+)\ndata: (.+)\n\n", streamed.text)
    assert events[0][0] == "message_start"
    assert json.loads(events[-1][1]) == body
    assert messages[-1] == {"event": "complete", "data": body}
    logs = [message["data"] for message in messages if message["event"] == "log"]
    assert logs == ["Reading the job", "Searching the docs", "Thinking", "Writing code"]
    expected_events = [
        {"event": "event", "type": name, "data": json.loads(data)} for name, data in events[:-1] if name != "log"
    ]
    socket_events = [message for message in messages if message["event"] == "event"]
    assert without_ids(json.dumps(socket_events)) == without_ids(json.dumps(expected_events))
    assert {request.key for request in fake.requests} == {PAYLOAD["api_key"]}
    assert not [request for request in fake.requests if "u-1" in json.dumps(request.body)]


def test_the_service_is_described_by_its_list_entry_schema_and_readme(http: httpx.Client) -> None:
    services = http.get("/services").json()["services"]
    one = http.get("/services/job_chat").json()

    assert [entry["name"] for entry in services] == ["echo", "job_chat", "status"]
    assert one["is_chat"] is True
    assert one["summary"].startswith("Helps people write OpenFn jobs")
    assert set(one["inputs"]["properties"]) >= {"context", "meta", "suggest_code", "use_new_prompt", "refresh_rag"}
    assert http.get("/services/job_chat/README.md").text.startswith("# Job Chat")


def openfn_apollo(server: ServerProcess, service: str, payload: Path, way: str) -> tuple[Any, str]:
    """Return the result that the command prints, and its log."""
    run = run_node("drivers/openfn_apollo.mjs", way, service, payload, server.url)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), run.stderr


@pytest.mark.parametrize("way", ["socket", "post"])
def test_the_openfn_command_gets_the_answer_and_the_log(
    server: ServerProcess, http: httpx.Client, tmp_path: Path, way: str
) -> None:
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps(PAYLOAD), encoding="utf-8")
    expected = http.post("/services/job_chat", json=PAYLOAD).json()

    result, log = openfn_apollo(server, "job_chat", payload, way)

    assert result == expected
    lines = ["Reading the job", "Searching the docs", "Thinking", "Writing code"] if way == "socket" else []
    assert re.findall(r"\[APO\]\s+\S+\s+(.+)", re.sub(r"\x1b\[\d+m", "", log)) == lines


@pytest.mark.parametrize("way", ["socket", "post"])
@pytest.mark.parametrize(
    ("service", "content", "code", "kind"),
    [("job_chat", " ", 400, "BAD_REQUEST"), ("workflow_chat", "Hello", 404, "NOT_FOUND")],
)
def test_the_openfn_command_gets_errors_as_results(
    server: ServerProcess, tmp_path: Path, way: str, service: str, content: str, code: int, kind: str
) -> None:
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps({"content": content}), encoding="utf-8")

    result, _ = openfn_apollo(server, service, payload, way)

    assert (result["code"], result["type"]) == (code, kind)


def palaver(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "palaver.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False)


def test_palaver_call_uses_the_running_server(server: ServerProcess, http: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text(json.dumps(PAYLOAD), encoding="utf-8")
    expected = http.post("/services/job_chat", json=PAYLOAD).json()

    call_output = palaver("call", "job_chat", "payload.json", "-O", "--url", server.url, folder=tmp_path)
    streamed = palaver("call", "job_chat", "payload.json", "--stream", "--url", server.url, folder=tmp_path)
    (tmp_path / "wrong.json").write_text('{"content": " "}', encoding="utf-8")
    refused = palaver("call", "job_chat", "wrong.json", "--url", server.url, folder=tmp_path)

    assert (call_output.returncode, json.loads(call_output.stdout)) == (0, expected)
    assert (streamed.returncode, json.loads(streamed.stdout)) == (0, expected)
    assert "I'll send them." in streamed.stderr
    assert (refused.returncode, refused.stdout) == (1, "")
    error: dict[str, Any] = json.loads(refused.stderr.splitlines()[-1])
    assert (error["code"], error["type"]) == (400, "BAD_REQUEST")
