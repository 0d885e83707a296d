"""The span writer: what comes at the same time is written in one transaction, and whoever sent it hears when it is.

There is one per process. Requests wait for their spans to be durable; those of our own runs are handed in by `put`,
which never waits: where there is no room they are dropped, and counted. All that costs time is done in one thread of
the writer's own, so that neither the loop nor the other threads are kept busy by a flood.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from palaver.errors import Overloaded, PalaverError
from palaver.storage.database import Database
from palaver.storage.spans import writes as spans
from palaver.storage.spans.writes import SpanRow

if TYPE_CHECKING:
    from palaver.traces.ingest import RedactSpan  # Slow to import, as it knows all conventions.
    from palaver.traces.model import Span

log = logging.getLogger("palaver.traces")

P = ParamSpec("P")
T = TypeVar("T")

BATCH_WAIT_S = 0.02
"""Seconds that spans wait for others that are on their way."""
LOCAL_BATCH_WAIT_S = 0.2
"""And those of our own runs, for which nobody waits: a transaction costs more than all that one run leaves."""
MAX_BATCH_SPANS = 2_000
"""Spans of one transaction."""
MAX_PENDING_BYTES = 64 * 1024 * 1024
"""Bytes that may be on their way at once, as bodies or as rows; one request is always taken."""
MAX_LOCAL_PENDING_BYTES = 16 * 1024 * 1024
"""And of our own runs' spans, so that neither drives out the other."""
RETRY_DELAY_S = 1.0
"""Seconds until our own spans are tried again where the database could not take them,"""
MAX_ATTEMPTS = 5
"""and how often."""
_LOCAL_CHUNK_SPANS = 500
"""Of our own spans so many are made ready in one go, and wait for no others: requests want the thread, too."""
_SPAN_OVERHEAD_BYTES = 512
"""Bytes that a span takes up whatever is in it."""


class _PendingRows:
    """Rows that belong together, and whoever waits for them."""

    __slots__ = ("done", "rows", "size", "tries")

    def __init__(self, rows: Sequence[SpanRow], size: int, done: "asyncio.Future[int] | None") -> None:
        self.rows = rows
        self.size = size
        self.done = done  # None for our own, for which nobody waits.
        self.tries = 0


