"""The application: health, metrics, logs, the page, the REST API, mounting, disconnects."""

import asyncio
import logging
import re
import shlex
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from palaver import Context, Message, app, chat
from palaver.core.events import RunStarted
from palaver.demo import calculator, eliza, headline
from palaver.errors import SettingsError, WorkflowNotFound
from palaver.protocols.agenta import invoke
from palaver.protocols.agenta.request import AgentaRequest
from palaver.server.logging_setup import JsonFormatter, TextFormatter
from palaver.server.request import Exchange
from palaver.server.settings import Settings, read_settings
from palaver.server.snippets import curl_command
from palaver.server.streaming import RunStream
from palaver.testing import client, echo, scripted

HELLO = {"messages": [{"role": "user", "content": "Hi"}]}


async def test_health_ready_and_version() -> None:
    async with client(echo) as http:
        waiting = await http.get("/ready")
        await http.get("/api/about")  # Loads the REST API.
        ready, health, version = await http.get("/ready"), await http.get("/health"), await http.get("/version")

    assert (waiting.status_code, waiting.json()) == (503, {"status": "not ready", "waiting": ["api"]})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert health.json() == {"status": "ok"}
    assert version.json() == {"version": "0.1.0"}


async def test_every_response_has_its_own_request_id() -> None:
    async with client(echo) as http:
        answers = [await http.get(path) for path in ("/health", "/nothing", "/echo/inspect", "/api/workflows", "/")]

    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids)


async def test_metrics_count_by_route_and_not_by_path() -> None:
    async with client(echo) as http:
        (await http.post("/echo/invoke", json={})).raise_for_status()
        await http.get("/no/such/path")
        text = (await http.get("/metrics")).text

    assert 'palaver_requests_total{route="invoke",status="200"} 1.0' in text
    assert 'palaver_requests_total{route="none",status="404"} 1.0' in text
    assert "palaver_runs_alive 0.0" in text
    assert "such" not in text


async def test_a_request_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "palaver.access")
    async with client(echo) as http:
        answer = await http.post("/echo/invoke?secret=1", json={"inputs": {"secret": "swordfish"}})
        async with asyncio.timeout(60):
            while not caplog.records:  # noqa: ASYNC110 - written after the response was sent, without an event
                await asyncio.sleep(0.01)

    (record,) = [record for record in caplog.records if record.name == "palaver.access"]
    line = msgspec.json.decode(JsonFormatter().format(record))
    assert {key: line[key] for key in ("level", "method", "path", "status", "run_id", "request_id")} == {
        "level": "info",
        "method": "POST",
        "path": "/echo/invoke",
        "status": 200,
        "run_id": answer.headers["x-palaver-run-id"],
        "request_id": answer.headers["x-request-id"],
    }
    assert "secret" not in JsonFormatter().format(record)
    assert "swordfish" not in TextFormatter().format(record)


def test_a_log_line_cannot_be_forged() -> None:
    record = logging.LogRecord("palaver", logging.INFO, "f", 1, 'GET /a\n{"level": "x"}\x1b[2J', None, None)

    assert "\n" not in JsonFormatter().format(record)
    assert "\n" not in TextFormatter().format(record)
    assert "\x1b" not in TextFormatter().format(record)


async def test_the_start_page_lists_workflows_with_escaped_descriptions() -> None:
    @chat(name="odd", description="<script>alert(1)</script>")
    async def odd(messages: list[Message]) -> str:
        return ""

    async with client(eliza, headline, odd) as http:
        page = await http.get("/")

    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "<h2>eliza <span>chat</span></h2>" in page.text
    assert "<h2>headline <span class=no>single-turn</span></h2>" in page.text
    assert "<script>" not in page.text


def test_a_curl_command_is_quoted_for_the_shell() -> None:
    line = curl_command(headline.description, "http://localhost:8642")

    assert line.startswith("curl http://localhost:8642/headline/invoke \\\n")
    assert line.endswith("""-d '{"inputs":{"text":"Some text."}}'""")


async def test_every_curl_command_of_the_start_page_works_unchanged() -> None:
    statuses: dict[str, int] = {}
    async with client(eliza, headline, calculator, echo) as http:
        page = unescape((await http.get("/")).text)
        for line in re.findall(r"<pre>(curl .*?)</pre>", page, re.DOTALL):
            _, url, _, header, _, data = shlex.split(line.replace("\\\n", " "))
            name, _, value = header.partition(": ")
            answer = await http.post(url, content=data, headers={name: value})
            statuses[url] = answer.status_code

    assert statuses == {f"http://localhost/{name}/invoke": 200 for name in ("calculator", "echo", "eliza", "headline")}


