"""S8: secrets do not leak, and internal errors stay internal."""

import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import connect

from palaver import Message, chat, workflow
from palaver.core.secret_mask import mask_secrets
from palaver.errors import SettingsError
from palaver.server.settings import read_settings
from palaver.testing import client, scripted
from tests.cli.test_commands import palaver
from tests.security.marked_secrets import ODD, PASSWORD, PROVIDER, read_all_traces, secret_span_requests
from tests.server_process import ServerProcess, server_process

CALLER_SECRET = "MARKED-secret-of-a-caller"
WRONG_KEY = "plv_00000000_MARKED" + "0" * 34

APP = """
import os
from palaver import Failure, Message, chat, workflow

SAID = f"Incorrect API key provided: {os.environ['ACME_API_KEY']} ({os.environ['ACME_TOKEN']})"
SAID += " at postgresql://ann:MARKEDpassword@db.example/x with Authorization: Bearer MARKEDbearer0123456789"

@chat
async def early(messages: list[Message]):
    raise RuntimeError(SAID)
    yield ""

@chat
async def late(messages: list[Message]):
    yield "Hel"
    raise RuntimeError(SAID)

@chat
async def good(messages: list[Message], ctx):
    assert all(secret.reveal() for secret in ctx.secrets.values())
    yield "Hello."

@chat
async def leaky(messages: list[Message], ctx, how: str = "fail"):
    said = f"The provider says: bad key {ctx.secrets['api_key'].reveal()}"
    if how == "fail":
        raise Failure("auth_error", said, status=401, details={"said": said})
    raise RuntimeError(said)
    yield ""

@workflow
def plain(text: str = "x") -> str:
    raise ValueError(SAID)
"""

MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
CALLS: dict[str, dict[str, Any]] = {
    "invoke": MESSAGES,
    "run": MESSAGES,
    "test": MESSAGES,
    "v1/chat/completions": MESSAGES,
    "v1/responses": {"input": "Hi", "store": True},
    "responses": {"input": "Hi", "stream": True},
    "invocations": {"input": "Hi"},
    "api/chat": {"id": "c", "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]},
}


class SecretServer(NamedTuple):
    """A real server with keys, all its responses, and the secrets that must not leak."""

    server: ServerProcess
    folder: Path
    responses: list[str]
    key: str
    cookie: str

    @property
    def secrets(self) -> list[str]:
        return [self.key.rpartition("_")[2], self.cookie, "MARKED"]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretServer]:
    folder = tmp_path_factory.mktemp("secrets")
    key = palaver("key", "create", "--scope", "admin", "--db", "palaver.db", cwd=folder).stdout.strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACME_API_KEY", PROVIDER)
        patch.setenv("ACME_TOKEN", ODD)
        with server_process(folder, APP, db=str(folder / "palaver.db"), rate_per_minute="0") as server:
            responses: list[str] = []
            cookie = send_secrets_everywhere(server.url, key, responses)
            yield SecretServer(server, folder, responses, key, cookie)


