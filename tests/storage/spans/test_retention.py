"""Expired days are deleted, oldest first, on every database; late spans are stored under today."""

from datetime import date, timedelta

import psycopg
import pytest
from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.exc import DBAPIError

from palaver.storage.database import Database, open_database
from palaver.storage.spans import partitions as span_days
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import retention as span_retention
from palaver.storage.spans.partitions import DayUsage
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.tables import span_bodies
from palaver.storage.spans.tables import spans as table
from tests.storage.span_factory import TODAY, insert_rows, span_row

DAY_S = 24 * 60 * 60
ONE_DAY = timedelta(days=1)


async def list_names(database: Database, search: str | None = None, project: str = "mine") -> list[str]:
    result = await database.read(span_pages.list_spans, project, SpanQuery(search=search))
    return [one.name for one in result.data]


async def delete_all_before(database: Database, before: date, project: str | None = None) -> int:
    deleted = 0
    while batch := await database.write(span_retention.delete_before, before, project):
        deleted += batch
    return deleted


async def test_deleting_days_deletes_their_spans_bodies_and_search_words(database: Database) -> None:
    await insert_rows(database, *(span_row(f"{days}", days * DAY_S, text="x", trace=f"{days}") for days in (0, -1, -2)))
    await insert_rows(database, span_row("theirs", -2 * DAY_S, project="theirs"))

    assert await delete_all_before(database, TODAY) == 3
    assert await delete_all_before(database, TODAY) == 0

    def bodies(db: Connection) -> int:
        return len(db.execute(select(span_bodies.c.day)).all())

    assert await list_names(database) == ["0"]
    assert await list_names(database, "x") == ["0"]
    assert await list_names(database, project="theirs") == []
    assert await database.read(bodies) == 1


async def test_day_is_deleted_in_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_retention, "DELETE_BATCH", 3)
    await insert_rows(database, *(span_row(f"{number}", trace=f"{number}") for number in range(7)))

    batches = [await database.write(span_retention.delete_before, TODAY + ONE_DAY, "mine") for _ in range(4)]

    assert batches == [3, 3, 1, 0]
    assert await list_names(database) == []


async def test_no_further_batch_starts_after_the_time_budget(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_retention, "DELETE_BUDGET_S", 0)
    await insert_rows(database, *(span_row(f"{number}", trace=f"{number}") for number in range(50)))

    batches = [await database.write(span_retention.delete_before, TODAY + ONE_DAY, "mine") for _ in range(4)]

    assert batches == [20, 20, 10, 0]


async def test_days_of_one_project_can_be_deleted_separately(database: Database) -> None:
    await insert_rows(
        database, span_row("old", -1 * DAY_S), span_row("new"), span_row("theirs", -1 * DAY_S, project="theirs")
    )

    assert await delete_all_before(database, TODAY, "mine") == 1

    assert await list_names(database) == ["new"]
    assert await list_names(database, project="theirs") == ["theirs"]
    await insert_rows(database, span_row("late", -1 * DAY_S), span_row("tardy", -1 * DAY_S, project="theirs"))
    usage = await database.read(span_days.list_day_usage)
    assert [(one.project, one.day, one.spans) for one in usage] == [("theirs", TODAY - ONE_DAY, 2), ("mine", TODAY, 2)]


async def test_late_spans_of_deleted_days_are_stored_under_today(database: Database) -> None:
    await insert_rows(database, span_row("old", -2 * DAY_S))
    await delete_all_before(database, TODAY - ONE_DAY)

    await insert_rows(
        database,
        span_row("late", -2 * DAY_S),
        span_row("later", -3 * DAY_S),
        span_row("other", -2 * DAY_S, project="theirs"),
    )
    await insert_rows(database, span_row("in time", -1 * DAY_S))

    usage = await database.read(span_days.list_day_usage)
    assert [(one.project, one.day, one.spans) for one in usage] == [
        ("mine", TODAY - ONE_DAY, 1),
        ("mine", TODAY, 2),
        ("theirs", TODAY, 1),
    ]


async def test_trace_that_continues_after_a_deleted_day_gets_another_head(database: Database) -> None:
    midnight = 12 * 60 * 60
    await insert_rows(
        database,
        span_row("root", midnight - 60, duration_ms=120_000.0),
        span_row("before", midnight - 30, parent="root"),
        span_row("after", midnight + 10, parent="root"),
        span_row("last", midnight + 20, parent="root"),
        span_row("short", midnight - 60, trace="u"),
        span_row("alone", midnight - 60, trace="v", duration_ms=120_000.0),
    )

    assert await delete_all_before(database, TODAY + ONE_DAY) == 4
    result = await database.read(span_pages.list_traces, "mine")
    assert [(one.name, one.spans) for one in result.data] == [("after", 2)]