async def test_the_rest_api_lists_and_shows_workflows() -> None:
    async with client(eliza, headline, default="eliza") as http:
        listed = (await http.get("/api/workflows")).json()
        shown = (await http.get("/api/workflows/headline")).json()
        missing = await http.get("/api/workflows/nobody")
        nowhere = await http.get("/api/nowhere")
        about = (await http.get("/api/about")).json()

    assert [(row["name"], row["is_chat"], row["default"]) for row in listed["data"]] == [
        ("eliza", True, True),
        ("headline", False, False),
    ]
    assert shown["routes"] == {
        "invoke": "http://localhost/headline/invoke",
        "responses": "http://localhost/headline/v1/responses",
        "invocations": "http://localhost/headline/invocations",
        "chat_completions": "http://localhost/headline/v1/chat/completions",
        "ui_stream": "http://localhost/headline/api/chat",
        "services": "http://localhost/services/headline",
    }
    assert shown["schemas"]["inputs"]["required"] == ["text"]
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "workflow_not_found")
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "not_found")
    assert about["limits"]["max_body"] == 8 * 1024 * 1024


async def test_every_reference_in_the_openapi_document_resolves() -> None:
    from dataclasses import dataclass

    from palaver import workflow

    @dataclass
    class Point:
        x: int
        y: "int | None" = None

    @workflow
    def move(start: Point, path: list[Point]) -> Point:
        return start

    async with client(move) as http:
        document = (await http.get("/openapi.json")).json()

    references = _references(document)
    assert references
    for reference in references:
        target: Any = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        references = {value["$ref"]} if isinstance(value.get("$ref"), str) else set[str]()
        if isinstance(value.get("discriminator"), dict):
            references |= set(value["discriminator"].get("mapping", {}).values())
        return references.union(*map(_references, value.values()))
    return set[str]().union(*map(_references, value)) if isinstance(value, list) else set[str]()


async def test_a_disconnect_cancels_the_run_unless_on_disconnect_is_finish() -> None:
    ended: dict[str, asyncio.Event] = {"cancelled": asyncio.Event(), "finished": asyncio.Event()}

    async def talk(ctx: Context) -> AsyncIterator[str]:
        try:
            yield "a"
            await asyncio.sleep(0.3)
            ended["finished"].set()
        except asyncio.CancelledError:
            ended["cancelled"].set()
            raise

    @chat
    async def leaving(messages: list[Message], ctx: Context) -> AsyncIterator[str]:
        async for piece in talk(ctx):
            yield piece

    @chat(on_disconnect="finish")
    async def staying(messages: list[Message], ctx: Context) -> AsyncIterator[str]:
        async for piece in talk(ctx):
            yield piece

    async with client(leaving, staying) as http:
        for name in ("leaving", "staying"):
            body = {**HELLO, "flags": {"stream": True}}
            async with http.stream("POST", f"/{name}/invoke", json=body) as answer:
                await anext(answer.aiter_lines())
        async with asyncio.timeout(60):
            await ended["cancelled"].wait()
            await ended["finished"].wait()


async def test_a_silent_stream_is_opened_and_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    from palaver.server import keep_alive, streaming

    monkeypatch.setattr(streaming, "FIRST_FRAME_TIMEOUT_S", 2)
    monkeypatch.setattr(keep_alive, "KEEP_ALIVE_INTERVAL_S", 3)
    init = streaming.StreamMonitor.__init__
    monkeypatch.setattr(
        streaming.StreamMonitor, "__init__", lambda self, **options: init(self, **options, interval=0.02)
    )
    body = {**HELLO, "inputs": {"script": [{"sleep": 0.4}, {"text": "at last"}]}}
    async with client(scripted) as http:
        answer = await http.post("/scripted/invoke", json=body, headers={"accept": "text/event-stream"})
        failing = {**HELLO, "inputs": {"script": [{"sleep": 0.4}, {"raise": "too late for a status"}]}}
        failed = await http.post("/scripted/invoke", json=failing, headers={"accept": "text/event-stream"})

    assert answer.text.startswith(": keep-alive\n\n")
    assert "at last" in answer.text
    assert failed.status_code == 200
    assert '"code":"workflow_failed"' in failed.text
    assert failed.text.rstrip().endswith("}}")


