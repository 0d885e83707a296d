"""Responses written directly to the socket are the same as through uvicorn's `send`, for any request."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import ServerProcess, server_process

BODY_TEMPLATE = b'{"input":"%b"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("wire")
    with server_process(folder) as running:
        yield running


def post(text: bytes, *lines: bytes, path: bytes = b"/scripted/invocations", version: bytes = b"1.1") -> bytes:
    body = BODY_TEMPLATE % text
    head = [b"POST %b HTTP/%b" % (path, version), b"Host: localhost", b"Content-Type: application/json", *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def exchange(server: ServerProcess, *requests: bytes, answers: int, wait: bool = False) -> list[bytes]:
    """Return the responses of one connection; `wait` sends each request after the previous response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        received: list[bytes] = []
        buffer = b""
        pending = list(requests)
        connection.sendall(pending.pop(0) if wait else b"".join(pending))
        while len(received) < answers:
            buffer += (piece := connection.recv(65536))
            while (end := _response_end(buffer)) is not None:
                received.append(buffer[:end])
                buffer = buffer[end:]
                if wait and pending:
                    connection.sendall(pending.pop(0))
            if not piece:
                break
        return received


def _response_end(buffer: bytes) -> int | None:
    """Return the end offset of the first response, or None if it is incomplete."""
    head, mark, body = buffer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    if not mark:
        return None
    if head.startswith(b"HTTP/1.1 100"):
        return len(head) + 4
    if length is not None:
        size = len(head) + 4 + int(length[1])
        return size if len(buffer) >= size else None
    end = body.find(b"0\r\n\r\n")
    return None if end < 0 else len(head) + 4 + end + 5


def answer_text(answer: bytes) -> bytes:
    match = re.search(rb'"text":"([^"]*)","annotations"', answer)
    return match[1] if match else b""


def test_responses_are_sent_in_the_order_of_the_requests(server: ServerProcess) -> None:
    words = [b"one", b"two", b"three", b"four"]

    together = exchange(server, *(post(word) for word in words), answers=4)
    in_turn = exchange(server, *(post(word) for word in words), answers=4, wait=True)

    assert [answer_text(answer) for answer in together] == [answer_text(answer) for answer in in_turn] == words


def test_complete_and_streamed_responses_share_a_connection(server: ServerProcess) -> None:
    stream = b'{"input":"streamed words","stream":true}'
    request = b"\r\n".join(
        [
            b"POST /scripted/invocations HTTP/1.1",
            b"Host: localhost",
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(stream),
            b"",
            stream,
        ]
    )
    for wait in (False, True):
        first, second, third = exchange(server, post(b"one"), request, post(b"three"), answers=3, wait=wait)
        assert (answer_text(first), answer_text(third)) == (b"one", b"three")
        assert second.count(b"response.output_text.delta") == 2
        assert b"data: [DONE]" in second


def test_a_response_has_each_header_once(server: ServerProcess) -> None:
    (answer,) = exchange(server, post(b"hi"), answers=1)
    names = [line.partition(b":")[0].lower() for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]]

    assert sorted(names) == sorted(set(names))
    assert {b"content-type", b"content-length", b"date", b"x-request-id", b"x-palaver-run-id"} <= set(names)


@pytest.mark.parametrize(
    ("lines", "version"), [([b"Connection: close"], b"1.1"), ([], b"1.0"), ([b"Expect: 100-continue"], b"1.1")]
)
def test_closing_http_1_0_and_expect_requests_are_answered(
    server: ServerProcess, lines: list[bytes], version: bytes
) -> None:
    answers = exchange(server, post(b"hi", *lines, version=version), answers=2)

    assert b"hi" in [answer_text(answer) for answer in answers]


def test_a_head_request_has_no_body(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")


def test_disconnecting_clients_do_not_disturb_others(server: ServerProcess) -> None:
    reset = (socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # Reset the connection instead of closing it.
    stream = b'{"input":"[{\\"text\\":\\"a\\"},{\\"sleep\\":30}]","stream":true}'
    request = (
        post(b"x")
        .replace(BODY_TEMPLATE % b"x", stream)
        .replace(b"Content-Length: 13", b"Content-Length: %d" % len(stream))
    )
    for number in range(200):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as leaving:
            leaving.sendall(request if number % 4 == 0 else post(b"leaving"))
            if number % 3 == 0:
                leaving.recv(100)
            if number % 2:
                leaving.setsockopt(*reset)
        if number % 20 == 0:
            assert [answer_text(answer) for answer in exchange(server, post(b"staying"), answers=1)] == [b"staying"]

    (metrics,) = exchange(server, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", answers=1)
    assert b"palaver_runs_alive " in metrics
    errors = [line for line in server.lines if "Traceback" in line or '"level":"error"' in line]
    assert errors == []