async def test_spans_and_bytes_are_counted_per_day(database: Database) -> None:
    first, second, third = span_row("a"), span_row("b", 1), span_row("b", 1, duration_ms=999.0, body=b"{}")
    await insert_rows(database, first, second, span_row("c", -1 * DAY_S))
    await insert_rows(database, third, first)

    usage = await database.read(span_days.list_day_usage)

    assert usage == [
        DayUsage("mine", TODAY - ONE_DAY, 1, span_row("c").bytes),
        DayUsage("mine", TODAY, 2, first.bytes + third.bytes),
    ]


async def test_first_day_within_a_size_limit_is_found(database: Database) -> None:
    size = span_row("0").bytes
    await insert_rows(database, *(span_row(f"{days}", -days * DAY_S, trace=f"{days}", text="0") for days in range(4)))

    async def over(spans: float) -> date | None:
        return await database.read(span_days.first_day_within, int(spans * size) + 8)

    assert await over(4) is None
    assert await over(3.5) == TODAY - 2 * ONE_DAY
    assert await over(2) == TODAY - ONE_DAY
    assert await over(0) == TODAY
    await delete_all_before(database, TODAY)
    assert await over(0) is None


async def test_partitions_are_created_for_upcoming_days(database: Database) -> None:
    await database.write(span_days.create_upcoming_partitions, TODAY)
    await database.write(span_days.create_upcoming_partitions, TODAY)

    def partitions(db: Connection) -> list[str]:
        return sorted(name for name in inspect(db).get_table_names() if name.startswith(("spans_2", "span_bodies_2")))

    created = [f"{name}_{day}" for name in ("span_bodies", "spans") for day in (20261115, 20261116, 20261117)]
    assert await database.read(partitions) == (created if database.kind == "postgresql" else [])


async def test_partition_of_an_emptied_day_is_dropped(postgres_url: str) -> None:
    database = open_database(postgres_url)
    await insert_rows(database, span_row("old", -1 * DAY_S), span_row("new"))
    await delete_all_before(database, TODAY, "mine")

    def partitions(db: Connection) -> list[str]:
        return sorted(name for name in inspect(db).get_table_names() if name.startswith("spans_2"))

    before = await database.read(partitions)
    await delete_all_before(database, TODAY)

    assert before == ["spans_20261114", "spans_20261115"]
    assert await database.read(partitions) == ["spans_20261115"]
    assert await list_names(database) == ["new"]
    await database.close()


async def test_day_with_a_wrong_count_is_deleted(database: Database) -> None:
    await insert_rows(database, span_row("a"))
    await database.write(span_days.add_day_usage, "mine", [(span_days.day_number(TODAY), 5, 500)])

    assert await database.write(span_retention.delete_before, TODAY + ONE_DAY, "mine") == 1
    assert await database.write(span_retention.delete_before, TODAY + ONE_DAY, "mine") == 0
    assert await database.read(span_days.list_day_usage) == []
    assert await database.read(lambda db: db.execute(select(table.c.id)).all()) == []


async def test_partition_in_use_by_a_reader_is_dropped_on_a_later_attempt(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_retention, "DROP_LOCK_TIMEOUT_S", 0.05)
    database = open_database(postgres_url)
    await insert_rows(database, span_row("old", -1 * DAY_S), span_row("new"))

    with psycopg.connect(postgres_url) as reader:
        assert reader.execute("SELECT count(*) FROM spans").fetchone() == (2,)
        assert await database.write(span_retention.delete_before, TODAY) == 0
        reader.rollback()
        assert await database.write(span_retention.delete_before, TODAY) == 1

    assert await list_names(database) == ["new"]
    await database.close()


async def test_other_errors_while_dropping_a_partition_are_raised(postgres_url: str) -> None:
    database = open_database(postgres_url)
    await insert_rows(database, span_row("old", -1 * DAY_S))
    await database.write(lambda db: db.execute(text("CREATE VIEW watched AS SELECT * FROM spans_20261114")))

    with pytest.raises(DBAPIError):
        await database.write(span_retention.delete_before, TODAY)
    await database.close()
