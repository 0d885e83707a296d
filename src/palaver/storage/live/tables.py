"""Tables of live evaluation. A live evaluator is called a rule in the schema and the API."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from palaver.storage.schema import Json, UtcTimestamp, metadata
from palaver.storage.schema import project_column as _project


def _label() -> Text:
    """Text from clients, compared byte by byte like the columns of spans."""
    return Text().with_variant(Text(collation="C"), "postgresql")


IS_LEFT = text("state <> 'done'")
"""A small part of all cases. Queries must use this exact condition to be answered from the partial index."""

online_rules = Table(
    "online_rules",
    metadata,
    _project(),
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("sample", Double, nullable=False),
    Column("per_minute", Integer, nullable=False),
    Column("session", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("place", BigInteger, nullable=False),  # The arrival position up to which it has scanned.
    Column("paced_until", UtcTimestamp),  # Calls are reserved until then.
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("filter", Json),
    Column("evaluators", Json, nullable=False),
    PrimaryKeyConstraint("project", "id"),
)

online_cases = Table(
    "online_cases",
    metadata,
    _project(),
    Column("rule", String(64), nullable=False),
    Column("subject", _label(), nullable=False),  # The trace or session.
    Column("trace", String(32), nullable=False),  # Of a session, its last trace.
    Column("place", BigInteger, nullable=False),  # The arrival position of its last span.
    Column("state", String(8), nullable=False),  # waiting, running or done
    Column("due", UtcTimestamp, nullable=False),
    Column("process", String(64)),
    Column("attempts", Integer, nullable=False),  # Processes that died with it; -1 if it was dropped.
    PrimaryKeyConstraint("project", "rule", "subject"),
    Index("ix_online_cases_of_trace", "project", "trace"),
    Index(
        "ix_online_cases_left",
        "state",
        "project",
        "rule",
        "due",
        sqlite_where=IS_LEFT,
        postgresql_where=IS_LEFT,
    ),
)

online_scores = Table(
    "online_scores",
    metadata,
    _project(),
    Column("trace", String(32), nullable=False),
    Column("rule", String(64), nullable=False),
    Column("evaluator", Integer, nullable=False),  # Its index in the rule.
    Column("name", _label(), nullable=False),
    Column("session", _label()),  # Set if the score is that of a session.
    Column("status", String(8), nullable=False),  # scored, skipped or error
    Column("passed", Boolean),
    Column("score", Double),
    Column("label", Text),
    Column("seconds", Double, nullable=False),
    Column("cost", Double),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("usage", Json),
    Column("reason", Text, nullable=False),
    Column("details", Json),
    PrimaryKeyConstraint("project", "trace", "rule", "evaluator", "name"),
    Index("ix_online_scores_of_rule", "project", "rule", "created_at"),
)

ONLINE = (online_rules, online_cases, online_scores)
"""All of them."""
