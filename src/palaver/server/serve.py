"""The server process: listening socket, uvicorn, and signals that let runs end before the server stops."""

import asyncio
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from palaver.errors import SettingsError
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.server.uvicorn_protocols import http_protocol, websocket_protocol
from palaver.storage.database import MEMORY_URL, Database, open_database, sqlite_path
from palaver.storage.file_lock import FileLock
from palaver.storage.paths import lock_path

_BACKLOG = 2048
_GC_THRESHOLDS = (20_000, 20, 20)
_POLL_INTERVAL_S = 0.05
_CUT_OFF_DELAY_S = 6.0
"""How long after the grace period the last responses are cut off: runs are being cancelled."""
_FORCED_CANCEL_TIMEOUT_S, _FORCED_DRAIN_TIMEOUT_S, _FORCED_EXIT_TIMEOUT_S = 0.3, 1.0, 1.8
"""After a second signal: for the code of runs to end, for all responses to end, and until the process exits."""
_EXIT_TIMEOUTS_S = (0.5, 5.0)
"""The shortest and the longest time between the last response and the exit, otherwise as long as the grace period."""

OnStarted = Callable[[], "asyncio.Task[None] | None"]
"""Called when the server accepts connections; the task that it returns is cancelled when the server stops."""


@contextmanager
def open_locked_database(url: str) -> Generator[Database]:
    """Open the database. A SQLite file is locked: the only server knows that all unfinished runs are abandoned."""
    if url == MEMORY_URL or url.startswith("postgres"):
        yield open_database(url)
        return
    path = sqlite_path(url)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(lock_path(path))
    if not lock.acquire():
        raise SettingsError(f"Another server is using {path}. Stop it, or pass --db with another database.")
    with lock:
        yield open_database(url)


def open_socket(settings: Settings, *, or_next: bool = False) -> socket.socket:
    """Open a listening socket; with `or_next`, on the next free port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in range(settings.port, settings.port + 100 if or_next and settings.port else settings.port + 1):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, port))
        except OSError as error:
            listening.close()
            if not or_next:
                reason = (error.strerror or str(error)).lower()
                message = f"Cannot listen on {settings.host}:{port}: {reason}. Choose another port with --port."
                raise SettingsError(message) from None
            continue
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        return listening
    raise SettingsError(f"No free port found from {settings.port} upwards. Pass --port 0 to use any free port.")


def run_server(
    server: Server,
    listening: socket.socket,
    *,
    started: OnStarted = lambda: None,
    parent: socket.socket | None = None,
) -> None:
    """Serve until a signal or the end of the parent. The first signal lets runs end, a second ends them at once."""
    _UvicornServer(_uvicorn_config(server), server, started, parent).run(sockets=[listening])


def _uvicorn_config(server: Server) -> uvicorn.Config:
    settings = server.settings
    return uvicorn.Config(
        server,
        http=http_protocol(settings),
        ws=websocket_protocol(settings),
        ws_max_size=settings.ws_max,
        ws_ping_interval=settings.ws_ping,
        ws_ping_timeout=settings.ws_ping,
        ws_per_message_deflate=False,
        loop="auto",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
    )


class _UvicornServer(uvicorn.Server):
    """uvicorn, with a shutdown that lets runs end, and stops with the parent process."""

    def __init__(
        self, config: uvicorn.Config, server: Server, started: OnStarted, parent: socket.socket | None
    ) -> None:
        super().__init__(config)
        self._server = server
        self._on_started = started
        self._started_task: asyncio.Task[None] | None = None
        self._parent = parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # What is loaded by now stays: collections need not traverse it.
        gc.set_threshold(*_GC_THRESHOLDS)  # With thousands of open streams, every 700 objects is too often.
        self._started_task = self._on_started()
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._on_parent_ended)

    def _on_parent_ended(self) -> None:
        """Stop the server: the socket of the parent becomes readable only when the parent has ended."""
        assert self._parent is not None
        asyncio.get_running_loop().remove_reader(self._parent)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open responses end within the grace period, or at once after a second signal; then cut off the rest.

        Replaces uvicorn's, which waits for streams that have no end of their own, and logs each task that it cancels.
        """
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self._started_task is not None:
            self._started_task.cancel()
        grace_s = self._server.settings.shutdown_seconds
        drain_task = asyncio.create_task(self._server.drain(grace_s))
        is_forced = await self._wait_closed(drain_task, grace_s + _CUT_OFF_DELAY_S)
        if is_forced:
            _exit_within(_FORCED_EXIT_TIMEOUT_S)
            drain_task.cancel()
            drain_task = asyncio.create_task(self._server.drain(0, cancel_timeout_s=_FORCED_CANCEL_TIMEOUT_S))
            await self._wait_closed(drain_task, _FORCED_DRAIN_TIMEOUT_S, can_force=False)
        for task in self.server_state.tasks:
            task.cancel()  # Those cut off their responses.
        await self._wait_closed(drain_task, _FORCED_CANCEL_TIMEOUT_S, can_force=False)
        drain_task.cancel()
        if not is_forced:
            await self.lifespan.shutdown()
        await self._server.close()
        if not is_forced:
            _exit_within(min(max(grace_s, _EXIT_TIMEOUTS_S[0]), _EXIT_TIMEOUTS_S[1]))

    async def _wait_closed(self, drain_task: asyncio.Task[None], timeout_s: float, *, can_force: bool = True) -> bool:
        """Wait until all runs and responses have ended, up to `timeout_s`. Return whether a second signal came."""
        deadline = time.monotonic() + timeout_s
        while not drain_task.done() or self.server_state.connections or self.server_state.tasks:
            if can_force and self.force_exit:
                return True
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_POLL_INTERVAL_S)
        return False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        # Not super(): uvicorn would raise the signal again at the end, and a clean stop would look like a crash.
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with suppress(KeyboardInterrupt):
            super().run(sockets)


def _exit_within(seconds: float) -> None:
    """Exit even if code of a workflow neither returns nor lets itself be cancelled."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
