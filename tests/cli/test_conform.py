"""`palaver conform` against scripted servers on loopback, and on recorded streams."""

import io
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from palaver.cli.main import main
from palaver.testing import scripted
from tests.conform import streams
from tests.conform.streams import Frame, sse
from tests.frameworks.fake_servers import ReceivedRequest, fake_server, full_response, response_head, serve_workflows

StreamsByPath = dict[str, list[Frame]]
VALID_STREAMS: StreamsByPath = {
    "/v1/responses": streams.TOOL_ROUND,
    "/invocations": streams.ON_INVOCATIONS,
    "/v1/chat/completions": streams.CHAT,
    "/api/chat": streams.UI,
}
ERROR_BODY = {
    "error": {"message": "No.", "type": "invalid_request", "code": "invalid_type", "param": "input"},
    "detail": "No.",
}
NOT_FOUND = full_response({"error": {"message": "There is nothing here."}}, status="404 Not Found")


def answer_with(
    streams_by_path: StreamsByPath, *, end_frame: bytes = streams.DONE
) -> Callable[[socket.socket, ReceivedRequest], None]:
    """Serve these streams, with valid complete bodies and error responses."""

    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        path = request.line.split(" ")[1]
        frames = streams_by_path.get(path)
        connection.sendall(NOT_FOUND if frames is None else _answer(path, frames, request.body, end_frame))

    return answer


