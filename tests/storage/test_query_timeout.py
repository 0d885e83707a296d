"""Queries that take too long are interrupted."""

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from palaver.errors import QueryTimeout
from palaver.storage.database import Database
from palaver.storage.driver_errors import query_timeout

ENDLESS_QUERY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def run_query(db: Connection, sql: str, timeout_s: float) -> int:
    with query_timeout(db, timeout_s):
        return db.scalar(text(sql)) or 0


async def test_endless_query_times_out_and_the_next_one_succeeds(database: Database) -> None:
    with pytest.raises(QueryTimeout, match=r"timed out after 0\.05 s"):
        await database.read(run_query, ENDLESS_QUERY, 0.05)

    assert await database.read(run_query, "SELECT 1", 60) == 1


async def test_other_database_errors_are_raised_unchanged(database: Database) -> None:
    with pytest.raises((OperationalError, ProgrammingError)):
        await database.read(run_query, "SELECT nothing", 60)
