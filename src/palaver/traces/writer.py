"""The span writer: batches the spans of concurrent requests into one transaction and reports when they are durable.

There is one per process. Requests wait for their spans to be durable; spans of local runs are passed to `enqueue`,
which never waits: when the queue is full they are dropped and counted. Slow work happens in one thread of the writer,
so that a flood of spans occupies neither the event loop nor other threads.
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
from palaver.storage.spans import span_logs
from palaver.storage.spans.span_logs import SpanLogRow
from palaver.storage.spans.writes import SpanRow

if TYPE_CHECKING:
    from palaver.traces.ingest import RedactSpan  # Slow to import: it loads all conventions.
    from palaver.traces.model import Span

log = logging.getLogger("palaver.traces")

P = ParamSpec("P")
T = TypeVar("T")

BATCH_WAIT_S = 0.02
"""Maximum time that a batch waits for requests that are still being decoded."""
LOCAL_BATCH_WAIT_S = 0.2
"""Maximum wait of local runs' spans, which no client waits for: a transaction costs more than one run's spans."""
MAX_BATCH_SPANS = 2_000
MAX_PENDING_BYTES = 64 * 1024 * 1024
"""Maximum bytes of requests in progress, as bodies or as rows. A single request may exceed it."""
MAX_LOCAL_PENDING_BYTES = 16 * 1024 * 1024
"""Maximum bytes of local runs' spans; separate, so that neither crowds out the other."""
RETRY_DELAY_S = 1.0
"""Delay before local runs' spans are retried after a database failure."""
MAX_ATTEMPTS = 5
"""Attempts to write local runs' spans before they are dropped."""
_LOCAL_CHUNK_SPANS = 500
"""Local spans that are prepared together; few, because requests use the same thread."""
_SPAN_OVERHEAD_BYTES = 512


class _PendingRows:
    """Rows of one request or one local chunk, and the future of the request."""

    __slots__ = ("attempts", "future", "rows", "size")

    def __init__(self, rows: Sequence[SpanRow], size: int, future: "asyncio.Future[int] | None") -> None:
        self.rows = rows
        self.size = size
        self.future = future  # None for local runs.
        self.attempts = 0


