"""The span writer: shared transactions, queue limits, and spans that cannot be stored."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, select

from palaver.errors import DiskFull, Overloaded
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.spans.tables import spans
from palaver.storage.spans.writes import SpanRow
from palaver.traces import writer
from palaver.traces.ingest import build_rows
from palaver.traces.model import Span
from palaver.traces.writer import SpanWriter

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def record(number: int, project: str = "mine") -> Span:
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        project=project,
        name=f"span {number}",
        start=NOW,
        attributes={"said": "Hi", "count": 1},
    )


def skip_redaction(span: Span) -> Span:
    return span


def rows(*numbers: int) -> list[SpanRow]:
    return list(build_rows(map(record, numbers), skip_redaction))


class RecordingDatabase:
    """A database that records the size of every write and can be made to fail."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.sizes: list[int] = []
        self.refuse: Callable[[list[SpanRow]], Exception | None] = lambda _: None
        self.write_started = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def write(self, work: Any, rows: list[SpanRow], **more: Any) -> Any:
        self.sizes.append(len(rows))
        self.write_started.set()
        await self.open.wait()
        if (error := self.refuse(rows)) is not None:
            raise error
        return await self._database.write(work, rows, **more)

    async def stored_names(self) -> list[str]:
        def query(db: Connection) -> list[str]:
            return list(db.scalars(select(spans.c.name).order_by(spans.c.span_id)))

        return await self._database.read(query)


class WriterSetup(msgspec.Struct):
    writer: SpanWriter
    database: RecordingDatabase


@asynccontextmanager
async def open_writer(**options: Any) -> AsyncIterator[WriterSetup]:
    database = open_database(MEMORY_URL)
    recording: Any = RecordingDatabase(database)
    writer = SpanWriter(
        recording, redact=options.pop("redact", skip_redaction), now=lambda: NOW, retry_delay_s=0, **options
    )
    try:
        yield WriterSetup(writer, recording)
    finally:
        recording.open.set()
        await writer.close()
        await database.close()


async def test_rows_are_stored_when_write_returns() -> None:
    async with open_writer() as setup:
        lost = await setup.writer.write(rows(1, 2))

        assert (lost, await setup.database.stored_names(), setup.writer.stored_count) == (0, ["span 1", "span 2"], 2)


async def test_an_empty_write_makes_no_transaction() -> None:
    async with open_writer() as setup:
        assert (await setup.writer.write([]), setup.database.sizes) == (0, [])


