"""S4, bodies and volume: limits are enforced while reading, and violations are answered at once."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver.testing import client, echo, scripted
from tests.server_process import ServerProcess, is_closed_by_server, raw_status, send_raw, server_process
from tests.tab_client import handshake_request

PONG = b"\x8a\x00"
HELLO = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("bodies")
    with server_process(folder, header_seconds="1", body_seconds="1", max_body="100000") as running:
        yield running


def post(port: int, head: str, body: bytes = b"") -> bytes:
    lines = f"POST /echo/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{head}\r\n"
    return send_raw(port, lines.encode() + body)


def test_content_length_over_the_limit_is_rejected_before_the_body_arrives(server: ServerProcess) -> None:  # S4.3
    answer = post(server.port, "Content-Length: 999999999\r\n")

    assert raw_status(answer) == 413
    assert b'"type":"too_large"' in answer


def test_chunked_body_over_the_limit_is_rejected_while_reading(server: ServerProcess) -> None:  # S4.3
    chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"

    assert raw_status(post(server.port, "Transfer-Encoding: chunked\r\n", chunk * 11)) == 413


def test_stalled_body_is_answered_with_408(server: ServerProcess) -> None:  # S4.3
    answer = post(server.port, "Content-Length: 100\r\n", b'{"inputs"')

    assert raw_status(answer) == 408
    assert b'"type":"request_timeout"' in answer


def test_stalled_headers_are_answered_with_408(server: ServerProcess) -> None:  # S4.3
    assert raw_status(send_raw(server.port, b"GET /health HTTP/1.1\r\nHost: local")) == 408


def test_endless_headers_are_answered_with_431(server: ServerProcess) -> None:  # S4.3
    endless = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"x-a: b\r\n" * 10_000

    assert raw_status(send_raw(server.port, endless)) == 431


def test_client_that_is_still_sending_receives_the_rejection(server: ServerProcess) -> None:
    request_start = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    closing = "Connection: close\r\nContent-Length: 5000000\r\n"

    assert [raw_status(post(server.port, closing, b" " * 5_000_000)) for _ in range(10)] == [413] * 10
    assert [raw_status(send_raw(server.port, request_start + b"x-a: " + b"b" * 3_000_000)) for _ in range(20)] == [
        431
    ] * 20


def test_connection_is_closed_after_a_rejection(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"x-a: b\r\n" * 10_000)
        answer = b""
        while piece := line.recv(65536):
            answer += piece
        assert is_closed_by_server(line)

    assert answer == b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def test_connection_is_closed_if_the_rest_of_a_rejected_body_never_arrives(server: ServerProcess) -> None:
    head = b"POST /echo/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: 200000\r\n\r\n"

    def send_first_half(line: socket.socket) -> None:
        line.sendall(head)
        assert raw_status(line.recv(65536)) == 413
        line.sendall(b" " * 100_000)

    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as continuing,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent,
    ):
        send_first_half(continuing)
        continuing.sendall(b" " * 100_000 + handshake_request())
        assert raw_status(continuing.recv(65536)) == 101
        send_first_half(silent)
        with suppress(ConnectionError):
            assert silent.recv(65536) == b""
        # The time of the other connection began earlier: it would be over by now.
        continuing.sendall(b"\x89\x80" + bytes(4))
        received = b""
        while PONG not in received:  # Among events of other tests' runs.
            piece = continuing.recv(65536)
            assert piece, "the socket was closed"
            received += piece


def test_invalid_request_during_a_response_adds_no_second_response(server: ServerProcess) -> None:
    body = b'{"data": {"inputs": {"messages": [], "script": [{"text": "begin"}, {"sleep": 2}, {"text": "end"}]}}}'
    request_head = b"POST /scripted/invoke HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
    request_head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(request_head + body)
        answer = b""
        while b"begin" not in answer:
            answer += line.recv(65536)
        line.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"x-a: b\r\n" * 10_000)
        with suppress(ConnectionError):
            while piece := line.recv(65536):
                answer += piece

    assert raw_status(answer) == 200
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("line", "headers", "expected"),
    [
        ("GET /health?" + "a" * 9000, "", 414),
        ("GET /health", "x-long: " + "a" * 33_000 + "\r\n", 431),
        ("GET /health", "x-long: " + "a" * 8193 + "\r\n", 431),
        ("GET /health", "x-long: " + "a" * 8192 + "\r\n", 200),
        ("GET /health", "".join(f"x-{n}: {'a' * 8000}\r\n" for n in range(4)), 200),
        ("GET /health", "".join(f"x-{n}: 1\r\n" for n in range(101)), 431),
    ],
    ids=["url", "all headers", "one header", "largest header", "large headers", "many headers"],
)
def test_large_urls_and_headers_are_refused(
    server: ServerProcess, line: str, headers: str, expected: int
) -> None:  # S4.3
    answer = send_raw(server.port, f"{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())

    assert raw_status(answer) == expected


async def test_every_json_limit_is_configurable() -> None:
    bodies = {
        "max_json_depth": b'{"inputs": {"a": [[[[[]]]]]}}',
        "max_json_keys": b'{"inputs": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}}',
        "max_json_items": b'{"inputs": {"a": [1, 2, 3, 4, 5, 6, 7]}}',
        "max_string": b'{"inputs": {"a": "1234567"}}',
    }
    results: dict[str, tuple[int, str]] = {}
    for setting, body in bodies.items():
        limit: dict[str, Any] = {setting: 5}
        async with client(echo, **limit) as http:
            answer = await http.post("/echo/invoke", content=body, headers={"content-type": "application/json"})
            results[setting] = answer.status_code, answer.json()["status"]["type"]

    assert results == {
        "max_json_depth": (400, "too_deep"),
        "max_json_keys": (400, "invalid_value"),
        "max_json_items": (400, "invalid_value"),
        "max_string": (413, "too_large"),
    }


async def test_last_of_repeated_json_keys_wins() -> None:  # S4.2
    async with client(echo) as http:
        answer = await http.post(
            "/echo/invoke", content=b'{"inputs": {"a": 1, "a": 2}}', headers={"content-type": "application/json"}
        )

    assert answer.json() == {"a": 2}


@pytest.mark.parametrize(
    ("settings", "steps", "code", "status_code"),
    [
        ({"run_seconds": 0.2}, [{"sleep": 30}], "timeout", 504),
        ({"run_events": 20}, [{"repeat": {"times": 100, "steps": [{"text": "a"}]}}], "too_many_events", 500),
        ({"run_bytes": 100}, [{"repeat": {"times": 100, "steps": [{"text": "aaaaa"}]}}], "too_large", 500),
    ],
    ids=["seconds", "events", "bytes"],
)
async def test_a_run_over_its_limit_fails_with_a_code(
    settings: dict[str, Any], steps: list[object], code: str, status_code: int
) -> None:
    async with client(scripted, **settings) as http:
        answer = await http.post("/scripted/invoke", json={**HELLO, "inputs": {"script": steps}})

    assert (answer.status_code, answer.json()["status"]["type"]) == (status_code, code)


async def test_full_server_answers_503_with_retry_after() -> None:
    async with client(scripted, max_streams_total=1) as http:
        slow_call = {**HELLO, "inputs": {"script": [{"text": "a"}, {"sleep": 30}]}, "flags": {"stream": True}}
        async with http.stream("POST", "/scripted/invoke", json=slow_call) as first:
            second = await http.post("/scripted/invoke", json=HELLO)
            assert first.status_code == 200

    assert (second.status_code, second.json()["status"]["type"]) == (503, "overloaded")
    assert second.headers["retry-after"] == "1"


@pytest.mark.parametrize("content", ["\u0000", "\U0001f469\u200d\U0001f680", "\u202e", "\x1b[31m"])
async def test_any_text_is_returned_unchanged(content: str) -> None:  # S4.1
    async with client(echo) as http:
        answer = await http.post("/echo/invoke", json={"inputs": {"a": content}})

    assert answer.json() == {"a": content}


HISTORIES = [
    ("a result without its call", [{"role": "tool", "tool_call_id": "c9", "content": "4"}], 400, "unknown_call"),
    ("a file by a foreign scheme", [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}
    ], 400, "invalid_value"),
    ("too many messages", [{"role": "user", "content": "a"}] * 2001, 400, "invalid_value"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "status_code", "code"), [case[1:] for case in HISTORIES], ids=[case[0] for case in HISTORIES]
)
async def test_a_hostile_history_is_refused(messages: list[object], status_code: int, code: str) -> None:  # S5
    async with client(scripted) as http:
        answer = await http.post("/scripted/invoke", json={"messages": messages})

    assert (answer.status_code, answer.json()["status"]["type"]) == (status_code, code)
    assert answer.json()["status"]["errors"][0]["pointer"].startswith("/messages")


def test_doctor_lists_every_setting(tmp_path: Path) -> None:  # S4.3
    import subprocess
    import sys

    import msgspec

    from palaver.server.settings import Settings

    run = subprocess.run(
        [sys.executable, "-m", "palaver.cli", "doctor", "--json"], capture_output=True, check=True, cwd=tmp_path
    )

    names = {row["name"] for row in msgspec.json.decode(run.stdout)["settings"]}
    assert names == {field.name for field in msgspec.structs.fields(Settings)}


def test_httpx_parses_the_response(server: ServerProcess) -> None:
    answer = httpx.post(f"{server.url}/echo/invoke", json={"inputs": {"a": [1]}}, trust_env=False)

    assert answer.json() == {"a": [1]}
