"""`palaver call` with the payload of a service, in process and on a server."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from palaver.cli import call
from palaver.cli.output import request_failure
from palaver.protocols.services.adapter import VERSION
from tests.cli.test_commands import palaver
from tests.server_process import server_process

APP = '''
from palaver import Data, Failure, Message, chat, workflow

@chat
async def mechanic(messages: list[Message], ctx, context: dict | None = None):
    """Repairs code."""
    ctx.log("Reading the job")
    yield "I will "
    yield "rename it."
    if messages[-1].text == "fail":
        raise Failure("overloaded", "Try again \\u202e.", details={"retry_after": 10})
    old = (context or {}).get("expression", "")
    yield Data(name="reply", value={"suggested_code": old.replace("foo", "bar")})

@workflow
def shout(text: str) -> str:
    return text.upper()
'''
PAYLOAD = '{"content": "Rename foo", "history": [], "context": {"expression": "foo();"}}'
DOCUMENT = {
    "response": "I will rename it.",
    "history": [
        {"role": "user", "content": "Rename foo"},
        {"role": "assistant", "content": "I will rename it."},
    ],
    "usage": {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    },
    "meta": {},
    "suggested_code": "bar();",
}
ERROR_OBJECT = {"code": 503, "type": "OVERLOADED", "message": "Try again \u202e.", "details": {"retry_after": 10}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "payload.json").write_text(PAYLOAD, encoding="utf-8")
    return tmp_path


def test_the_response_of_a_service_is_printed_or_written_to_a_file(folder: Path) -> None:
    printed = palaver("call", "app.py:mechanic", "payload.json", "-O", cwd=folder)
    saved = palaver("call", "app.py:mechanic", "-", "-o", "reply.json", cwd=folder, stdin=PAYLOAD)

    assert (printed.returncode, printed.stderr, msgspec.json.decode(printed.stdout)) == (0, "", DOCUMENT)
    assert (saved.returncode, saved.stdout) == (0, "")
    assert (folder / "reply.json").read_text(encoding="utf-8") == printed.stdout


def test_a_stream_prints_its_text_to_stderr_and_the_response_to_stdout(folder: Path) -> None:
    run = palaver("call", "app.py:mechanic", "payload.json", "--stream", cwd=folder)

    assert (run.returncode, run.stderr) == (0, "I will rename it.\n")
    assert msgspec.json.decode(run.stdout) == DOCUMENT


def test_a_failure_is_printed_as_one_line_with_the_error_object(folder: Path) -> None:
    payload = '{"content": "fail"}'
    unstreamed = palaver("call", "app.py:mechanic", "-", "-o", "reply.json", cwd=folder, stdin=payload)
    streamed = palaver("call", "app.py:mechanic", "-", "--stream", cwd=folder, stdin=payload)
    refused = palaver("call", "app.py:mechanic", "-", "--stream", cwd=folder, stdin="{}")

    assert (unstreamed.returncode, streamed.returncode, refused.returncode) == (1, 1, 1)
    assert (unstreamed.stdout, streamed.stdout, refused.stdout) == ("", "", "")
    assert msgspec.json.decode(unstreamed.stderr) == ERROR_OBJECT
    assert "\u202e" not in unstreamed.stderr
    text, error = streamed.stderr.splitlines()
    assert (text, msgspec.json.decode(error)) == ("I will rename it.", ERROR_OBJECT)
    assert msgspec.json.decode(refused.stderr)["message"] == "content is required"
    assert not (folder / "reply.json").exists()


def test_a_workflow_that_is_not_a_chat_takes_the_whole_payload(folder: Path) -> None:
    run = palaver("call", "app.py:shout", "-", cwd=folder, stdin='{"text": "hello"}')

    assert (run.returncode, run.stdout, run.stderr) == (0, '"HELLO"\n', "")


def test_conflicting_output_options_are_a_usage_error(folder: Path) -> None:
    run = palaver("call", "app.py:mechanic", "payload.json", "-o", "x.json", "-O", cwd=folder)

    assert run.returncode == 2
    assert "error: -o can't be combined with -O." in run.stderr


def test_a_service_on_a_server_is_called_by_name_and_by_url(folder: Path) -> None:
    with server_process(folder, APP) as server:
        by_name = palaver("call", "mechanic", "payload.json", "--url", f"{server.url}/", cwd=folder)
        streamed = palaver("call", "mechanic", "payload.json", "--url", server.url, "--stream", cwd=folder)
        of_workflow = palaver("call", f"{server.url}/mechanic", "payload.json", cwd=folder)
        of_service = palaver("call", f"{server.url}/services/mechanic/", "payload.json", cwd=folder)
        status = palaver("call", "status", "-", "--url", server.url, cwd=folder, stdin="{}")
        unknown = palaver("call", "nobody", "payload.json", "--url", server.url, cwd=folder)

    assert msgspec.json.decode(by_name.stdout) == DOCUMENT
    assert (streamed.stdout, streamed.stderr) == (by_name.stdout, "I will rename it.\n")
    assert of_workflow.stdout == of_service.stdout == by_name.stdout
    assert msgspec.json.decode(status.stdout) == {"database": "working", "version": VERSION}
    assert unknown.returncode == 1
    assert msgspec.json.decode(unknown.stderr) == {
        "code": 404,
        "type": "NOT_FOUND",
        "message": "There is no service named 'nobody'.",
    }


@contextmanager
def fake_service(status: int, content_type: str, body: bytes) -> Iterator[str]:
    """A server that answers every request with this response."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def event(name: str, **data: Any) -> bytes:
    typed = {"type": name, **data} if name.startswith("content") else data
    return b"event: %b\r\ndata: %b\r\n\r\n" % (name.encode(), msgspec.json.encode(typed))


