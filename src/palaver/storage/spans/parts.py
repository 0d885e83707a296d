"""Parts of tables on PostgreSQL, one for each day: how they are made, joined to the rest, and dropped.

Such statements take no parameters. Their names are made here, of a table of ours and a number, and quoted.
"""

from datetime import date, timedelta
from typing import Any

from sqlalchemy import DDLElement, Table
from sqlalchemy.ext.compiler import compiles

EPOCH = date(1970, 1, 1)


class _Statement(DDLElement):
    """About the part of a table that holds a day."""

    def __init__(self, table: Table, day: int) -> None:
        self.table = table
        self.day = int(day)


class Made(_Statement):
    """Make it, apart from the others."""


class Joined(_Statement):
    """Join it to the others."""


class Dropped(_Statement):
    """Drop it, with all that is in it."""


def name_of(table: Table, day: int) -> str:
    """What it is called."""
    return f"{table.name}_{EPOCH + timedelta(days=day):%Y%m%d}"


@compiles(Made, "postgresql")
def _make(one: Made, compiler: Any, **_: Any) -> str:
    own, whole = _names(one, compiler)
    return f"CREATE TABLE {own} (LIKE {whole} INCLUDING ALL)"


@compiles(Joined, "postgresql")
def _join(one: Joined, compiler: Any, **_: Any) -> str:
    own, whole = _names(one, compiler)
    return f"ALTER TABLE {whole} ATTACH PARTITION {own} FOR VALUES FROM ({one.day:d}) TO ({one.day + 1:d})"


@compiles(Dropped, "postgresql")
def _drop(one: Dropped, compiler: Any, **_: Any) -> str:
    own, _whole = _names(one, compiler)
    return f"DROP TABLE IF EXISTS {own}"


def _names(one: _Statement, compiler: Any) -> tuple[str, str]:
    quote = compiler.preparer.quote
    return quote(name_of(one.table, one.day)), quote(one.table.name)
