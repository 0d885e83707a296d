"""The span writer: shared transactions, room, and what becomes of spans that cannot be kept."""

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


def as_they_are(span: Span) -> Span:
    return span


def rows(*numbers: int) -> list[SpanRow]:
    return list(build_rows(map(record, numbers), as_they_are))


class Watched:
    """A database of which is known how often it was written to, and that can refuse."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.sizes: list[int] = []
        self.refuse: Callable[[list[SpanRow]], Exception | None] = lambda _: None
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def write(self, work: Any, rows: list[SpanRow], **more: Any) -> Any:
        self.sizes.append(len(rows))
        self.asked.set()
        await self.open.wait()
        if (error := self.refuse(rows)) is not None:
            raise error
        return await self._database.write(work, rows, **more)

    async def kept(self) -> list[str]:
        def ask(db: Connection) -> list[str]:
            return list(db.scalars(select(spans.c.name).order_by(spans.c.span_id)))

        return await self._database.read(ask)


class House(msgspec.Struct):
    writer: SpanWriter
    database: Watched


@asynccontextmanager
async def writing_to(**options: Any) -> AsyncIterator[House]:
    database = open_database(MEMORY_URL)
    watched: Any = Watched(database)
    writer = SpanWriter(watched, redact=options.pop("redact", as_they_are), now=lambda: NOW, retry_delay_s=0, **options)
    try:
        yield House(writer, watched)
    finally:
        watched.open.set()
        await writer.close()
        await database.close()


async def test_what_is_written_is_there_when_the_call_returns() -> None:
    async with writing_to() as house:
        lost = await house.writer.write(rows(1, 2))

        assert (lost, await house.database.kept(), house.writer.stored_count) == (0, ["span 1", "span 2"], 2)


async def test_nothing_to_write_is_no_transaction() -> None:
    async with writing_to() as house:
        assert (await house.writer.write([]), house.database.sizes) == (0, [])


async def test_what_comes_while_something_is_written_shares_one_transaction() -> None:
    async with writing_to() as house:
        house.database.open.clear()
        first = asyncio.create_task(house.writer.write(rows(1)))
        await house.database.asked.wait()
        others = [asyncio.create_task(house.writer.write(rows(number))) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        house.database.open.set()
        await asyncio.gather(first, *others)

        assert house.database.sizes == [1, 3]


async def test_a_write_waits_a_moment_for_those_that_are_being_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_WAIT_S", 60.0)
    async with writing_to() as house:
        with house.writer.reserve(1):
            first = asyncio.create_task(house.writer.write(rows(1)))
            await asyncio.sleep(0)
            second = asyncio.create_task(house.writer.write(rows(2)))
            await asyncio.sleep(0)
            assert house.database.sizes == []
        await asyncio.gather(first, second)

        assert house.database.sizes == [2]


async def test_it_does_not_wait_longer_than_that_moment() -> None:
    async with writing_to() as house:
        with house.writer.reserve(1):
            assert await house.writer.write(rows(1)) == 0


async def test_enough_spans_are_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH_SPANS", 3)
    monkeypatch.setattr(writer, "BATCH_WAIT_S", 60.0)
    async with writing_to() as house:
        with house.writer.reserve(1):
            await house.writer.write(rows(1, 2, 3, 4, 5, 6))

        assert house.database.sizes == [3, 3]


async def test_work_is_done_in_a_thread_of_its_own() -> None:
    async with writing_to() as house:
        name = await house.writer.run_in_thread(lambda: threading.current_thread().name)

        assert name.startswith("palaver-spans")


async def test_without_room_a_request_is_refused_and_the_next_is_taken_when_there_is() -> None:
    async with writing_to(max_request_bytes=100) as house:
        with house.writer.reserve(100):
            with pytest.raises(Overloaded, match="send them again in a moment"), house.writer.reserve(1):
                pass
            with pytest.raises(Overloaded):
                house.writer.check_capacity()
        house.writer.check_capacity()
        with house.writer.reserve(1_000):  # One is always taken, whatever its size.
            pass


async def test_rows_take_up_room_until_they_are_written() -> None:
    async with writing_to(max_request_bytes=100) as house:
        house.database.open.clear()
        task = asyncio.create_task(house.writer.write(rows(1)))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            house.writer.check_capacity()
        house.database.open.set()
        await task

        house.writer.check_capacity()


async def test_what_our_own_runs_leave_is_written_without_waiting() -> None:
    async with writing_to() as house:
        house.writer.enqueue([record(1), record(2)])
        house.writer.enqueue([record(3, "other")])
        await house.writer.flush()

        assert await house.database.kept() == ["span 1", "span 2", "span 3"]


async def test_our_own_spans_are_dropped_and_counted_where_there_is_no_room() -> None:
    async with writing_to(max_local_bytes=1) as house:
        house.database.open.clear()
        house.writer.enqueue([record(1), record(2), record(3)])
        house.database.open.set()
        await house.writer.flush()
        house.writer.enqueue([record(4)])
        await house.writer.flush()

        assert (house.writer.dropped_count, await house.database.kept()) == (2, ["span 1", "span 4"])


async def test_a_flood_of_our_own_spans_leaves_room_for_requests() -> None:
    async with writing_to(max_local_bytes=1, max_request_bytes=100_000) as house:
        house.database.open.clear()
        house.writer.enqueue([record(1), record(2)])
        house.writer.check_capacity()


@pytest.mark.parametrize("error", [Overloaded("Away."), DiskFull("Full.")])
async def test_a_sender_is_told_that_the_database_could_not_take_it(error: Any) -> None:
    async with writing_to() as house:
        house.database.refuse = lambda _: error
        with pytest.raises(type(error), match=error.message):
            await house.writer.write(rows(1))
        house.database.refuse = lambda _: None

        assert await house.writer.write(rows(1)) == 0


async def test_our_own_spans_are_tried_again_and_then_given_up() -> None:
    async with writing_to() as house:
        left = [Overloaded("Away.")] * 2
        house.database.refuse = lambda _: left.pop() if left else None
        house.writer.enqueue([record(1)])
        await house.writer.flush()
        house.database.refuse = lambda _: Overloaded("Away.")
        house.writer.enqueue([record(2)])
        await house.writer.flush()

        assert (await house.database.kept(), house.writer.dropped_count) == (["span 1"], 1)
        assert house.database.sizes == [1] * (3 + writer.MAX_ATTEMPTS)


async def test_a_span_that_cannot_be_kept_loses_no_other() -> None:
    def broken(given: list[SpanRow]) -> Exception | None:
        return ValueError("odd") if any(row.name == "span 3" for row in given) else None

    async with writing_to() as house:
        house.database.refuse = broken
        house.database.open.clear()
        first = asyncio.create_task(house.writer.write(rows(1)))
        await asyncio.sleep(0)
        others = [asyncio.create_task(house.writer.write(given)) for given in (rows(2, 3, 4), rows(5))]
        await asyncio.sleep(0)
        house.database.open.set()

        assert [await first, await others[0], await others[1]] == [0, 1, 0]
        assert await house.database.kept() == ["span 1", "span 2", "span 4", "span 5"]


async def test_a_database_that_goes_away_while_others_are_saved_is_told_to_each() -> None:
    errors: list[Exception] = [Overloaded("Away."), ValueError("odd")]
    async with writing_to() as house:
        house.database.refuse = lambda _: errors.pop()
        with pytest.raises(Overloaded):
            await house.writer.write(rows(1))


async def test_one_of_our_own_that_cannot_be_kept_is_counted() -> None:
    async with writing_to() as house:
        house.database.refuse = lambda _: ValueError("odd")
        house.writer.enqueue([record(1)])
        await house.writer.flush()

        assert (house.writer.dropped_count, house.writer.stored_count) == (1, 0)


async def test_what_cannot_be_redacted_is_not_kept() -> None:
    def broken(span: Span) -> Span:
        raise ValueError("odd")

    async with writing_to(redact=broken) as house:
        house.writer.enqueue([record(1)])
        await house.writer.flush()

        assert (house.writer.dropped_count, await house.database.kept()) == (1, [])


@pytest.mark.parametrize("refused", [None, Overloaded("Away.")])
async def test_whoever_waits_may_leave(refused: Exception | None) -> None:
    async with writing_to() as house:
        house.database.refuse = lambda _: refused
        house.database.open.clear()
        task = asyncio.create_task(house.writer.write(rows(1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        house.database.open.set()
        await house.writer.flush()

        assert await house.database.kept() == ([] if refused else ["span 1"])
        house.writer.check_capacity()


async def test_closing_writes_what_is_waiting() -> None:
    async with writing_to() as house:
        house.writer.enqueue([record(1)])
        await house.writer.close()

        assert await house.database.kept() == ["span 1"]
