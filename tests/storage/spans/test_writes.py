"""Spans are stored once, on every database: the latest version of each, and one head per trace."""

import asyncio
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from palaver.storage import projects
from palaver.storage.database import Database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import retention as span_erasing
from palaver.storage.spans import retention as span_retention
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans import writes as spans
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.tables import span_bodies
from palaver.storage.spans.tables import spans as table
from palaver.storage.spans.writes import InsertCounts, compress_body, decompress_body
from tests.storage.span_factory import NOON, SECOND, insert_rows, span_id, span_row, trace_id


async def list_names(database: Database, *, search: str | None = None) -> list[str]:
    result = await database.read(span_pages.list_spans, "mine", SpanQuery(search=search))
    return [one.name for one in result.data]


async def list_trace_names(database: Database) -> list[str]:
    result = await database.read(span_pages.list_traces, "mine")
    return [one.name for one in result.data]


async def body(database: Database, name: str) -> bytes | None:
    return await database.read(span_trees.get_span_body, "mine", trace_id("t"), span_id(name))


async def test_stored_span_is_read_as_a_list_item_and_as_a_body(database: Database) -> None:
    text = "word " * 1000
    row_ = span_row("chat", model="m", session="s", attributes={"a": text}, input_tokens=3, cost=0.25)

    assert await insert_rows(database, row_) == InsertCounts(new=1, replaced=0, ignored=0)

    [result] = (await database.read(span_pages.list_spans, "mine")).data
    assert (result.trace_id, result.span_id, result.model, result.session) == (trace_id("t"), span_id("chat"), "m", "s")
    assert (result.start, result.duration_ms, result.input_tokens, result.cost) == (NOON, 100.0, 3, 0.25)
    assert (result.preview_in["text"], result.preview_out["text"]) == ("in chat", "out chat")
    assert await body(database, "chat") == decompress_body(row_.body)
    assert len(row_.body) < 200
    assert await database.read(span_trees.get_span_body, "mine", trace_id("t"), span_id("other")) is None
    assert await database.read(span_trees.get_span_body, "theirs", trace_id("t"), span_id("chat")) is None


async def test_inserting_no_spans_stores_nothing(database: Database) -> None:
    assert await insert_rows(database) == InsertCounts(0, 0, 0)


async def test_span_is_replaced_only_by_a_version_that_ended_later(database: Database) -> None:
    await insert_rows(database, span_row("chat", text="first", duration_ms=10.0))

    assert await insert_rows(database, span_row("chat", text="second", duration_ms=20.0)) == InsertCounts(0, 1, 0)
    assert await insert_rows(database, span_row("chat", text="third", duration_ms=20.0)) == InsertCounts(0, 0, 1)
    assert await insert_rows(database, span_row("chat", text="fourth", duration_ms=5.0)) == InsertCounts(0, 0, 1)

    result = [await list_names(database, search=word) for word in ("first", "second", "third", "fourth")]
    assert result == [[], ["chat"], [], []]
    assert await list_names(database) == ["chat"]
    assert await list_trace_names(database) == ["chat"]


async def test_latest_of_several_versions_in_one_insert_is_stored(database: Database) -> None:
    earlier, late = span_row("chat", duration_ms=1.0, model="early"), span_row("chat", duration_ms=2.0, model="late")

    assert await insert_rows(database, late, earlier, late) == InsertCounts(new=1, replaced=0, ignored=2)
    assert [one.model for one in (await database.read(span_pages.list_spans, "mine")).data] == ["late"]


async def test_span_that_moves_to_another_day_is_replaced(database: Database) -> None:
    await insert_rows(database, span_row("chat", duration_ms=1.0))
    tomorrow = span_row("chat", 24 * 60 * 60, duration_ms=1.0)

    assert await insert_rows(database, tomorrow) == InsertCounts(new=0, replaced=1, ignored=0)
    assert await list_names(database) == ["chat"]


async def test_equal_ids_in_another_project_or_trace_are_different_spans(database: Database) -> None:
    await insert_rows(database, span_row("a"), span_row("a", trace="u"), span_row("a", project="theirs"))

    assert await list_names(database) == ["a", "a"]
    assert len((await database.read(span_pages.list_spans, "theirs")).data) == 1


async def test_the_head_of_a_trace_is_its_root_or_else_its_earliest_span(database: Database) -> None:
    await insert_rows(database, span_row("b", 2, parent="x"))
    assert await list_trace_names(database) == ["b"]
    await insert_rows(database, span_row("c", 3, parent="x"))
    assert await list_trace_names(database) == ["b"]
    await insert_rows(database, span_row("a", 1, parent="x"))
    assert await list_trace_names(database) == ["a"]
    await insert_rows(database, span_row("root", 4))
    assert await list_trace_names(database) == ["root"]
    await insert_rows(database, span_row("root too", 5))
    assert await list_trace_names(database) == ["root"]


