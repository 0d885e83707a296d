"""Metadata, column types, and helpers for rows, statements and texts of all tables."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    LargeBinary,
    MetaData,
    Row,
    Select,
    String,
    Table,
    TextClause,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator

from palaver.core import json
from palaver.errors import NotFound

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def project_column() -> Column[str]:
    """Return the column of a row's project. Every query is limited to one project."""
    return Column("project", String(32), nullable=False)


def project_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table whose first column is the project."""
    return Table(name, metadata, project_column(), *items, **options)


def partial_index(condition: ColumnElement[bool] | TextClause) -> dict[str, Any]:
    """Return the options of an index of only the rows that meet the condition."""
    return {"sqlite_where": condition, "postgresql_where": condition}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcTimestamp(TypeDecorator[datetime]):
    """A time as microseconds since 1970, which both databases store exactly and sort alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else _EPOCH + timedelta(microseconds=value)


class Json(TypeDecorator[Any]):
    """Any JSON value or Struct, encoded as bytes; None is NULL. Bytes are stored as they are."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return value if value is None or type(value) is bytes else msgspec.json.encode(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else msgspec.json.decode(value)


def row_converter(kind: type[StructT]) -> Callable[[Row[Any]], StructT]:
    """Return a function that makes a Struct of the columns that have the names of its fields."""
    names = kind.__struct_fields__

    def convert(row: Row[Any]) -> StructT:
        values = row_values(row)
        return kind(**{name: values[name] for name in names})

    return convert


def row_values(row: Row[Any]) -> dict[str, Any]:
    """Return the values of a row by column."""
    return row._asdict()  # pyright: ignore[reportPrivateUsage] - public, named as in namedtuple


def require_row(db: Connection, query: Select[Any], table: Table, project: str, id: str, kind: str) -> Row[Any]:
    """Return the row of `query` with this id. Raises NotFound, which names the kind of object, such as "Review"."""
    row = db.execute(query.where(table.c.project == project, table.c.id == storable_text(id))).one_or_none()
    if row is None:
        raise NotFound(f"{kind} {id[:80]!r} not found.")
    return row


def dialect_insert(db: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that can handle conflicts."""
    return postgresql.insert(table) if db.dialect.name == "postgresql" else sqlite.insert(table)


def split_batches(values: Sequence[T], size: int) -> list[Sequence[T]]:
    """Split values into batches: a statement has room for a limited number of parameters."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def folded_text(text: str) -> str:
    """Return text for case-insensitive search: databases differ in their case folding."""
    return storable_text(text).casefold()


def storable_text(text: str) -> str:
    """Return text that both databases can store: valid Unicode without NUL."""
    return json.replace_surrogates(text).replace("\0", "\ufffd")
