"""Tables of spans: columns for lists, bodies, and the usage per day.

On PostgreSQL spans and bodies are partitioned by day (partitions.py), and `words` is a tsvector. On SQLite the FTS5
table `span_words` is the search index.
"""

import zlib
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    event,
    literal,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.types import TypeDecorator, TypeEngine

from palaver.storage.schema import Json, UtcTimestamp, metadata, partial_index, project_column, project_table

SIMPLE_REGCONFIG = text("'simple'::regconfig")
"""The PostgreSQL text search configuration for words that are normalized already."""
_COMPRESS_FROM_BYTES = 2048
_COMPRESSED_PREFIX = b"x\1"
"""Compressed words start with this, as no word does."""


class SearchWords(TypeDecorator[str]):
    """The words of a span. SQLite stores them, compressed, because it needs them to delete from its index.

    On PostgreSQL the column is a tsvector.
    """

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(TSVECTOR() if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        words = value.encode()
        return zlib.compress(words, 1) if len(words) >= _COMPRESS_FROM_BYTES else words

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        if value is None or dialect.name == "postgresql":
            return value
        return (zlib.decompress(value) if value.startswith(_COMPRESSED_PREFIX) else value).decode()


def _label() -> Text:
    """Text from clients, compared byte by byte as in SQLite and Python, not by a locale."""
    return Text().with_variant(Text(collation="C"), "postgresql")


def _hex(length: int) -> String:
    return String(length).with_variant(String(length, collation="C"), "postgresql")


HEAD: ColumnElement[int] = literal(1, Integer, literal_execute=True)
"""Value of `head` in heads. A literal, without which the partial indexes of heads are not used."""
MODEL_CALL_KINDS = ("llm", "embedding", "rerank")
"""Span kinds whose tokens and cost are summed for the trace; their parents repeat the sums."""
IS_UNUSUAL = text("status <> 'ok'")
IS_UNUSUAL_SPAN = text("spans.status <> 'ok'")
"""The same in the form that queries must use to be answered from the partial index."""
_HEAD_CONDITION = text("head = 1")
_IS_SET = {
    "model": text('"model" IS NOT NULL'),
    "user": text('"user" IS NOT NULL'),
    "workflow": text('"workflow" IS NOT NULL'),
    "run_id": text('"run_id" IS NOT NULL'),
}

spans = Table(
    "spans",
    metadata,
    Column("id", BigInteger, nullable=False),  # In order of arrival; referenced by the search index.
    project_column(),
    Column("day", Integer, nullable=False),  # Days since 1970, of its start or else of its arrival.
    Column("trace_id", _hex(32), nullable=False),
    Column("span_id", _hex(16), nullable=False),
    Column("parent_id", _hex(16)),
    Column("start", UtcTimestamp, nullable=False),
    Column("duration_ms", Double, nullable=False),
    Column("head", SmallInteger, nullable=False),  # 1 for the span that represents its trace in lists.
    Column("kind", _hex(16), nullable=False),
    Column("status", _hex(16), nullable=False),
    Column("name", _label(), nullable=False),
    Column("status_message", _label()),
    Column("model", _label()),
    Column("provider", _label()),
    Column("finish", _label()),
    Column("session", _label()),
    Column("user", _label()),
    Column("workflow", _label()),
    Column("run_id", _label()),
    Column("service", _label()),
    Column("scope", _label()),
    Column("tool", _label()),
    Column("exception", _label()),  # The type of the exception.
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cost", Double),
    Column("cost_source", _hex(16)),
    Column("bytes", BigInteger, nullable=False),
    Column("preview_in", Json),
    Column("preview_out", Json),
    Column("words", SearchWords),  # Large, and hence last.
    PrimaryKeyConstraint("project", "trace_id", "span_id", "day"),
    Index("ix_spans_id", "id"),
    Index("ix_spans_of_day", "day", "project", "head"),
    Index("ix_spans_of_trace", "project", "trace_id", "start", "span_id", "parent_id", "id"),
    Index("ix_spans_latest", "project", "start", "span_id", "id"),
    Index("ix_spans_of_kind", "project", "kind", "start", "span_id", "id"),
    Index("ix_spans_heads", "project", "start", "span_id", "id", **partial_index(_HEAD_CONDITION)),
    Index("ix_spans_head_of_trace", "project", "trace_id", **partial_index(_HEAD_CONDITION)),
    # Covers the totals of a trace.
    Index("ix_spans_calls", "project", "trace_id", "kind", "input_tokens", "output_tokens", "cost"),
    Index("ix_spans_unusual", "project", "status", "start", "span_id", "id", **partial_index(IS_UNUSUAL)),
    *(
        Index(f"ix_spans_of_{name}", "project", name, "start", "span_id", "id", **partial_index(condition))
        for name, condition in _IS_SET.items()
    ),
    # With the trace, since the traces of a session are counted.
    Index(
        "ix_spans_of_session",
        *("project", "session", "start", "span_id", "id", "trace_id"),
        **partial_index(text('"session" IS NOT NULL')),
    ),
    # Always empty on SQLite, which has an FTS table instead.
    Index("ix_spans_words", "words", postgresql_using="gin", sqlite_where=text("id IS NULL")),
    postgresql_partition_by="RANGE (day)",
)

INDEXED_COLUMNS = frozenset({"trace_id", "start", "kind", "status", "model", "user", "workflow", "run_id", "session"})

span_bodies = project_table(
    "span_bodies",
    Column("day", Integer, nullable=False),
    Column("trace_id", _hex(32), nullable=False),
    Column("span_id", _hex(16), nullable=False),
    Column("labels", Text, nullable=False),  # The attributes as JSON, long values truncated, for filters.
    Column("body", LargeBinary, nullable=False),  # The complete span as JSON, compressed if long.
    PrimaryKeyConstraint("project", "trace_id", "span_id", "day"),
    postgresql_partition_by="RANGE (day)",
)

span_days = project_table(  # The empty project counts all.
    "span_days",
    Column("day", Integer, nullable=False),
    Column("spans", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("dropped", Boolean, nullable=False),  # Then this day and earlier ones accept no more spans.
    PrimaryKeyConstraint("project", "day"),
)

PARTITIONED_TABLES = (spans, span_bodies)

span_ids = Sequence("span_ids", metadata=metadata)
"""PostgreSQL only; on SQLite the next id is the maximum plus one."""

CREATE_WORD_INDEX = (
    "CREATE VIRTUAL TABLE span_words USING fts5(words, content='', tokenize='unicode61 remove_diacritics 0')"
)
event.listen(spans, "after_create", DDL(CREATE_WORD_INDEX).execute_if(dialect="sqlite"))
event.listen(spans, "before_drop", DDL("DROP TABLE span_words").execute_if(dialect="sqlite"))