class SpanWriter:
    """Writes spans. All methods run on one event loop; the work runs in the writer's thread."""

    def __init__(
        self,
        database: Database,
        *,
        redact: "RedactSpan",
        now: Callable[[], datetime],
        max_request_bytes: int = MAX_PENDING_BYTES,
        max_local_bytes: int = MAX_LOCAL_PENDING_BYTES,
        retry_delay_s: float = RETRY_DELAY_S,
    ) -> None:
        self._database = database
        self.redact = redact
        self._now = now
        self._max_request_bytes = max_request_bytes
        self._max_local_bytes = max_local_bytes
        self._retry_delay_s = retry_delay_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="palaver-spans")
        self._request_bytes = 0
        self._local_bytes = 0
        self._preparing = 0
        self._local_spans: deque[tuple[Span, int]] = deque()  # With sizes in bytes.
        self._local_wake = asyncio.Event()  # Ends the wait for more local spans.
        self._pending: deque[_PendingRows] = deque()
        self._pending_spans = 0
        self._batch_ready = asyncio.Event()
        self._local_task: asyncio.Task[None] | None = None
        self._write_task: asyncio.Task[None] | None = None
        self.stored_count = 0
        self.dropped_count = 0
        """Number of local runs' spans that were dropped."""

    # Requests

    def check_capacity(self) -> None:
        """Raise Overloaded while the queue is full, before the body is read."""
        if self._request_bytes >= self._max_request_bytes:
            raise _overloaded()

    @contextmanager
    def reserve(self, size: int) -> Generator[None]:
        """Reserve the bytes of a request while it is decoded, or raise Overloaded. `write` counts its rows."""
        if self._request_bytes and self._request_bytes + size > self._max_request_bytes:
            raise _overloaded()
        self._request_bytes += size
        self._preparing += 1
        self._update_batch_ready()
        try:
            yield
        finally:
            self._request_bytes -= size
            self._preparing -= 1
            self._update_batch_ready()

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))

    async def write(self, rows: Sequence[SpanRow]) -> int:
        """Store rows. Returns once they are durable: the number that could not be stored, normally 0."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[int]] = []
        for start in range(0, len(rows), MAX_BATCH_SPANS):
            chunk = rows[start : start + MAX_BATCH_SPANS]
            future: asyncio.Future[int] = loop.create_future()
            futures.append(future)
            size = sum(row.bytes + _SPAN_OVERHEAD_BYTES for row in chunk)
            self._request_bytes += size
            self._add(_PendingRows(chunk, size, future))
        return sum(await asyncio.gather(*futures))

    async def write_events(self, rows: Sequence[SpanLogRow]) -> None:
        """Store events from log records, in spans or until these arrive. Returns once they are durable."""
        if rows:
            await self._database.write(span_logs.insert_events, rows, today=self._now().date(), rebuild=self._rebuild)

    # Local runs

    def enqueue(self, new_spans: "Iterable[Span]") -> None:
        """Store spans of local runs in the background, or drop them if the queue is full."""
        for span in new_spans:
            if self._local_bytes >= self._max_local_bytes:
                self.dropped_count += 1
                continue
            size = _approximate_bytes(span)
            self._local_bytes += size
            self._local_spans.append((span, size))
        if len(self._local_spans) >= _LOCAL_CHUNK_SPANS:
            self._local_wake.set()
        if self._local_spans and self._local_task is None:
            self._local_task = asyncio.get_running_loop().create_task(self._prepare_local())

    async def _prepare_local(self) -> None:
        try:
            while self._local_spans:
                await self._wait_for_local()
                chunk = [self._local_spans.popleft() for _ in range(min(_LOCAL_CHUNK_SPANS, len(self._local_spans)))]
                rows = await self.run_in_thread(_build_rows, [span for span, _ in chunk], self.redact)
                self.dropped_count += len(chunk) - len(rows)
                self._add(_PendingRows(rows, sum(size for _, size in chunk), None))
        finally:
            self._local_task = None

    async def _wait_for_local(self) -> None:
        """Wait until a chunk of local spans is full, at most LOCAL_BATCH_WAIT_S."""
        timer = asyncio.get_running_loop().call_later(LOCAL_BATCH_WAIT_S, self._local_wake.set)
        await self._local_wake.wait()
        timer.cancel()
        if len(self._local_spans) <= _LOCAL_CHUNK_SPANS:
            self._local_wake.clear()

    # Writing

    async def flush(self) -> None:
        """Wait until all pending spans are written or given up."""
        self._local_wake.set()
        while tasks := [task for task in (self._local_task, self._write_task) if task is not None]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        await self.flush()
        await asyncio.to_thread(self._thread.shutdown)

    def _add(self, pending: _PendingRows) -> None:
        self._pending.append(pending)
        self._pending_spans += len(pending.rows)
        self._update_batch_ready()
        if self._write_task is None:
            self._write_task = asyncio.get_running_loop().create_task(self._write_pending())

    def _update_batch_ready(self) -> None:
        """Decide whether the next batch should wait for requests being prepared."""
        if self._pending_spans >= MAX_BATCH_SPANS or not self._preparing:
            self._batch_ready.set()
        else:
            self._batch_ready.clear()

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                timer = asyncio.get_running_loop().call_later(BATCH_WAIT_S, self._batch_ready.set)
                await self._batch_ready.wait()
                timer.cancel()
                await self._write_batch(self._next_batch())
        finally:
            self._write_task = None

    def _next_batch(self) -> list[_PendingRows]:
        batch = [self._pending.popleft()]
        size = len(batch[0].rows)
        while self._pending and size + len(self._pending[0].rows) <= MAX_BATCH_SPANS:
            batch.append(self._pending.popleft())
            size += len(batch[-1].rows)
        self._pending_spans -= size
        self._update_batch_ready()
        return batch

    async def _write_batch(self, batch: Sequence[_PendingRows]) -> None:
        rows = [row for pending in batch for row in pending.rows]
        try:
            await self._add_rows(rows)
        except PalaverError as error:
            await self._retry_or_fail(batch, error)
        except Exception:
            # One of the rows is bad. Write each request separately, so that it affects no other request.
            for pending in batch:
                try:
                    self._finish(pending, await self._write_bisected(pending.rows))
                except PalaverError as error:
                    await self._retry_or_fail([pending], error)
        else:
            for pending in batch:
                self._finish(pending, 0)

    async def _add_rows(self, rows: Sequence[SpanRow]) -> None:
        if rows:
            await self._database.write(
                span_logs.insert_spans_with_events, rows, today=self._now().date(), rebuild=self._rebuild
            )

    def _rebuild(self, body: bytes, logged: Sequence[bytes]) -> SpanRow | None:
        from palaver.traces.ingest import rebuild_span

        return rebuild_span(body, logged, self.redact)

    async def _write_bisected(self, rows: Sequence[SpanRow]) -> int:
        """Store rows by bisection; return how many could not be stored."""
        try:
            await self._add_rows(rows)
        except PalaverError:
            raise
        except Exception:
            if len(rows) == 1:
                log.exception("Failed to store span %s of trace %s", rows[0].span_id, rows[0].trace_id)
                return 1
            half = len(rows) // 2
            return await self._write_bisected(rows[:half]) + await self._write_bisected(rows[half:])
        return 0

    def _finish(self, pending: _PendingRows, lost_count: int) -> None:
        self.stored_count += len(pending.rows) - lost_count
        if pending.future is None:
            self.dropped_count += lost_count
        elif not pending.future.done():  # The request may have been cancelled.
            pending.future.set_result(lost_count)
        self._release(pending)

    async def _retry_or_fail(self, batch: Sequence[_PendingRows], error: PalaverError) -> None:
        """Handle a database failure: clients resend, local spans are retried a few times."""
        to_retry: list[_PendingRows] = []
        for pending in batch:
            pending.attempts += 1
            if pending.future is None and pending.attempts < MAX_ATTEMPTS:
                to_retry.append(pending)
                continue
            if pending.future is None:
                log.warning("Dropped %d spans of local runs: %s", len(pending.rows), error.message)
                self.dropped_count += len(pending.rows)
            elif not pending.future.done():
                pending.future.set_exception(type(error)(error.message))
            self._release(pending)
        if to_retry:
            await asyncio.sleep(self._retry_delay_s)
            self._pending.extend(to_retry)
            self._pending_spans += sum(len(pending.rows) for pending in to_retry)
            self._update_batch_ready()

    def _release(self, pending: _PendingRows) -> None:
        if pending.future is None:
            self._local_bytes -= pending.size
        else:
            self._request_bytes -= pending.size


def _build_rows(spans: "Sequence[Span]", redact: "RedactSpan") -> Sequence[SpanRow]:
    from palaver.traces.ingest import build_rows

    return build_rows(spans, redact)


def _approximate_bytes(span: "Span") -> int:
    """Estimate the size from lengths only, as this runs on the event loop."""
    size = _SPAN_OVERHEAD_BYTES
    for value in span.attributes.values():
        if type(value) is str:
            size += len(value)
    return size


def _overloaded() -> Overloaded:
    return Overloaded("Spans arrive faster than they can be written. Try again shortly.")
