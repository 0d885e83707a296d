"""Servers for security probes: a real server in a thread, and a deliberately vulnerable one."""

import asyncio
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import uvicorn

from palaver.core.api_keys import ALL_SCOPES, Scope
from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.serve import _uvicorn_config
from palaver.server.settings import Settings
from palaver.storage import api_keys
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.testing import scripted


class _ThreadedServer(uvicorn.Server):
    """A uvicorn server configured as in `palaver serve`, which closes the `Server` and its database on shutdown."""

    def __init__(self, server: Server) -> None:
        super().__init__(_uvicorn_config(server))
        self._palaver_server = server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        await self._palaver_server.close()


@contextmanager
def running_server(folder: Path, database: Database | None = None, **options: Any) -> Iterator[str]:
    """Run a real server with one chat workflow and a web page that loads one script; yield its URL."""
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<script src="/__ROOT__/assets/a.js"></script>', encoding="utf-8")
    (folder / "assets" / "a.js").write_text("1", encoding="utf-8")
    listener = socket.create_server(("127.0.0.1", 0))
    server_database = database or open_database(MEMORY_URL)
    uvicorn_server = _ThreadedServer(
        Server(Registry([scripted]), Settings(**options), database=server_database, web=folder)
    )
    thread = threading.Thread(target=uvicorn_server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        uvicorn_server.should_exit = True
        thread.join(20)
        listener.close()


def database_with_key(*scopes: Scope) -> tuple[Database, str]:
    """Return a database that contains an API key, and the key's secret."""
    database = open_database(MEMORY_URL)
    key_scopes = frozenset(scopes) or ALL_SCOPES
    key, secret = api_keys.new_api_key(project="default", name="test", scopes=key_scopes, now=datetime.now(UTC))
    asyncio.run(database.write(api_keys.insert_key, key))
    return database, secret


class _VulnerableHandler(socketserver.StreamRequestHandler):
    """Echoes every request, and adds everything that a reply should not reveal."""

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (line := self.rfile.readline()):
            head += line
        text = head.decode("latin-1")
        method, path = [*text.split(" ", 2), "", ""][:2]
        length = re.search(r"content-length: (\d+)", text, re.IGNORECASE)
        body = self.rfile.read(int(length[1])) if length and int(length[1]) < 10**6 else b""
        with self.server.lock:  # type: ignore[attr-defined]
            is_broken = self.server.is_broken = self.server.is_broken or len(head) > 30_000  # type: ignore[attr-defined]
        status, extra_headers, reply_body = (
            "200 OK",
            "",
            f"root:x:0 Traceback (most recent call last) {text}".encode() + body,
        )
        if "upgrade: websocket" in text.lower():
            status, reply_body = "101 Switching Protocols", b""
        elif path == "/api/session":
            extra_headers = "Set-Cookie: palaver=x; Path=/\r\n"
            reply_body = b'{"scopes": ["admin"]}'
            if method == "GET" and "authorization" not in text.lower() and "cookie" not in text.lower():
                status = "401 Unauthorized"
        elif path == "/v1/models":
            reply_body = b'{"data": [{"id": "anybody"}]}'
        elif path == "/":
            reply_body += b'<script src="/assets/a.js"></script>'
        elif is_broken and path == "/health":
            status = "500 Internal Server Error"
        answer = (
            f"HTTP/1.1 {status}\r\nAccess-Control-Allow-Origin: *\r\nX-Path: {unquote(path)[:200]}\r\n{extra_headers}"
        )
        self.wfile.write(
            answer.encode("latin-1", "replace") + f"Content-Length: {len(reply_body)}\r\n\r\n".encode() + reply_body
        )


class _VulnerableServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: the client may disconnect early."""


@contextmanager
def vulnerable_server() -> Iterator[str]:
    """Run a server that accepts every request; yield its URL."""
    with _VulnerableServer(("127.0.0.1", 0), _VulnerableHandler) as server:
        server.lock, server.is_broken = threading.Lock(), False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)