class SpanWriter:
    """Writes spans. Everything but the work in its thread happens on one loop."""

    def __init__(
        self,
        database: Database,
        *,
        redact: "RedactSpan",
        now: Callable[[], datetime],
        room: int = MAX_PENDING_BYTES,
        own_room: int = MAX_LOCAL_PENDING_BYTES,
        patience: float = RETRY_DELAY_S,
    ) -> None:
        self._database = database
        self.redact = redact
        """What takes out of a record what is not to be kept."""
        self._now = now
        self._room = room
        self._own_room = own_room
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="palaver-spans")
        self._held = 0  # Bytes of requests.
        self._own_held = 0
        self._preparing = 0
        self._own: deque[tuple[Span, int]] = deque()  # Each with its size.
        self._hurry = asyncio.Event()  # Our own wait for no others.
        self._waiting: deque[_PendingRows] = deque()
        self._count = 0  # Spans that wait.
        self._enough = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self.written = 0
        """Spans that were kept."""
        self.dropped = 0
        """Spans of our own runs that were not."""

    # Requests

    def check(self) -> None:
        """Raise while there is no room: then a body need not even be read."""
        if self._held >= self._room:
            raise _overloaded()

    @contextmanager
    def holding(self, size: int) -> Generator[None]:
        """Count a request of so many bytes while it is made ready, or raise; `write` counts what it becomes."""
        if self._held and self._held + size > self._room:
            raise _overloaded()
        self._held += size
        self._preparing += 1
        self._see()
        try:
            yield
        finally:
            self._held -= size
            self._preparing -= 1
            self._see()

    async def off(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function gives, run in the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))

    async def write(self, rows: Sequence[SpanRow]) -> int:
        """Keep spans. Returns once they are durable: how many could not be kept, which is none but for a mistake."""
        loop = asyncio.get_running_loop()
        waited: list[asyncio.Future[int]] = []
        for first in range(0, len(rows), MAX_BATCH_SPANS):
            some = rows[first : first + MAX_BATCH_SPANS]
            done: asyncio.Future[int] = loop.create_future()
            waited.append(done)
            size = sum(row.bytes + _SPAN_OVERHEAD_BYTES for row in some)
            self._held += size
            self._add(_PendingRows(some, size, done))
        return sum(await asyncio.gather(*waited))

    # Our own runs

    def put(self, given: "Iterable[Span]") -> None:
        """Keep records of our own runs. It is done later, or not at all where there is no room."""
        for span in given:
            if self._own_held >= self._own_room:
                self.dropped += 1
                continue
            size = _approximate_bytes(span)
            self._own_held += size
            self._own.append((span, size))
        if len(self._own) >= _LOCAL_CHUNK_SPANS:
            self._hurry.set()
        if self._own and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_own())

    async def _read_own(self) -> None:
        try:
            while self._own:
                await self._gathered()
                some = [self._own.popleft() for _ in range(min(_LOCAL_CHUNK_SPANS, len(self._own)))]
                rows = await self.off(_build_rows, [span for span, _ in some], self.redact)
                self.dropped += len(some) - len(rows)
                self._add(_PendingRows(rows, sum(size for _, size in some), None))
        finally:
            self._reading = None

    async def _gathered(self) -> None:
        """Wait until there are many of our own, or until they have waited for long enough."""
        timer = asyncio.get_running_loop().call_later(LOCAL_BATCH_WAIT_S, self._hurry.set)
        await self._hurry.wait()
        timer.cancel()
        if len(self._own) <= _LOCAL_CHUNK_SPANS:
            self._hurry.clear()

    # Writing

    async def flushed(self) -> None:
        """Wait until all that is known by now is written, or given up."""
        self._hurry.set()
        while waited := [task for task in (self._reading, self._writing) if task is not None]:
            await asyncio.wait(waited)

    async def close(self) -> None:
        """Write what is waiting, and let the thread go."""
        await self.flushed()
        await asyncio.to_thread(self._thread.shutdown)

    def _add(self, piece: _PendingRows) -> None:
        self._waiting.append(piece)
        self._count += len(piece.rows)
        self._see()
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_on())

    def _see(self) -> None:
        """Is there anything to wait for before what is here is written?"""
        if self._count >= MAX_BATCH_SPANS or not self._preparing:
            self._enough.set()
        else:
            self._enough.clear()

    async def _write_on(self) -> None:
        try:
            while self._waiting:
                timer = asyncio.get_running_loop().call_later(BATCH_WAIT_S, self._enough.set)
                await self._enough.wait()
                timer.cancel()
                await self._keep(self._group())
        finally:
            self._writing = None

    def _group(self) -> list[_PendingRows]:
        group = [self._waiting.popleft()]
        size = len(group[0].rows)
        while self._waiting and size + len(self._waiting[0].rows) <= MAX_BATCH_SPANS:
            group.append(self._waiting.popleft())
            size += len(group[-1].rows)
        self._count -= size
        self._see()
        return group

    async def _keep(self, group: Sequence[_PendingRows]) -> None:
        rows = [row for piece in group for row in piece.rows]
        try:
            await self._add_rows(rows)
        except PalaverError as error:
            await self._failed(group, error)
        except Exception:
            # Something in one of them: nobody's spans are lost for another's.
            for piece in group:
                try:
                    self._kept(piece, await self._salvaged(piece.rows))
                except PalaverError as error:
                    await self._failed([piece], error)
        else:
            for piece in group:
                self._kept(piece, 0)

    async def _add_rows(self, rows: Sequence[SpanRow]) -> None:
        if rows:
            await self._database.write(spans.insert_spans, rows, today=self._now().date())

    async def _salvaged(self, rows: Sequence[SpanRow]) -> int:
        """Keep all but those that cannot be; how many that are."""
        try:
            await self._add_rows(rows)
        except PalaverError:
            raise
        except Exception:
            if len(rows) == 1:
                log.exception("The span %s of trace %s could not be kept", rows[0].span_id, rows[0].trace_id)
                return 1
            half = len(rows) // 2
            return await self._salvaged(rows[:half]) + await self._salvaged(rows[half:])
        return 0

    def _kept(self, piece: _PendingRows, lost: int) -> None:
        self.written += len(piece.rows) - lost
        if piece.done is None:
            self.dropped += lost
        elif not piece.done.done():  # Whoever waited may have left.
            piece.done.set_result(lost)
        self._forget(piece)

    async def _failed(self, group: Sequence[_PendingRows], error: PalaverError) -> None:
        """The database could not take any: senders send again, and our own are tried again a few times."""
        again: list[_PendingRows] = []
        for piece in group:
            piece.tries += 1
            if piece.done is None and piece.tries < MAX_ATTEMPTS:
                again.append(piece)
                continue
            if piece.done is None:
                log.warning("%d spans of our own runs were dropped: %s", len(piece.rows), error.message)
                self.dropped += len(piece.rows)
            elif not piece.done.done():
                piece.done.set_exception(type(error)(error.message))
            self._forget(piece)
        if again:
            await asyncio.sleep(self._patience)
            self._waiting.extend(again)
            self._count += sum(len(piece.rows) for piece in again)
            self._see()

    def _forget(self, piece: _PendingRows) -> None:
        if piece.done is None:
            self._own_held -= piece.size
        else:
            self._held -= piece.size


def _build_rows(given: "Sequence[Span]", redact: "RedactSpan") -> Sequence[SpanRow]:
    from palaver.traces.ingest import build_rows

    return build_rows(given, redact)


def _approximate_bytes(span: "Span") -> int:
    """About how many bytes a record takes up. Asked on the loop, so it looks at lengths only."""
    size = _SPAN_OVERHEAD_BYTES
    for value in span.attributes.values():
        if type(value) is str:
            size += len(value)
    return size


def _overloaded() -> Overloaded:
    return Overloaded("Spans come faster than they can be written: send them again in a moment.")
