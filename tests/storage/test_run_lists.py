"""The list of runs, on every database: contents, order, and progress of active runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Boolean, Connection

from palaver.core.events import RunStarted, TextStarted
from palaver.core.ids import sortable_id
from palaver.core.runs import EventBatch
from palaver.storage import runs
from palaver.storage.database import Database
from palaver.storage.pagination import Window
from palaver.storage.runs import RunFilters
from palaver.storage.tables import runs as table

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

_REQUIRED_VALUES = {
    column.name: False if isinstance(column.type, Boolean) else 0 for column in table.c if not column.nullable
}
"""Values for all required columns."""


def run_id_at(minute: float) -> str:
    at = NOON + minute * MINUTE
    return f"run_{sortable_id(int(at.timestamp() * 1000), 7)}"


async def insert_run(database: Database, minute: float, project: str = "mine", **more: Any) -> str:
    row: dict[str, Any] = {
        "project": project,
        "id": run_id_at(minute),
        "workflow": "tutor",
        "status": "finished",
        "protocol": "responses",
        "background": False,
        "stored": True,
        "session": "s",
        "seq": 4,
        "created_at": NOON + minute * MINUTE,
        "ended_at": NOON + minute * MINUTE,
    }
    await database.write(runs.insert_runs, [_REQUIRED_VALUES | row | more])
    return row["id"]


async def list_ids(database: Database, **filters: Any) -> list[str]:
    result = await database.read(runs.list_runs, "mine", RunFilters(**filters))
    return [row.id for row in result.data]


async def test_runs_are_listed_newest_first_in_pages(database: Database) -> None:
    created = [await insert_run(database, minute) for minute in range(5)]
    await insert_run(database, 9, project="theirs")

    first = await database.read(runs.list_runs, "mine", RunFilters(), Window(2))
    second = await database.read(runs.list_runs, "mine", RunFilters(), Window(3, first.next))

    assert [row.id for row in first.data] == [created[4], created[3]]
    assert [row.id for row in second.data] == [created[2], created[1], created[0]]
    assert second.next is None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"workflow": "tutor"}, [0]),
        ({"variant": "short"}, [0, 1]),
        ({"variant": "short:3"}, [0]),
        ({"variant": "shor"}, []),
        ({"status": "running"}, [1]),
        ({"protocol": "turns"}, [1]),
        ({"thread": "conv_1"}, [1]),
        ({"board": "brd_1"}, [0]),
        ({"key": "ab12cd34"}, [0]),
        ({"user": "ann\0"}, []),
        ({"user": "ann"}, [0]),
        ({"evaluation": "ev_1"}, []),
        ({"search": 'say "blue"'}, [0]),
        ({"search": "Ä"}, [0]),
        ({"search": "100%"}, [1]),
        ({"search": "1000"}, []),
        ({"workflow": "tutor", "status": "running"}, []),
    ],
)
async def test_runs_are_filtered_by_their_fields_and_search_text(
    database: Database, filters: dict[str, Any], expected: list[int]
) -> None:
    first = await insert_run(
        database,
        0,
        variant="short:3",
        board="brd_1",
        key="ab12cd34",
        user="ann",
        preview_in={"text": 'Say "BLUE", Ä'},
    )
    second = await insert_run(
        database,
        1,
        workflow="poet",
        variant="short:4",
        status="running",
        protocol="turns",
        thread="conv_1",
        preview_out={"text": "100% sure"},
        ended_at=None,
    )

    assert sorted(await list_ids(database, **filters)) == [[first, second][index] for index in expected]


async def test_runs_are_filtered_by_creation_time_even_if_they_were_queued(database: Database) -> None:
    created = [await insert_run(database, minute) for minute in range(4)]
    queued = await insert_run(database, 0.5, created_at=NOON + 3 * MINUTE)

    assert await list_ids(database, since=NOON + 2 * MINUTE) == [created[3], created[2], queued]
    assert await list_ids(database, until=NOON + 2 * MINUTE) == [created[1], created[0]]
    assert await list_ids(database, since=NOON + MINUTE, until=NOON + 3 * MINUTE) == [created[2], created[1]]


async def test_active_run_has_the_sequence_number_of_its_last_logged_event(database: Database) -> None:
    active = await insert_run(database, 0, seq=-1, status="running", ended_at=None)
    silent = await insert_run(database, 1, seq=-1, status="running", ended_at=None)
    await database.write(
        runs.append_events, [EventBatch("mine", active, [RunStarted(0, active), TextStarted(1, "m", "m")])]
    )

    result = await database.read(runs.list_runs, "mine")

    assert [(row.id, row.seq) for row in result.data] == [(silent, -1), (active, 1)]


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        (RunFilters(status="failed"), "ix_runs_unusual"),
        (RunFilters(status="cancelled"), "ix_runs_unusual"),
        (RunFilters(status="interrupted"), "ix_runs_unusual"),
        (RunFilters(board="board_1"), "ix_runs_of_board"),
    ],
)
async def test_rare_statuses_and_boards_are_filtered_with_an_index(
    database: Database, filters: RunFilters, index: str
) -> None:
    assert index in await database.read(_plan, filters)


def _plan(db: Connection, filters: RunFilters) -> str:
    """Return the query plan of the database for a filtered list."""
    query = (
        runs._filtered_runs(db, "default", filters).order_by(table.c.id.desc()).limit(51).compile(dialect=db.dialect)
    )
    if db.dialect.name == "postgresql":
        db.exec_driver_sql("SET LOCAL enable_seqscan = off")  # It would scan an empty table.
        rows = db.exec_driver_sql(f"EXPLAIN {query}", dict(query.params))
    else:
        values = tuple(query.params[name] for name in query.positiontup or ())
        rows = db.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values)
    return "\n".join(str(tuple(row)) for row in rows)
