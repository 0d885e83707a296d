"""Hears the notices of other processes: a connection that does nothing else, in a thread of its own."""

import asyncio
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from palaver.storage.notices import CHANNEL, Heard, Kind, Notice, read

log = logging.getLogger("palaver.server")

CONNECT_SECONDS = 5
_IDLE_SECONDS = 20
"""After so long without a notice a listener asks whether anybody is there."""
_LONGEST_PAUSE = 5.0

Line = psycopg.Connection[tuple[Any, ...]]


class Listener:
    """A connection that does nothing but listen, in a thread of its own. One that is lost is made anew."""

    def __init__(self, connect: Callable[[], Line]) -> None:
        self._connect = connect
        self._heard: list[tuple[asyncio.AbstractEventLoop, Heard]] = []
        self._stopped = threading.Event()
        self._there = threading.Event()
        self._alarm, self._bell = socket.socketpair()  # To be woken by `close` while nothing comes.
        self._thread = threading.Thread(target=self._listen_on, name="palaver-listen", daemon=True)

    @property
    def hears(self) -> bool:
        """Does it hear what is told at this moment, as far as it knows?"""
        return self._there.is_set()

    async def listen(self, heard: Heard) -> None:
        """Call that, in this loop, with every notice from now on: from this on, if the server is there."""
        self._heard.append((asyncio.get_running_loop(), heard))
        if not self._thread.is_alive() and not self._stopped.is_set():
            self._thread.start()
            await asyncio.to_thread(self._there.wait, CONNECT_SECONDS)

    def close(self) -> None:
        """Stop, and wait for it."""
        self._stopped.set()
        self._bell.send(b"x")
        if self._thread.is_alive():
            self._thread.join()
        self._alarm.close()
        self._bell.close()

    # Its thread

    def _listen_on(self) -> None:
        pause, first = 0.1, True
        while not self._stopped.is_set():
            try:
                with self._connected() as line, selectors.DefaultSelector() as ready:
                    ready.register(line.pgconn.socket, selectors.EVENT_READ)
                    ready.register(self._alarm, selectors.EVENT_READ)
                    self._there.set()
                    if not first:
                        self._hand_on(Notice("missed", ()))
                    pause, first = 0.1, False
                    while not self._stopped.is_set():
                        self._wait(line, ready)
            except (psycopg.Error, OSError) as error:
                if self._there.is_set():
                    log.info("Notices of other processes are not heard for the moment: %s", str(error).strip())
            finally:
                self._there.clear()
            self._stopped.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _connected(self) -> Line:
        line = self._connect()
        try:
            # A process that is stopped, or a network that swallows everything, must not fill the server's queue.
            line.execute("SET tcp_user_timeout = 60000")
            line.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            line.close()
            raise
        return line

    def _wait(self, line: Line, ready: selectors.BaseSelector) -> None:
        if not ready.select(_IDLE_SECONDS):
            line.execute("SELECT 1")
        told: dict[Kind, dict[str, None]] = {}
        for one in line.notifies(timeout=0):
            if (notice := read(one.payload)) is not None:
                told.setdefault(notice.kind, {}).update(dict.fromkeys(notice.names))
        for kind, names in told.items():
            self._hand_on(Notice(kind, list(names)))

    def _hand_on(self, notice: Notice) -> None:
        for loop, heard in self._heard:
            with suppress(RuntimeError):  # That loop is closed.
                loop.call_soon_threadsafe(heard, notice)