def send_secrets_everywhere(url: str, key: str, responses: list[str]) -> str:
    """Send each secret wherever possible and record every response. Returns the session cookie."""
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        login = http.post("/api/session", json={"key": key})
        cookie = login.cookies["palaver"]
        http.cookies.clear()

        def send(method: str, path: str, *, more: dict[str, str] | None = None, **options: Any) -> httpx.Response:
            header = {"authorization": f"Bearer {key}"} if more is None else more
            answer = http.request(method, path, headers=header, **options)
            http.cookies.clear()
            responses.append(f"{answer.headers}\n{answer.text}")
            return answer

        # The key and the cookie, in headers that accept them and in places that don't.
        headers: list[dict[str, str]] = [{"authorization": f"ApiKey {key}"}, {"x-api-key": key}, {"api-key": key}]
        headers += [{"cookie": f"palaver={cookie}"}, {"authorization": f"Bearer {WRONG_KEY}"}, {"x-api-key": WRONG_KEY}]
        headers += [{"authorization": f"Basic {key}"}, {"x-api-key": key, "api-key": WRONG_KEY}, {"cookie": f"x={key}"}]
        for more in headers:
            for path in ("/good/invoke", "/good/v1/responses", "/api/threads", "/nothing"):
                send("POST", path, more=more, json={"input": "Hi", "workflow": "good", **MESSAGES})
        for name in ("key", "token", "api_key", "authorization", "palaver"):
            send("GET", f"/version?{name}={key}")
            send("GET", f"/api/runs?{name}={cookie}")
        send("POST", "/api/session", more={}, json={"key": WRONG_KEY})
        http.get(f"/{key}/invoke", headers={"authorization": f"Bearer {key}"})  # Echoed to the sender only.
        # Secrets of callers and of a workflow, which puts them into exceptions.
        for name in ("early", "late", "good", "plain"):
            for path, body in CALLS.items():
                secret = {"secrets": {"key": CALLER_SECRET}, "credentials": CALLER_SECRET} if path == "invoke" else {}
                send("POST", f"/{name}/{path}", json={**body, **secret})
            send("POST", f"/{name}/v1/responses", json={"input": "Hi", "background": True})
            created = send("POST", "/api/threads", json={"workflow": name})
            turn = {"authorization": f"Bearer {key}", "accept": "text/event-stream"}
            send("POST", f"/api/threads/{created.json()['id']}/turns", more=turn, json=MESSAGES)
            send("POST", f"/{name}/inspect", json={})
        # Keys in service payloads and in a socket's URL.
        for name in ("good", "leaky", "echo", "status", "nobody"):
            for route in ("", "/stream"):
                for shown_key in (CALLER_SECRET, key, WRONG_KEY):
                    payload = {"content": "Hi", "api_key": shown_key}
                    send("POST", f"/services/{name}{route}", json=payload)
                    send("POST", f"/services/{name}{route}", more={}, json=payload)
                send(
                    "POST", f"/services/{name}{route}", json={"content": "Hi", "api_key": CALLER_SECRET, "how": "raise"}
                )
            for shown_key in (CALLER_SECRET, key, WRONG_KEY):
                socket_url = f"{url.replace('http', 'ws', 1)}/services/{name}?api_key={shown_key}"
                with connect(socket_url, proxy=None, open_timeout=30) as line:
                    line.send('{"event": "start", "data": {"content": "Hi"}}')
                    while '"complete"' not in (text := str(line.recv(30))):
                        responses.append(text)
                    responses.append(text)
        for path in ("/services", "/services/good", "/services/good/README.md"):
            send("GET", path)
        # In every text field of spans, and in invalid bodies.
        for body, head in secret_span_requests(key, cookie):
            send("POST", "/v1/traces", more={"authorization": f"Bearer {key}", **head}, content=body)
        for path in ("/", "/metrics", "/openapi.json", "/version", "/api/about", "/api/keys", "/api/runs"):
            send("GET", path)
        for path in ("/api/settings", "/api/workflows", "/api/threads/export", "/api/variants/export", "/api/session"):
            send("GET", path)
        for run in send("GET", "/api/runs?limit=200").json()["data"]:
            send("GET", f"/api/runs/{run['id']}?include=input,reply")
            send("GET", f"/api/runs/{run['id']}/events")
        seen = read_all_traces(send)
        assert seen > 30  # The sent spans, and at least one per run.
        return cookie


def leaked_secrets(secrets: list[str], text: str | bytes) -> set[str]:
    raw = text.encode() if isinstance(text, str) else text
    return {secret for secret in secrets if secret.encode() in raw}


def test_no_secret_is_in_a_response(scenario: SecretServer) -> None:  # S8.1
    assert len(scenario.responses) > 150
    assert [
        leaked_secrets(scenario.secrets, responses)
        for responses in scenario.responses
        if leaked_secrets(scenario.secrets, responses)
    ] == []


def test_no_secret_is_in_the_database_or_files_next_to_it(scenario: SecretServer) -> None:  # S8.1
    files = [path for path in scenario.folder.iterdir() if path.is_file() and path.name != "served_app.py"]

    assert {path.name for path in files} >= {"palaver.db", "palaver.db-wal"}
    assert {path.name: leaked_secrets(scenario.secrets, path.read_bytes()) for path in files} == {
        p.name: set() for p in files
    }


def test_database_files_are_accessible_only_to_their_owner(scenario: SecretServer) -> None:  # S8.3
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in scenario.folder.glob("palaver.db*")}

    assert modes == dict.fromkeys(modes, "0o600")
    assert len(modes) >= 2


def test_no_secret_is_in_the_log(scenario: SecretServer) -> None:  # S8.1
    log = "\n".join(scenario.server.lines)

    assert log.count('"traceback"') > 10
    assert "Incorrect API key provided: ***" in log
    assert leaked_secrets(scenario.secrets, log) == set()


def test_no_secret_is_in_a_backup(scenario: SecretServer) -> None:  # S8.1
    created = palaver("backup", "backup.zip", "--db", "palaver.db", cwd=scenario.folder)
    assert created.returncode == 0, created.stderr
    with zipfile.ZipFile(scenario.folder / "backup.zip") as archive:
        files = [archive.read(name) for name in archive.namelist()]
    (scenario.folder / "backup.zip").unlink()

    assert files
    assert [leaked_secrets(scenario.secrets, raw) for raw in files] == [set()] * len(files)