TEXT_BLOCK_START = event("content_block_start", content_block={"type": "text"})
BLOCK_STREAM = b"".join(
    [
        b": hello\r\n\r\n",
        TEXT_BLOCK_START,
        event("content_block_delta", delta={"type": "text_delta", "text": "One"}),
        event("content_block_delta", delta={"type": "thinking_delta", "thinking": "not told"}),
        TEXT_BLOCK_START,
        event("content_block_delta", delta={"type": "text_delta", "text": "two"}),
        event("changes", code="x"),
    ]
)


@pytest.mark.parametrize(
    ("status", "body", "code", "out", "err"),
    [
        (200, BLOCK_STREAM + b"event: complete\r\ndata: [1]\r\n\r\n", 0, "[1]\n", "One\ntwo\n"),
        (200, BLOCK_STREAM, 1, "", "One\ntwo\nerror: The stream ended unexpectedly.\n"),
        (502, b"<html>", 1, "", "error: The server responded with status 502.\n"),
        (500, b'{"code": 500, "message": "No."}', 1, "", '{"code":500,"message":"No."}\n'),
    ],
)
def test_streams_of_other_services_are_printed_or_reported_as_errors(
    tmp_path: Path, status: int, body: bytes, code: int, out: str, err: str
) -> None:
    with fake_service(status, "text/event-stream", body) as url:
        run = palaver("call", "x", "-", "--stream", "--url", url, cwd=tmp_path, stdin='{"content": "Hi"}')

    assert (run.returncode, run.stdout, run.stderr) == (code, out, err)


def test_an_unreachable_url_is_a_one_line_error(tmp_path: Path) -> None:
    run = palaver("call", "http://127.0.0.1:1/services/x", "-", cwd=tmp_path, stdin="{}")

    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("error: Cannot reach http://127.0.0.1:1/services/x")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx.ConnectTimeout(""), "Cannot reach http://x/a: timed out."),
        (
            httpx.ConnectError("All connection attempts failed"),
            "Cannot reach http://x/a: All connection attempts failed.",
        ),
        (httpx.ConnectError(""), "Cannot reach http://x/a: connection failed."),
        (httpx.ReadTimeout(""), "Request to http://x/a timed out."),
        (httpx.ReadError(""), "Connection to http://x/a lost."),
        (httpx.RemoteProtocolError("peer closed"), "Connection to http://x/a lost: peer closed."),
        (httpx.DecodingError("bad gzip."), "Request to http://x/a failed: bad gzip."),
        (httpx.TooManyRedirects(""), "Request to http://x/a failed: TooManyRedirects."),
    ],
)
def test_a_failed_request_is_described_by_its_cause(error: httpx.HTTPError, message: str) -> None:
    assert request_failure("http://x/a", error) == message


@pytest.mark.parametrize(
    ("name", "payload", "is_service"),
    [
        ("job_chat", {"content": "Hi"}, True),
        ("job_chat", {}, True),
        ("job_chat", {"parameters": {}}, True),
        ("job_chat", [], True),
        ("job_chat", {"inputs": {}}, False),
        ("job_chat", {"data": {}}, False),
        ("job_chat", {"messages": []}, False),
        ("http://localhost:1/services/job_chat", {"inputs": {}}, True),
        ("http://localhost:1/job_chat/invoke", {"content": "Hi"}, False),
        ("http://localhost:1/job_chat", {"content": "Hi"}, True),
        ("http://localhost:1/job_chat", {"messages": []}, False),
    ],
)
def test_the_url_or_else_the_payload_decides_whether_a_service_is_called(
    name: str, payload: Any, is_service: bool
) -> None:
    assert call.is_service_call(name, payload) is is_service


@pytest.mark.parametrize(
    ("url", "expected_url"),
    [
        ("http://h:1/tutor", "http://h:1/services/tutor"),
        ("http://h:1/services/tutor", "http://h:1/services/tutor"),
        ("http://h:1/services/tutor/stream", "http://h:1/services/tutor"),
        ("https://h/behind/a/proxy/tutor/", "https://h/behind/a/proxy/services/tutor"),
        ("https://h/behind/services/tutor?x=1", "https://h/behind/services/tutor"),
    ],
)
def test_the_service_url_is_derived_from_the_workflow_url(url: str, expected_url: str) -> None:
    assert call.service_url(url) == expected_url