async def test_writes_during_a_transaction_share_the_next_one() -> None:
    async with open_writer() as setup:
        setup.database.open.clear()
        first = asyncio.create_task(setup.writer.write(rows(1)))
        await setup.database.write_started.wait()
        later_writes = [asyncio.create_task(setup.writer.write(rows(number))) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        setup.database.open.set()
        await asyncio.gather(first, *later_writes)

        assert setup.database.sizes == [1, 3]


async def test_a_write_waits_for_requests_that_have_reserved_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_WAIT_S", 60.0)
    async with open_writer() as setup:
        with setup.writer.reserve(1):
            first = asyncio.create_task(setup.writer.write(rows(1)))
            await asyncio.sleep(0)
            second = asyncio.create_task(setup.writer.write(rows(2)))
            await asyncio.sleep(0)
            assert setup.database.sizes == []
        await asyncio.gather(first, second)

        assert setup.database.sizes == [2]


async def test_a_write_waits_no_longer_than_the_batch_wait_time() -> None:
    async with open_writer() as setup:
        with setup.writer.reserve(1):
            assert await setup.writer.write(rows(1)) == 0


async def test_a_full_batch_is_written_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH_SPANS", 3)
    monkeypatch.setattr(writer, "BATCH_WAIT_S", 60.0)
    async with open_writer() as setup:
        with setup.writer.reserve(1):
            await setup.writer.write(rows(1, 2, 3, 4, 5, 6))

        assert setup.database.sizes == [3, 3]


async def test_work_runs_in_a_thread_of_the_writer() -> None:
    async with open_writer() as setup:
        name = await setup.writer.run_in_thread(lambda: threading.current_thread().name)

        assert name.startswith("palaver-spans")


async def test_requests_are_refused_until_capacity_is_released() -> None:
    async with open_writer(max_request_bytes=100) as setup:
        with setup.writer.reserve(100):
            with pytest.raises(Overloaded, match="faster than they can be written"), setup.writer.reserve(1):
                pass
            with pytest.raises(Overloaded):
                setup.writer.check_capacity()
        setup.writer.check_capacity()
        with setup.writer.reserve(1_000):  # A single request is always accepted, whatever its size.
            pass


async def test_rows_use_request_capacity_until_they_are_written() -> None:
    async with open_writer(max_request_bytes=100) as setup:
        setup.database.open.clear()
        task = asyncio.create_task(setup.writer.write(rows(1)))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            setup.writer.check_capacity()
        setup.database.open.set()
        await task

        setup.writer.check_capacity()


async def test_enqueued_local_spans_are_stored_after_a_flush() -> None:
    async with open_writer() as setup:
        setup.writer.enqueue([record(1), record(2)])
        setup.writer.enqueue([record(3, "other")])
        await setup.writer.flush()

        assert await setup.database.stored_names() == ["span 1", "span 2", "span 3"]


async def test_local_spans_above_the_limit_are_dropped_and_counted() -> None:
    async with open_writer(max_local_bytes=1) as setup:
        setup.database.open.clear()
        setup.writer.enqueue([record(1), record(2), record(3)])
        setup.database.open.set()
        await setup.writer.flush()
        setup.writer.enqueue([record(4)])
        await setup.writer.flush()

        assert (setup.writer.dropped_count, await setup.database.stored_names()) == (2, ["span 1", "span 4"])


async def test_local_spans_above_their_limit_leave_capacity_for_requests() -> None:
    async with open_writer(max_local_bytes=1, max_request_bytes=100_000) as setup:
        setup.database.open.clear()
        setup.writer.enqueue([record(1), record(2)])
        setup.writer.check_capacity()


@pytest.mark.parametrize("error", [Overloaded("Away."), DiskFull("Full.")])
async def test_a_database_error_is_raised_to_the_caller_of_write(error: Any) -> None:
    async with open_writer() as setup:
        setup.database.refuse = lambda _: error
        with pytest.raises(type(error), match=error.message):
            await setup.writer.write(rows(1))
        setup.database.refuse = lambda _: None

        assert await setup.writer.write(rows(1)) == 0


async def test_local_spans_are_retried_and_dropped_after_the_last_attempt() -> None:
    async with open_writer() as setup:
        failures = [Overloaded("Away.")] * 2
        setup.database.refuse = lambda _: failures.pop() if failures else None
        setup.writer.enqueue([record(1)])
        await setup.writer.flush()
        setup.database.refuse = lambda _: Overloaded("Away.")
        setup.writer.enqueue([record(2)])
        await setup.writer.flush()

        assert (await setup.database.stored_names(), setup.writer.dropped_count) == (["span 1"], 1)
        assert setup.database.sizes == [1] * (3 + writer.MAX_ATTEMPTS)


async def test_a_span_that_cannot_be_stored_loses_no_other() -> None:
    def broken(batch: list[SpanRow]) -> Exception | None:
        return ValueError("odd") if any(row.name == "span 3" for row in batch) else None

    async with open_writer() as setup:
        setup.database.refuse = broken
        setup.database.open.clear()
        first = asyncio.create_task(setup.writer.write(rows(1)))
        await asyncio.sleep(0)
        later_writes = [asyncio.create_task(setup.writer.write(batch)) for batch in (rows(2, 3, 4), rows(5))]
        await asyncio.sleep(0)
        setup.database.open.set()

        assert [await first, await later_writes[0], await later_writes[1]] == [0, 1, 0]
        assert await setup.database.stored_names() == ["span 1", "span 2", "span 4", "span 5"]


async def test_an_overload_while_rows_are_retried_one_by_one_is_raised() -> None:
    errors: list[Exception] = [Overloaded("Away."), ValueError("odd")]
    async with open_writer() as setup:
        setup.database.refuse = lambda _: errors.pop()
        with pytest.raises(Overloaded):
            await setup.writer.write(rows(1))


async def test_a_local_span_that_cannot_be_stored_is_counted_as_dropped() -> None:
    async with open_writer() as setup:
        setup.database.refuse = lambda _: ValueError("odd")
        setup.writer.enqueue([record(1)])
        await setup.writer.flush()

        assert (setup.writer.dropped_count, setup.writer.stored_count) == (1, 0)


async def test_a_span_that_cannot_be_redacted_is_not_stored() -> None:
    def broken(span: Span) -> Span:
        raise ValueError("odd")

    async with open_writer(redact=broken) as setup:
        setup.writer.enqueue([record(1)])
        await setup.writer.flush()

        assert (setup.writer.dropped_count, await setup.database.stored_names()) == (1, [])


@pytest.mark.parametrize("error", [None, Overloaded("Away.")])
async def test_a_write_whose_caller_is_cancelled_completes_and_frees_its_capacity(error: Exception | None) -> None:
    async with open_writer() as setup:
        setup.database.refuse = lambda _: error
        setup.database.open.clear()
        task = asyncio.create_task(setup.writer.write(rows(1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        setup.database.open.set()
        await setup.writer.flush()

        assert await setup.database.stored_names() == ([] if error else ["span 1"])
        setup.writer.check_capacity()


async def test_closing_writes_the_queued_spans() -> None:
    async with open_writer() as setup:
        setup.writer.enqueue([record(1)])
        await setup.writer.close()

        assert await setup.database.stored_names() == ["span 1"]