URLS = ["postgresql://ann:MARKEDpassword@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?user=a&password=MARKEDpassword"]
COMMANDS_WITH_URLS = [(line, URLS[0]) for line in ("doctor", "doctor --json", "key list", "serve app.py --port 0")]
COMMANDS_WITH_URLS += [(line, URLS[1]) for line in ("doctor", "migrate")]


@pytest.mark.parametrize(("line", "url"), COMMANDS_WITH_URLS)
def test_database_password_is_never_printed(tmp_path: Path, line: str, url: str) -> None:  # S8.1, S8.3
    (tmp_path / "app.py").write_text("from palaver.testing import echo\n", encoding="utf-8")
    command = [sys.executable, "-m", "palaver.cli", *line.split()]
    environment = {**os.environ, "PALAVER_DB": url}
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60, check=False
    )

    assert leaked_secrets([PASSWORD], ran.stdout + ran.stderr) == set()
    if line.startswith("doctor"):
        assert "***" in ran.stdout


# Detectors

REDACTIONS = [
    (f"key plv_ab12cd34_{'x' * 40} end", "key plv_ab12cd34_*** end"),
    ("Incorrect API key: sk-proj-abcdefgh12345678.", "Incorrect API key: ***."),
    ("Authorization: Bearer abc.def-123456", "Authorization: Bearer ***"),
    ("cookie: palaver=abcdef; x=1", "cookie: palaver=***; x=1"),
    ("at postgresql://ann:pw@host/x?y=1", "at postgresql://ann:***@host/x?y=1"),
    ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ", "jwt ***"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----***"),
    ("plain text, task-force, http://host:80/x@y", "plain text, task-force, http://host:80/x@y"),
]


@pytest.mark.parametrize(("text", "expected"), REDACTIONS)
def test_text_that_looks_like_a_secret_is_masked(text: str, expected: str) -> None:  # S8.1
    assert mask_secrets(text) == expected


@given(st.text(), st.text(min_size=8), st.text())
def test_known_secret_is_masked_anywhere_in_a_text(before: str, secret: str, after: str) -> None:  # S8.1
    assert secret not in mask_secrets(f"{before}{secret}{after}", [secret]).replace("***", "\0")


# Internal errors


@chat
async def early(messages: list[Message]) -> str:
    """Fail before any output."""
    raise RuntimeError("/srv/app/db.py: SELECT * FROM patients; password=hunter2")


@chat
async def late(messages: list[Message]) -> Any:
    """Fail after some output."""
    yield "Hel"
    raise KeyError("/srv/app/db.py: SELECT * FROM patients; password=hunter2")


@workflow
def plain() -> str:
    """A workflow that is not a chat and fails."""
    raise ValueError("/srv/app/db.py: SELECT * FROM patients; password=hunter2")


INTERNALS = ("Traceback", "RuntimeError", "KeyError", "ValueError", "hunter2", "SELECT", "/srv/app", ".py", "File \\")


@pytest.mark.parametrize("name", ["early", "late", "plain"])
async def test_workflow_exception_is_reported_without_its_message(name: str) -> None:  # S8.2
    async with client(early, late, plain) as http:
        for path, call_body in CALLS.items():
            body = {"inputs": {}} if name == "plain" and call_body is MESSAGES else call_body
            streams = [] if path in ("run", "test") else ["text/event-stream", "application/x-ndjson"]
            for accept in ("application/json", *streams):
                answer = await http.post(f"/{name}/{path}", json=body, headers={"accept": accept})
                (run,) = set(re.findall(r"The workflow failed \(run (run_\w+)\)\.", answer.text))
                events = await http.get(f"/api/runs/{run}/events")
                assert [word for word in INTERNALS if word in answer.text + events.text] == [], path


FAILING = """
from palaver import chat

@chat
async def broken(messages):
    raise LookupError("No such city: Atlantis")
"""
FAILING_CALLS: dict[str, dict[str, Any]] = {
    "invoke": {"messages": []},
    "v1/responses": {"input": "Hi."},
    "v1/chat/completions": {"messages": [{"role": "user", "content": "Hi."}]},
    "api/chat": {"messages": []},
}


def test_a_server_without_keys_on_loopback_shows_the_exception_and_its_trace(tmp_path: Path) -> None:  # S8.2
    with (
        server_process(tmp_path, FAILING, db=str(tmp_path / "palaver.db")) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        for path, body in FAILING_CALLS.items():
            answer = http.post(f"/broken/{path}", json=body)
            text = rf"\(run run_\w+\)\. LookupError: No such city: Atlantis\. Trace: {server.url}/(traces/[0-9a-f]+)"
            shown = re.search(text, answer.text)
            assert shown is not None, answer.text
            deadline = time.monotonic() + 60
            while http.get(f"/api/{shown[1]}").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)