async def test_head_is_chosen_again_when_it_is_replaced(database: Database) -> None:
    await insert_rows(database, span_row("a", 1), span_row("b", 2, parent="x"))
    await insert_rows(database, span_row("a", 3, parent="x"))
    assert await list_trace_names(database) == ["b"]
    await insert_rows(database, span_row("b", 2.5, parent="x", duration_ms=9000.0), span_row("c", 2, parent="x"))
    assert await list_trace_names(database) == ["c"]


@pytest.mark.parametrize(("starts", "expected"), [([0, 1, 2], "0"), ([2, 1, 0], "0"), ([1, 0, 2], "0")])
async def test_the_head_does_not_depend_on_the_order_of_arrival(
    database: Database, starts: list[int], expected: str
) -> None:
    for start in starts:
        await insert_rows(database, span_row(f"{start}", start, parent="x"))

    assert await list_trace_names(database) == [expected]


async def test_concurrent_inserts_store_each_span_once_with_one_head(database: Database) -> None:
    rows = [span_row(f"{number}", number, parent="x") for number in range(8)]
    others = [span_row(f"{number}", number * 24 * 60 * 60, project=f"{number % 3}") for number in range(-8, 0)]

    added = await asyncio.gather(*(insert_rows(database, *rows[index:], others[index]) for index in range(8)))

    assert sum(one.new for one in added) == 16
    assert sorted(await list_names(database)) == [f"{number}" for number in range(8)]
    assert await list_trace_names(database) == ["0"]


async def test_large_insert_is_split_into_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "INSERT_BATCH", 3)

    assert await insert_rows(
        database, *(span_row(f"{number}", 8 - number, parent="x") for number in range(8))
    ) == InsertCounts(8, 0, 0)
    assert await list_trace_names(database) == ["7"]


def _days(db: Connection) -> list[int]:
    return [*db.scalars(select(table.c.day).order_by(table.c.id))]


async def test_span_with_a_distant_start_is_stored_under_the_day_of_arrival(database: Database) -> None:
    day = 24 * 60 * 60
    given = [span_row(f"{days}", days * day) for days in (0, 1, 2, -30, -31)] + [
        span_row("never", trace="u", start=NOON - 20_000 * 86_400 * SECOND)
    ]

    await insert_rows(database, *given)

    today = (NOON.date() - date(1970, 1, 1)).days
    assert await database.read(_days) == [today, today + 1, today, today - 30, today, today]


def _row_counts(db: Connection) -> tuple[int, int]:
    return len(db.execute(select(table.c.id)).all()), len(db.execute(select(span_bodies.c.day)).all())


async def test_deleting_the_spans_of_a_project_removes_their_search_words(database: Database) -> None:
    await insert_rows(database, *(span_row(f"{number}", text="hello") for number in range(5)))
    await insert_rows(database, span_row("theirs", project="theirs", text="hello"))

    batches = []
    while deleted := await database.write(span_retention.delete_matching, "mine", 2):
        batches.append(deleted)
    await insert_rows(database, span_row("new", text="other"))

    assert batches == [2, 2, 1]
    assert await database.read(_row_counts) == (2, 2)
    assert await list_names(database, search="hello") == []
    assert await list_names(database, search="other") == ["new"]


async def test_deleting_a_project_deletes_its_spans_and_day_usage(database: Database) -> None:
    await insert_rows(database, *(span_row(f"{number}", text="hello", trace=f"{number}") for number in range(3)))
    await insert_rows(database, span_row("theirs", project="theirs"))

    while await database.write(projects.delete_project_batch, "mine", limit=2):
        pass

    assert await database.read(_row_counts) == (1, 1)
    assert [one.project for one in await database.read(span_days.list_day_usage)] == ["theirs"]
    assert await list_names(database, search="hello") == []


async def test_labelled_spans_are_deleted_in_batches_and_their_trace_gets_another_head(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_erasing, "ERASE_BATCH", 2)
    await insert_rows(
        database, span_row("root", user="ann", text="x"), span_row("a", 1, parent="root"), span_row("b", 2, user="ann")
    )
    await insert_rows(database, span_row("bobs", 3, user="bob"), span_row("c", user="bob", trace="u"))
    await insert_rows(database, span_row("d", user="ann", trace="u", project="theirs"))

    batches = [await database.write(span_erasing.delete_labelled, "mine", "user", "ann") for _ in range(3)]

    assert batches == [1, 2, 0]
    assert sorted(await list_names(database)) == ["bobs", "c"]
    assert sorted(await list_trace_names(database)) == ["bobs", "c"]
    assert await list_names(database, search="x") == []


@given(st.binary(max_size=3000))
def test_compressed_body_is_decompressed_unchanged(texts: bytes) -> None:
    body = b"{" + texts
    assert decompress_body(compress_body(body)) == body


@pytest.mark.parametrize(("size", "is_compressed"), [(2047, False), (2048, True)])
def test_body_is_compressed_from_2_kib(size: int, is_compressed: bool) -> None:
    body = b"{".ljust(size, b"x")

    assert (len(compress_body(body)) < size) == is_compressed
    assert (compress_body(body) == body) == (not is_compressed)


def test_end_of_a_span_is_its_start_plus_duration() -> None:
    assert span_row("a", duration_ms=1500.0).end == NOON + timedelta(seconds=1.5)
