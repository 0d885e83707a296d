"""What waits to be sent on a tab's socket. Responses take turns, so that none blocks the others.

While the socket is writable, chunks are sent as they come; else the chunks of a response are sent as one. A response
with too many pending bytes makes its producer wait, as on its own connection.
"""

import asyncio
import codecs
from collections import deque
from collections.abc import Callable, Iterable

from palaver.server.tab_socket import envelopes
from palaver.storage.notifications import Change, ChangeKind

MAX_PENDING_BYTES = 16 * 1024
"""Of one response, before its producer waits."""
_MAX_NOTES, _MAX_CHANGES = 64, 1_000
_decoder = codecs.getincrementaldecoder("utf-8")


class ResponseQueue:
    """The pending chunks of one response."""

    __slots__ = (
        "_decoder",
        "_dropped",
        "_end_message",
        "_head",
        "_on_sent",
        "_outbox",
        "_pieces",
        "_size",
        "_waiters",
        "id",
    )

    def __init__(self, number: int, outbox: "Outbox", on_sent: Callable[[], None]) -> None:
        self.id = number
        self._outbox = outbox
        self._on_sent = on_sent  # Called when all of it is sent.
        self._head: bytes | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._end_message: bytes | None = None
        self._decoder = _decoder(errors="replace")  # A chunk may end within a character.
        self._waiters: list[asyncio.Future[None]] = []
        self._dropped = False

    def open(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._head = envelopes.encode_start(self.id, status, headers)
        self._outbox.add(self)

    async def put(self, body: bytes) -> None:
        """Add a chunk; waits for room."""
        for start in range(0, len(body), MAX_PENDING_BYTES):
            while self._size >= MAX_PENDING_BYTES:
                room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(room)
                await room
            if self._dropped:
                return
            piece = body[start : start + MAX_PENDING_BYTES] if len(body) > MAX_PENDING_BYTES else body
            self._pieces.append(piece)
            self._size += len(piece)
            self._outbox.add(self)

    def end(self) -> None:
        self._end_message = envelopes.encode_end(self.id)
        self._outbox.add(self)

    def fail(self, code: str, message: str) -> None:
        self._end_message = envelopes.encode_error(self.id, code, message)
        self._outbox.add(self)

    def drop(self) -> None:
        self._dropped = True
        self._head = self._end_message = None
        self._clear()
        self._outbox.remove(self)

    def next_message(self) -> bytes | None:
        """The next message, if any."""
        if self._head is not None:
            message, self._head = self._head, None
            return message
        if self._pieces:
            text = self._decoder.decode(b"".join(self._pieces))
            self._clear()
            if text:
                return envelopes.encode_data(self.id, text)
        if self._end_message is None:
            return None
        if text := self._decoder.decode(b"", final=True):
            return envelopes.encode_data(self.id, text)
        message, self._end_message = self._end_message, None
        self._on_sent()
        return message

    @property
    def has_more(self) -> bool:
        return bool(self._pieces) or self._end_message is not None

    def _clear(self) -> None:
        self._pieces, self._size = [], 0
        waiters, self._waiters = self._waiters, []
        for room in waiters:
            if not room.done():
                room.set_result(None)


class Outbox:
    """All pending messages of a socket. `wake` is called when there is something to take."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._turns: dict[ResponseQueue, None] = {}  # Responses with pending messages, in their order.
        self._messages: deque[bytes] = deque()
        self._changes: dict[tuple[ChangeKind, str], Change] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def add(self, queue: ResponseQueue) -> None:
        self._turns[queue] = None
        self._wake()

    def remove(self, queue: ResponseQueue) -> None:
        self._turns.pop(queue, None)

    async def put_message(self, message: bytes) -> None:
        """Add a message without a response; waits if there are many."""
        while len(self._messages) >= _MAX_NOTES:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(room)
            await room
        self._messages.append(message)
        self._wake()

    def put_change(self, change: Change) -> None:
        """Add a change notice; it replaces a pending one of the same object."""
        key = change.kind, change.ref
        if key in self._changes or len(self._changes) < _MAX_CHANGES:
            self._changes[key] = change
            self._wake()

    def next_message(self) -> bytes | None:
        """The next message, if any."""
        if self._messages:
            message = self._messages.popleft()
            waiters, self._waiters = self._waiters, []
            for room in waiters:
                if not room.done():
                    room.set_result(None)
            return message
        if self._changes:
            return envelopes.encode_change(self._changes.pop(next(iter(self._changes))))
        while self._turns:
            queue = next(iter(self._turns))
            del self._turns[queue]
            message = queue.next_message()
            if queue.has_more:
                self._turns[queue] = None  # At the end of the line.
            if message is not None:
                return message
        return None
