"""The pending messages of a tab's WebSocket. Responses take turns, so that none blocks the others.

While the socket is writable, chunks are sent as they come; otherwise the pending chunks of a response are merged into
one message. A response with too many pending bytes makes its producer wait, as it would on a connection of its own.
"""

import asyncio
import codecs
from collections import deque
from collections.abc import Callable, Iterable

from palaver.server.tab_socket import envelopes
from palaver.storage.notifications import Change, ChangeKind

MAX_PENDING_BYTES = 16 * 1024
"""Maximum pending bytes of one response before its producer has to wait."""
_MAX_MESSAGES, _MAX_CHANGES = 64, 1_000
_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class ResponseQueue:
    """The pending chunks of one response."""

    __slots__ = (
        "_chunks",
        "_decoder",
        "_end_message",
        "_has_room",
        "_is_dropped",
        "_on_sent",
        "_outbox",
        "_size",
        "_start_message",
        "id",
    )

    def __init__(self, response_id: int, outbox: "Outbox", on_sent: Callable[[], None]) -> None:
        self.id = response_id
        self._outbox = outbox
        self._on_sent = on_sent  # Called when the whole response has been sent.
        self._start_message: bytes | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._end_message: bytes | None = None
        self._decoder = _Utf8Decoder(errors="replace")  # A chunk may end within a character.
        self._has_room = asyncio.Event()
        self._is_dropped = False

    def open(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._start_message = envelopes.encode_start(self.id, status, headers)
        self._outbox.add(self)

    async def put(self, body: bytes) -> None:
        """Add a chunk; waits while too many bytes are pending."""
        for start in range(0, len(body), MAX_PENDING_BYTES):
            while self._size >= MAX_PENDING_BYTES:
                self._has_room.clear()
                await self._has_room.wait()
            if self._is_dropped:
                return
            chunk = body[start : start + MAX_PENDING_BYTES] if len(body) > MAX_PENDING_BYTES else body
            self._chunks.append(chunk)
            self._size += len(chunk)
            self._outbox.add(self)

    def end(self) -> None:
        self._end_message = envelopes.encode_end(self.id)
        self._outbox.add(self)

    def fail(self, code: str, message: str) -> None:
        self._end_message = envelopes.encode_error(self.id, code, message)
        self._outbox.add(self)

    def drop(self) -> None:
        self._is_dropped = True
        self._start_message = self._end_message = None
        self._clear()
        self._outbox.remove(self)

    def next_message(self) -> bytes | None:
        """Remove and return the next message, if any."""
        if self._start_message is not None:
            message, self._start_message = self._start_message, None
            return message
        if self._chunks:
            text = self._decoder.decode(b"".join(self._chunks))
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
        return bool(self._chunks) or self._end_message is not None

    def _clear(self) -> None:
        self._chunks, self._size = [], 0
        self._has_room.set()


class Outbox:
    """All pending messages of a socket. `wake` is called when a message is added."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._ready: dict[ResponseQueue, None] = {}  # An ordered set of responses with pending messages.
        self._messages: deque[bytes] = deque()
        self._changes: dict[tuple[ChangeKind, str], Change] = {}
        self._has_room = asyncio.Event()

    def add(self, queue: ResponseQueue) -> None:
        self._ready[queue] = None
        self._wake()

    def remove(self, queue: ResponseQueue) -> None:
        self._ready.pop(queue, None)

    async def put_message(self, message: bytes) -> None:
        """Add a message that belongs to no response; waits while too many are pending."""
        while len(self._messages) >= _MAX_MESSAGES:
            self._has_room.clear()
            await self._has_room.wait()
        self._messages.append(message)
        self._wake()

    def put_change(self, change: Change) -> None:
        """Add a change notice; it replaces a pending one of the same object. It is dropped if too many are pending."""
        key = change.kind, change.ref
        if key in self._changes or len(self._changes) < _MAX_CHANGES:
            self._changes[key] = change
            self._wake()

    def next_message(self) -> bytes | None:
        """Remove and return the next message, if any."""
        if self._messages:
            self._has_room.set()
            return self._messages.popleft()
        if self._changes:
            return envelopes.encode_change(self._changes.pop(next(iter(self._changes))))
        while self._ready:
            queue = next(iter(self._ready))
            del self._ready[queue]
            message = queue.next_message()
            if queue.has_more:
                self._ready[queue] = None  # At the end: the other responses come first.
            if message is not None:
                return message
        return None