@pytest.mark.parametrize("strangers", ["keys", "proxy"])
def test_a_server_that_others_can_reach_shows_neither_exception_nor_trace(  # S8.2
    tmp_path: Path, strangers: str
) -> None:
    database, headers = str(tmp_path / "palaver.db"), {}
    if strangers == "keys":
        command = [sys.executable, "-m", "palaver.cli", "key", "create", "--db", database]
        key = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
        headers = {"authorization": f"Bearer {key}"}
    settings = {"allowed_hosts": "palaver.example.org"} if strangers == "proxy" else {}
    with (
        server_process(tmp_path, FAILING, db=database, **settings) as server,
        httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http,
    ):
        for path, body in FAILING_CALLS.items():
            text = http.post(f"/broken/{path}", json=body).text
            assert re.search(r"The workflow failed \(run run_\w+\)\.", text), text
            assert [word for word in ("LookupError", "Atlantis", "Trace") if word in text] == [], path


async def test_internal_server_error_reveals_no_details(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # S8.2
    from palaver.server import endpoints

    def broken(*_: Any) -> Any:
        raise RuntimeError("/srv/app/db.py: SELECT * FROM patients; password=hunter2")

    monkeypatch.setattr(endpoints.ServerEndpoints, "response", broken)
    monkeypatch.setattr(endpoints, "inspect_workflow", broken)
    async with client(early) as http:
        answer = await http.get("/version")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert [word for word in INTERNALS if word in answer.text] == []


async def test_debug_mode_shows_errors_and_is_allowed_only_on_loopback(tmp_path: Path) -> None:  # S8.2
    async with client(early, debug=True) as http:
        answer = await http.post("/early/invoke", json=MESSAGES)

    assert "RuntimeError: /srv/app/db.py" in answer.text
    assert "Traceback" not in answer.text
    async with client(scripted, debug=True) as http:
        steps = [{"raise": f"Incorrect API key provided: {PROVIDER}"}]
        answer = await http.post("/scripted/invoke", json={**MESSAGES, "inputs": {"script": steps}})
    assert "RuntimeError: Incorrect API key provided: ***" in answer.text
    with pytest.raises(SettingsError):
        read_settings(flags={"debug": True, "host": "0.0.0.0"}, env={}, folder=tmp_path)


# Sizes

WORDS = ["a", "abcdefgh", "é", "x" * 50, "x" * 51, "x" * 300, "\u2028", '"']


def padded_deltas(text: str) -> list[str]:
    frames = [frame for frame in re.split("(?<=\n\n)", text) if '"obfuscation"' in frame]
    return [frame for frame in frames if "delta" in frame]


@pytest.mark.parametrize("path", ["v1/responses", "v1/chat/completions"])
async def test_obfuscation_pads_deltas_to_multiples_of_64_bytes(path: str) -> None:  # S8.4
    script = [{"text": word} for word in WORDS] + [{"reasoning": "Hm."}, {"text": "z"}]
    body = {"stream": True, "inputs": {"script": script}, "input": "x", "messages": [{"role": "user", "content": "x"}]}
    body = {**body, "custom_inputs": {"script": script}}
    if path == "v1/responses":
        del body["messages"]
    else:
        del body["input"]
    async with client(scripted, obfuscate=True) as http:
        text = (await http.post(f"/scripted/{path}", json=body)).text
    async with client(scripted) as http:
        unpadded = (await http.post(f"/scripted/{path}", json=body)).text

    frames = padded_deltas(text)
    assert len(frames) >= len(WORDS)
    assert "obfuscation" not in unpadded
    assert {msgspec.json.decode(frame.partition("data: ")[2])["obfuscation"].strip("0") for frame in frames} == {""}
    ascii_frames = [frame for frame in frames if frame.isascii() and "u2028" not in frame]
    assert {len(frame) % 64 for frame in ascii_frames[1:]} == {0}


async def test_replayed_stream_has_the_same_padding() -> None:  # S8.4
    async with client(scripted, obfuscate=True) as http:
        body = {"input": "one two three", "stream": True}
        text = (await http.post("/scripted/v1/responses", json=body)).text
        name = re.findall(r"resp_\w+", text)[0]
        replayed = (await http.get(f"/scripted/v1/responses/{name}?stream=true")).text

    assert padded_deltas(text)
    assert padded_deltas(replayed) == padded_deltas(text)
