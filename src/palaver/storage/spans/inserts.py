"""New spans into their tables, many at once: statements are made once, and the driver gets rows as it wants them.

Asked as usual, SQLAlchemy would look at every value of every row, which takes half as long as to keep them.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Dialect, Insert, Text, bindparam, func, insert

from palaver.storage.spans.tables import SIMPLE, Words, span_bodies, spans
from palaver.storage.types import Moment

Row = dict[str, Any]
"""All columns of both tables, by name."""

_moment, _words = Moment(), Words()


class _Statement(NamedTuple):
    text: str
    values: Callable[[Row], Any]
    """What the driver takes of a row."""


_known: dict[str, tuple[_Statement, _Statement]] = {}


def put(db: Connection, rows: Sequence[Row]) -> None:
    """Put new spans into their tables, and into SQLite's index of words; PostgreSQL has none apart."""
    texts = [(row["id"], row["words"]) for row in rows if row["words"]]
    for row in rows:
        row["start"] = _moment.process_bind_param(row["start"], db.dialect)
        row["words"] = _words.process_bind_param(row["words"], db.dialect)
    for statement in _statements(db.dialect):
        db.exec_driver_sql(statement.text, [statement.values(row) for row in rows])
    if texts and db.dialect.name == "sqlite":
        db.exec_driver_sql("INSERT INTO span_words (rowid, words) VALUES (?, ?)", texts)


def _statements(dialect: Dialect) -> tuple[_Statement, _Statement]:
    if dialect.name not in _known:
        _known[dialect.name] = _statement(_into_spans(dialect), dialect), _statement(insert(span_bodies), dialect)
    return _known[dialect.name]


def _into_spans(dialect: Dialect) -> Insert:
    if dialect.name != "postgresql":
        return insert(spans)
    others = {column.name: bindparam(column.name, type_=column.type) for column in spans.c if column.name != "words"}
    return insert(spans).values(**others, words=func.to_tsvector(SIMPLE, bindparam("words", type_=Text)))


def _statement(asked: Insert, dialect: Dialect) -> _Statement:
    compiled = cast("Any", asked.compile(dialect=dialect))
    return _Statement(str(compiled), itemgetter(*compiled.positiontup) if compiled.positional else _itself)


def _itself(row: Row) -> Row:
    return row
