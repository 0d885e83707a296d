"""Servers to attack: a real one in a thread, sound or with a hole in it; and one that lets everything pass."""

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
from palaver.server.serve import _config
from palaver.server.settings import Settings
from palaver.storage import api_keys
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.testing import scripted


class _InThread(uvicorn.Server):
    """uvicorn with our own connections, which lets go of the database at its end."""

    def __init__(self, server: Server) -> None:
        super().__init__(_config(server))
        self._served = server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        await self._served.close()


@contextmanager
def palaver_at(folder: Path, database: Database | None = None, **options: Any) -> Iterator[str]:
    """The URL of a real server of one chat, with a page that loads one file."""
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<script src="/__ROOT__/assets/a.js"></script>', encoding="utf-8")
    (folder / "assets" / "a.js").write_text("1", encoding="utf-8")
    listening = socket.create_server(("127.0.0.1", 0))
    stored = database or open_database(MEMORY_URL)
    server_thread = _InThread(Server(Registry([scripted]), Settings(**options), database=stored, web=folder))
    thread = threading.Thread(target=server_thread.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server_thread.should_exit = True
        thread.join(20)
        listening.close()


def with_key(*scopes: Scope) -> tuple[Database, str]:
    """A database in which there is a key, and the key."""
    database = open_database(MEMORY_URL)
    key_scopes = frozenset(scopes) or ALL_SCOPES
    key, secret = api_keys.new_api_key(project="default", name="test", scopes=key_scopes, now=datetime.now(UTC))
    asyncio.run(database.write(api_keys.insert_key, key))
    return database, secret


class _Weak(socketserver.StreamRequestHandler):
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
            is_ill = self.server.is_ill = self.server.is_ill or len(head) > 30_000  # type: ignore[attr-defined]
        status, more, reply_body = "200 OK", "", f"root:x:0 Traceback (most recent call last) {text}".encode() + body
        if "upgrade: websocket" in text.lower():
            status, reply_body = "101 Switching Protocols", b""
        elif path == "/api/session":
            more = "Set-Cookie: palaver=x; Path=/\r\n"
            reply_body = b'{"scopes": ["admin"]}'
            if method == "GET" and "authorization" not in text.lower() and "cookie" not in text.lower():
                status = "401 Unauthorized"
        elif path == "/v1/models":
            reply_body = b'{"data": [{"id": "anybody"}]}'
        elif path == "/":
            reply_body += b'<script src="/assets/a.js"></script>'
        elif is_ill and path == "/health":
            status = "500 Internal Server Error"
        answer = f"HTTP/1.1 {status}\r\nAccess-Control-Allow-Origin: *\r\nX-Path: {unquote(path)[:200]}\r\n{more}"
        self.wfile.write(
            answer.encode("latin-1", "replace") + f"Content-Length: {len(reply_body)}\r\n\r\n".encode() + reply_body
        )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asks may leave early."""


@contextmanager
def weak() -> Iterator[str]:
    """The URL of the server that lets everything pass."""
    with _Server(("127.0.0.1", 0), _Weak) as server:
        server.lock, server.is_ill = threading.Lock(), False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)
