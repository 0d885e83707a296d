"""Servers for tests of remote workflows: a real one under uvicorn, and fakes that send the bytes a test chose."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvicorn

from palaver.core.descriptions import Description
from palaver.frameworks.remote import RemoteService, RemoteWorkflow
from palaver.server.app import app
from palaver.workflows.workflow import Workflow


@contextmanager
def serve_workflows(*workflows: Workflow) -> Iterator[str]:
    """Serve the workflows with a real server in a thread; yields its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app(*workflows), log_config=None, ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@dataclass
class ReceivedRequest:
    """One request that a fake server received."""

    line: str
    headers: dict[str, str]
    body: Any


@dataclass
class FakeServer:
    """A server that sends the bytes a test chose."""

    url: str
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    test_ended: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the test, so that waiting handlers return."""

    def workflow(
        self, *, timeout: float = 20, headers: dict[str, str] | None = None, **description_fields: Any
    ) -> RemoteWorkflow:
        """Return the server as a workflow that was already discovered."""
        flags = {"is_chat": description_fields.pop("is_chat", True)}
        dialect = description_fields.pop("dialect", "invoke")
        description = Description(name="far", flags=flags, remote=True, **description_fields)
        return RemoteWorkflow(
            RemoteService(url=f"{self.url}/{dialect}", dialect=dialect, description=description),
            placeholder=description,
            url=self.url,
            discover=_fail_discovery,
            headers=headers or {},
            timeout=timeout,
        )


async def _fail_discovery() -> RemoteService | None:
    raise AssertionError("it is known what stands there")


Answer = Callable[[socket.socket, ReceivedRequest], None]


@contextmanager
def fake_server(answer: Answer | bytes) -> Iterator[FakeServer]:
    """Run a server that answers each connection with bytes, or by calling a function."""
    listener = socket.create_server(("127.0.0.1", 0))
    fake = FakeServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            call = _read_request(connection)
            fake.requests.append(call)
            if isinstance(answer, bytes):
                connection.sendall(answer)
            else:
                answer(connection, call)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(20)
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    accept_thread = threading.Thread(target=accept)
    accept_thread.start()
    try:
        yield fake
    finally:
        fake.test_ended.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # Wakes the thread in accept().
        listener.close()
        for thread in (accept_thread, *threads):
            thread.join(20)


def _read_request(connection: socket.socket) -> ReceivedRequest:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536) or _fail_on_disconnect()
    head, _, body = received.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536) or _fail_on_disconnect()
    return ReceivedRequest(line, headers, msgspec.json.decode(body) if body else None)


def _fail_on_disconnect() -> bytes:
    raise ConnectionError("the client left before it had asked")


def response_head(content_type: str = "text/event-stream", *, status: str = "200 OK", **headers: str) -> bytes:
    """The head of a response whose body ends with the connection."""
    all_headers = {"content-type": content_type, "connection": "close", **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in all_headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def full_response(value: Any, content_type: str = "application/json", *, status: str = "200 OK") -> bytes:
    """A complete response."""
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return response_head(content_type, status=status, content_length=str(len(body))) + body


def event(kind: str, **data: Any) -> bytes:
    """One record as a server-sent event."""
    return b"data: " + msgspec.json.encode({"type": kind, "data": data}) + b"\n\n"
