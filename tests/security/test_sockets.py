"""S1, S2 and S4 on real WebSockets: who may open one, and what closes it."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from tests.server_process import ServerProcess, is_closed_by_server, raw_status, send_raw, server_process
from tests.tab_client import handshake_request, joined_text, tab_client

TEBIBYTE_FRAME_START = b"\x81\xff" + (1 << 40).to_bytes(8, "big") + bytes(4)
"""Start of a text frame of that size."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("sockets"), ws_ping="1") as running:
        yield running


def handshake_status(server: ServerProcess, path: str = "/api/socket", host: str = "localhost", more: str = "") -> int:
    return raw_status(send_raw(server.port, handshake_request(path, host, more), seconds=5))


def close_code_after(server: ServerProcess, message: str | bytes | list[str]) -> int | None:
    """Return the close code of a socket after these bytes."""
    with tab_client(server.url) as page:
        with suppress(ConnectionClosedError):
            page.connection.send(message, text=True)
        with pytest.raises(ConnectionClosedError) as closed:
            page.next()
    return closed.value.rcvd.code if closed.value.rcvd else None


def test_socket_is_refused_for_foreign_hosts_and_origins(server: ServerProcess) -> None:  # S1.2, S1.3
    assert (
        handshake_status(server, more=f"Origin: http://localhost:{server.port}\r\n", host=f"localhost:{server.port}")
        == 101
    )
    assert handshake_status(server, host="evil.example") == 421
    assert handshake_status(server, more="Origin: https://evil.example\r\n") == 403
    assert handshake_status(server, more="Origin: null\r\n") == 403
    assert handshake_status(server, more=f"Origin: http://localhost:{server.port + 1}\r\n") == 403
    assert handshake_status(server, more="Sec-Fetch-Site: cross-site\r\n") == 403


def test_other_paths_have_no_socket(server: ServerProcess) -> None:  # S1.7
    paths = (
        "/",
        "/echo/invoke",
        "/services/echo/stream",
        "/api/%73ocket",
        "/api//socket",
        "/api/socket;a",
        "/api/socket/..",
    )

    assert {path: handshake_status(server, path) for path in paths} == dict.fromkeys(paths, 404)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /api/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"POST /api/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        handshake_request(more="X: " + "y" * 9000 + "\r\n"),
        handshake_request(more="Host: localhost\r\n"),
        handshake_request().replace(b"13", b"12"),
    ],
)
def test_invalid_websocket_handshake_is_answered_with_4xx_and_closed(
    server: ServerProcess, request_: bytes
) -> None:  # S1.2, S4.3
    since = time.monotonic()
    answer = send_raw(server.port, request_, seconds=60)

    assert 400 <= raw_status(answer) < 500, answer
    assert time.monotonic() - since < 30


def test_too_large_message_closes_the_socket_with_1009(server: ServerProcess) -> None:  # S4.3
    message = '{"id": 1, "path": "/health", "body": "' + "x" * (1024 * 1024) + '"}'

    assert close_code_after(server, message) == 1009
    assert close_code_after(server, [message[:300_000]] * 5) == 1009


def test_client_that_is_still_sending_receives_the_close_code(server: ServerProcess) -> None:  # S4.3
    too_large = "x" * 1_100_000

    assert [close_code_after(server, [too_large] * 5) for _ in range(10)] == [1009] * 10


def test_server_closes_the_connection_after_its_close_frame(server: ServerProcess) -> None:  # S4.3
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(handshake_request())
        received = line.recv(4096)
        line.sendall(TEBIBYTE_FRAME_START)
        while piece := line.recv(4096):
            received += piece
        assert is_closed_by_server(line)

    assert (1009).to_bytes(2, "big") in received.partition(b"\r\n\r\n")[2]


def test_invalid_utf8_closes_the_socket_with_1007(server: ServerProcess) -> None:  # S4.1
    assert close_code_after(server, b"\xff\xfe") == 1007


def test_socket_that_answers_no_ping_is_closed_with_1011(server: ServerProcess) -> None:  # S4.3
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(handshake_request())
        received = b""
        while piece := line.recv(4096):  # Reads everything and never responds.
            received += piece

    frames = received.partition(b"\r\n\r\n")[2]
    assert frames.startswith(b"\x89\x04")
    assert b"\x88" in frames
    assert (1011).to_bytes(2, "big") in frames


def test_socket_that_answers_pings_stays_open(server: ServerProcess) -> None:
    with tab_client(server.url) as page:
        with pytest.raises(TimeoutError):
            page.next(4)
        page.send(1, "/health")
        assert joined_text(page.read_until(1)) == '{"status":"ok"}'


def test_socket_needs_a_key_with_scope_and_closes_when_it_is_revoked(tmp_path: Path) -> None:  # S2.1, S2.4, S2.6
    db = str(tmp_path / "palaver.db")

    def palaver(*arguments: str) -> str:
        command = [sys.executable, "-m", "palaver.cli", "key", *arguments, "--db", db]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    admin, invokes = palaver("create", "--scope", "admin"), palaver("create", "--scope", "invoke")
    with server_process(tmp_path, db=db) as running:
        refusals: list[int] = []
        for headers in ({}, {"authorization": "Bearer plv_x"}, {"authorization": f"Bearer {invokes}"}):
            with pytest.raises(InvalidStatus) as refused, tab_client(running.url, headers):
                pass
            refusals.append(refused.value.response.status_code)
        with pytest.raises(InvalidStatus), tab_client(running.url + f"/api/socket?key={admin}&x="):  # S2.2
            pass
        with tab_client(running.url, {"x-api-key": admin}) as page:
            page.send(1, "/scripted/invocations", _endless_call())
            page.read_until(1, "begin")
            auth_headers = {"authorization": f"Bearer {admin}"}
            keys = httpx.get(f"{running.url}/api/keys", headers=auth_headers, trust_env=False).json()["data"]
            key_id = next(key["id"] for key in keys if key["scopes"] == ["admin"])
            palaver("revoke", key_id)
            with pytest.raises(ConnectionClosedError) as closed:
                page.read_until(2, seconds=30)

    assert refusals == [401, 401, 403]
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "unauthorized")


def _endless_call() -> dict[str, object]:
    return {"input": "go", "stream": True, "custom_inputs": {"script": [{"text": "begin "}, {"sleep": 600}]}}