@pytest.mark.parametrize("finished", [True, False])
async def test_keep_alives_open_the_stream_once_and_are_not_sent_after_the_end(finished: bool) -> None:
    sent: list[str] = []

    async def send(message: Any) -> None:
        if message["type"] in sent and message["type"] == "http.response.start":
            raise AssertionError("opened twice")
        sent.append(message["type"])

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    agenta_request = AgentaRequest(form="text/event-stream")
    exchange = Exchange(scope, asyncio.Event().wait, send)  # type: ignore[arg-type]
    stream = RunStream(
        exchange,
        cast("Any", invoke),
        agenta_request,
        column="a",
        cancels_on_disconnect=True,
        on_detached=lambda _: None,
    )
    stream.run = cast("Any", SimpleNamespace(is_finished=finished, log=[]))
    stream._head = invoke.response_head(RunStarted(run_id="run_1", session="s"), agenta_request)

    keep_alives = [stream.send_keep_alive(), stream.send_keep_alive(), stream.send_keep_alive()]
    for keep_alive in keep_alives:
        await keep_alive

    opened = ["http.response.start", "http.response.body", "http.response.body"]
    assert sent == ([] if finished else opened)


def test_app_takes_workflows_and_settings_and_rejects_an_unknown_default() -> None:
    made = app(eliza, headline, default="headline", max_body=1000)

    assert made.registry.default == "headline"
    assert made.settings.max_body == 1000
    with pytest.raises(WorkflowNotFound):
        app(eliza, default="nobody")


def test_settings_come_from_flags_then_variables_then_the_file(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text('port = 1\nthreads = 2\nmax_body = 3\nallowed_hosts = ["a"]\n')
    env = {"PALAVER_PORT": "4", "PALAVER_THREADS": "5", "PALAVER_ALLOWED_ORIGINS": "http://a, http://b", "OTHER": "x"}

    settings, sources = read_settings(flags={"port": 6, "host": None}, env=env, folder=tmp_path)

    expected = Settings(port=6, threads=5, max_body=3, allowed_hosts=("a",), allowed_origins=("http://a", "http://b"))
    assert settings == expected
    assert {name: source for name, source in sources.items() if source != "default"} == {
        "port": "flag",
        "threads": "env",
        "max_body": "file",
        "allowed_hosts": "file",
        "allowed_origins": "env",
    }


@pytest.mark.parametrize(
    ("file", "flags", "message"),
    [
        ("port = [1]", {}, "Invalid setting 'port' in palaver.toml: must be an integer."),
        ("port = ", {}, "Invalid TOML in palaver.toml: "),
        ("", {"host": "0.0.0.0", "debug": True}, "'debug' can't be combined with the public host '0.0.0.0'"),
    ],
)
def test_invalid_settings_are_rejected(tmp_path: Path, file: str, flags: dict[str, Any], message: str) -> None:
    (tmp_path / "palaver.toml").write_text(file)

    with pytest.raises(SettingsError, match=message.replace("[", r"\[").replace(".", r"\.")[:30]):
        read_settings(flags=flags, env={}, folder=tmp_path)


async def test_debug_adds_the_exception_to_the_error_message() -> None:
    async with client(scripted, debug=True) as http:
        answer = await http.post("/scripted/invoke", json={**HELLO, "inputs": {"script": [{"raise": "oh no"}]}})

    assert answer.json()["status"]["message"].endswith("RuntimeError: oh no")


async def test_an_internal_error_is_a_500_with_the_request_id_and_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError(args)

    monkeypatch.setattr("palaver.server.app.require_method", broken)
    async with client(echo) as http:
        answer = await http.get("/health")

    assert answer.status_code == 500
    assert answer.json() == {
        "error": {"code": "internal", "message": f"Internal server error (request {answer.headers['x-request-id']})."}
    }
    assert "ZeroDivisionError" in caplog.text


async def test_the_openapi_document_lists_the_events_of_a_stream() -> None:
    async with client() as http:
        paths = (await http.get("/openapi.json")).json()["paths"]

    for path, method in (("/api/runs/{run}/events", "get"), ("/api/threads/{thread}/turns", "post")):
        schemas = paths[path][method]["responses"]["200"]["content"]["text/event-stream"]["schema"]["anyOf"]
        kinds = {one["properties"]["type"]["enum"][0] for one in schemas}
        assert {"run-started", "text-delta", "tool-result", "run-finished", "run-failed"} <= kinds