def _answer(path: str, frames: list[Frame], body: Any, end_frame: bytes) -> bytes:
    if path == "/api/chat":
        if body["messages"] == 42:
            return full_response(b"messages must be a list", "text/plain", status="400 Bad Request")
        return response_head(x_vercel_ai_ui_message_stream="v1") + sse(frames, "ui-stream", end=end_frame)
    if body.get("input") == 42 or not ("input" in body or "messages" in body):
        return full_response(ERROR_BODY, status="400 Bad Request")
    if path == "/v1/chat/completions":
        if not body["stream"]:
            return full_response(streams.CHAT_WHOLE)
        frames = streams.CHAT_WITH_USAGE if "stream_options" in body else frames
        return response_head() + sse(frames, "chat-completions", end=end_frame)
    if not body["stream"]:
        return full_response(frames[-1]["response"])
    return response_head() + sse(frames, "responses" if path == "/v1/responses" else "invocations", end=end_frame)


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """Run the command in this process."""

    def run(*arguments: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as exit_info:
            main(["conform", *arguments])
        printed = capsys.readouterr()
        return SimpleNamespace(code=exit_info.value.code, out=printed.out, err=printed.err)

    return run


def rows(out: str) -> list[tuple[str, str, str, list[str]]]:
    """Protocol, check, result and broken rules of every check in a JSON report."""
    return [
        (row["protocol"], row["check"], row["result"], [one["rule"] for one in row["broken"]])
        for row in msgspec.json.decode(out)["checks"]
    ]


def test_a_server_that_follows_every_rule_passes_in_strict_mode(conform: Callable[..., SimpleNamespace]) -> None:
    with fake_server(answer_with(VALID_STREAMS)) as server:
        run = conform(server.url, "--strict", "--json")

    assert (run.code, run.err) == (0, "")
    assert msgspec.json.decode(run.out)["ok"] is True
    assert rows(run.out) == [
        ("responses", "stream", "ok", []),
        ("responses", "whole", "ok", []),
        ("responses", "bad request", "ok", []),
        ("invocations", "stream", "ok", []),
        ("invocations", "whole", "ok", []),
        ("invocations", "bad request", "ok", []),
        ("chat-completions", "stream", "ok", []),
        ("chat-completions", "usage", "ok", []),
        ("chat-completions", "whole", "ok", []),
        ("chat-completions", "bad request", "ok", []),
        ("ui-stream", "stream", "ok", []),
        ("ui-stream", "bad request", "ok", []),
    ]


def test_the_first_broken_rule_is_named_with_its_frame(conform: Callable[..., SimpleNamespace]) -> None:
    gap = [*streams.TOOL_ROUND[:4], *streams.TOOL_ROUND[5:]]
    with fake_server(answer_with({"/v1/responses": gap})) as server:
        run = conform(server.url)

    assert run.code == 1
    line = next(line for line in run.out.splitlines() if "responses" in line and "stream" in line)
    assert "failed" in line
    assert "I4 (must): sequence_number is 5, not 4" in line
    assert '4: {"type":"response.function_call_arguments.done"' in line
    assert "responses, stream, frame 4 (line 13): I4 (must): sequence_number is 5, not 4" in run.out
    assert "    rule: `sequence_number` counts 0, 1, 2, … without gaps." in run.out
    assert "I9 (must, and 1 more): done text is" in run.out
    assert run.out.count("not served") == 3
    assert "404: There is nothing here." in run.out


def test_a_broken_should_rule_is_shown_and_fails_only_in_strict_mode(conform: Callable[..., SimpleNamespace]) -> None:
    with fake_server(answer_with({"/v1/responses": streams.TOOL_ROUND}, end_frame=b"")) as server:
        lenient = conform(server.url, "--protocol", "responses")
        strict = conform(f"{server.url}/v1", "--protocol", "responses", "--strict")

    assert (lenient.code, strict.code) == (0, 1)
    assert "warnings" in lenient.out
    assert "I3b (should): missing [DONE]" in lenient.out


def test_requests_use_the_given_path_prompt_model_and_headers(conform: Callable[..., SimpleNamespace]) -> None:
    with fake_server(answer_with(VALID_STREAMS)) as server:
        run = conform(
            f"{server.url}/v1/chat/completions?key=1",
            *("--prompt", "Hi", "--model", "m", "--header", "authorization: Bearer x"),
        )

    message = {"role": "user", "content": "Hi"}
    assert run.code == 0
    assert {request.line for request in server.requests} == {"POST /v1/chat/completions HTTP/1.1"}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer x"}
    assert [request.body for request in server.requests] == [
        {"model": "m", "messages": [message], "stream": True},
        {"model": "m", "messages": [message], "stream": True, "stream_options": {"include_usage": True}},
        {"model": "m", "messages": [message], "stream": False},
        {"model": "m"},
    ]


def test_the_only_model_of_a_server_is_requested_by_default(conform: Callable[..., SimpleNamespace]) -> None:
    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        if request.line.startswith("GET /v1/models "):
            connection.sendall(full_response({"object": "list", "data": [{"id": "tutor"}]}))
        else:
            answer_with(VALID_STREAMS)(connection, request)

    with fake_server(answer) as server:
        conform(server.url, "--protocol", "responses")
        conform(server.url, "--protocol", "ui-stream", "--ui-version", "5")

    assert [request.body.get("model") for request in server.requests if request.body] == ["tutor"] * 3 + [None] * 2
    assert server.requests[-1].headers["x-palaver-ui-version"] == "5"


def test_error_responses_and_cut_off_or_compressed_streams_break_a_rule(
    conform: Callable[..., SimpleNamespace],
) -> None:
    odd = full_response({"detail": [1]}, status="500 Oops")
    with fake_server(odd) as server:
        crash = conform(server.url, "--protocol", "responses", "--json")
    with fake_server(response_head(content_length="100") + b"data: {}\n\n") as server:
        cut_off = conform(server.url, "--protocol", "ui-stream", "--json")
    with fake_server(response_head(content_encoding="gzip") + b"x") as server:
        coded = conform(server.url, "--protocol", "ui-stream", "--json")

    assert (crash.code, rows(crash.out)[0]) == (1, ("responses", "stream", "broken", ["E1"]))
    assert rows(crash.out)[2] == ("responses", "bad request", "broken", ["E2"])
    assert "the server responded with 500: no message" in crash.out
    assert (cut_off.code, rows(cut_off.out)[0][3]) == (1, ["E1"])
    assert "connection lost" in cut_off.out
    assert (coded.code, rows(coded.out)[0][3]) == (1, ["E1"])


def test_a_stream_that_does_not_end_breaks_a_rule_after_the_timeout(conform: Callable[..., SimpleNamespace]) -> None:
    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        connection.sendall(response_head() + b": wait\n\n")
        server.test_ended.wait(20)

    with fake_server(answer) as server:
        run = conform(f"{server.url}/api/chat", "--timeout", "0.3", "--json")
        server.test_ended.set()

    assert (run.code, rows(run.out)[0]) == (1, ("ui-stream", "stream", "broken", ["E1"]))
    assert "no complete response within 0.3 s" in run.out


def test_servers_that_cannot_be_graded_exit_with_1_and_invalid_arguments_with_2(
    conform: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    recorded = tmp_path / "stream.txt"
    recorded.write_bytes(b"")
    with fake_server(NOT_FOUND) as server:
        not_found = conform(server.url)
    with fake_server(full_response(b"Who are you?", "text/plain", status="401 Unauthorized")) as server:
        refused = conform(server.url, "--json")

    unreachable = conform(f"http://127.0.0.1:{port}")
    assert (not_found.code, refused.code, unreachable.code) == (1, 1, 1)
    assert not_found.out.count("not served") == 4
    assert msgspec.json.decode(refused.out)["ok"] is False
    assert rows(refused.out)[0] == ("responses", "stream", "refused", [])
    assert msgspec.json.decode(refused.out)["checks"][0]["note"] == "401: Who are you?"
    assert unreachable.err.startswith(f"error: Cannot reach http://127.0.0.1:{port}/v1/models: ")
    for arguments, line in {
        (): "Pass either a URL or --file.",
        ("http://a.example", "--file", str(recorded)): "Pass either a URL or --file.",
        ("--file", str(recorded)): "--file requires --protocol.",
        ("ftp://a.example",): "error: Unsupported URL 'ftp://a.example': must start with",
        ("http://a.example", "--header", "x"): "Invalid --header: expected 'NAME: VALUE'.",
        ("http://a.example", "--header", "x: \x1b"): "error: Invalid --header 'x': not allowed in HTTP.",
        ("http://a.example", "--protocol", "smtp"): "Invalid value for '--protocol'",
    }.items():
        run = conform(*arguments)
        assert (run.code, run.out, line in run.err) == (2, "", True), run


def test_a_recorded_stream_is_graded_from_a_file_or_standard_input(
    conform: Callable[..., SimpleNamespace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = tmp_path / "stream.txt"
    recorded.write_bytes(sse(streams.TOOL_ROUND))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sse(streams.UI[:-1], "ui-stream"))))

    good = conform("--file", str(recorded), "--protocol", "responses", "--strict")
    piped = conform("--file", "-", "--protocol", "ui-stream", "--json")

    assert (good.code, "ok" in good.out) == (0, True)
    assert piped.code == 1
    assert rows(piped.out) == [("ui-stream", "stream", "broken", ["U3"])]
    assert msgspec.json.decode(piped.out)["checks"][0]["broken"] == [
        {
            "rule": "U3",
            "severity": "must",
            "frame_index": 13,
            "line": 25,
            "frame": "",
            "why": "the stream ends without finish or abort",
            "says": "`finish` or `abort` is the last part and occurs once.",
        }
    ]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_output_of_a_server_cannot_contain_terminal_escapes(
    conform: Callable[..., SimpleNamespace], tmp_path: Path, form: tuple[str, ...]
) -> None:
    recorded = tmp_path / "stream.txt"
    evil = "\x1b[2J\x9b31m\u202e"
    raw = f'event: {evil}\ndata: {{"type": "{evil}", "x\u202e": "\u009b"}}\n\n'.replace('"\x1b', '"\\u001b')
    recorded.write_bytes(raw.encode() + b"data: \x1b]0;owned\x07\n\n")
    with fake_server(full_response({"error": {"message": evil}}, status="404 Not Found")) as server:
        refused = conform(server.url, *form)

    run = conform("--file", str(recorded), "--protocol", "responses", *form)

    assert (run.code, refused.code) == (1, 1)
    assert [sign for sign in "\x1b\x9b\x07\u202e" if sign in run.out + refused.out] == []


def test_a_palaver_server_passes_in_strict_mode(conform: Callable[..., SimpleNamespace]) -> None:
    with serve_workflows(scripted) as url:
        run = conform(f"{url}/scripted", "--strict", "--json")

    assert [row for row in rows(run.out) if row[2] != "ok"] == []
    assert (run.code, len(rows(run.out))) == (0, 15)


def test_a_service_is_graded_by_its_url_which_must_name_it(conform: Callable[..., SimpleNamespace]) -> None:
    with serve_workflows(scripted) as url:
        scripted_run = conform(f"{url}/services/scripted", "--strict", "--json")
        unknown = conform(f"{url}/services/nobody", "--json")
        nameless = conform(url, "--protocol", "services")

    assert (scripted_run.code, rows(scripted_run.out)) == (
        0,
        [
            ("services", "stream", "ok", []),
            ("services", "whole", "ok", []),
            ("services", "bad request", "ok", []),
        ],
    )
    urls = [row["place"] for row in msgspec.json.decode(scripted_run.out)["checks"]]
    assert urls == [f"{url}/services/scripted/stream", *[f"{url}/services/scripted"] * 2]
    assert (unknown.code, rows(unknown.out)) == (1, [("services", "stream", "not served", [])])
    assert nameless.code == 2
    assert ": expected …/services/NAME." in nameless.err
