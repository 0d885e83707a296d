"""Traces: spans, what finds them by their words, and the views that people saved of them."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0002"
down_revision = "0001"


# Before version 14, and where it was built without, there is no such thing.
_PACK_QUICKLY = """
DO $$ BEGIN
    ALTER TABLE span_bodies ALTER COLUMN labels SET COMPRESSION lz4;
    ALTER TABLE spans ALTER COLUMN words SET COMPRESSION lz4;
EXCEPTION WHEN syntax_error OR feature_not_supported THEN NULL;
END $$
"""


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "views",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("page", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_views")),
    )
    op.create_index("ix_views_of_page", "views", ["project", "page", "updated_at", "id"], unique=False)
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.LargeBinary(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    op.create_table(
        "span_bodies",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("trace_id", _hex(32), nullable=False),
        sa.Column("span_id", _hex(16), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "trace_id", "span_id", "day", name=op.f("pk_span_bodies")),
        postgresql_partition_by="RANGE (day)",
    )
    op.create_table(
        "span_days",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("spans", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("project", "day", name=op.f("pk_span_days")),
    )
    op.create_table(
        "spans",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("trace_id", _hex(32), nullable=False),
        sa.Column("span_id", _hex(16), nullable=False),
        sa.Column("parent_id", _hex(16), nullable=True),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Double, nullable=False),
        sa.Column("head", sa.SmallInteger(), nullable=False),
        sa.Column("kind", _hex(16), nullable=False),
        sa.Column("status", _hex(16), nullable=False),
        sa.Column("name", _label(), nullable=False),
        sa.Column("status_message", _label(), nullable=True),
        sa.Column("model", _label(), nullable=True),
        sa.Column("provider", _label(), nullable=True),
        sa.Column("finish", _label(), nullable=True),
        sa.Column("session", _label(), nullable=True),
        sa.Column("user", _label(), nullable=True),
        sa.Column("workflow", _label(), nullable=True),
        sa.Column("run_id", _label(), nullable=True),
        sa.Column("service", _label(), nullable=True),
        sa.Column("scope", _label(), nullable=True),
        sa.Column("tool", _label(), nullable=True),
        sa.Column("exception", _label(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost", sa.Double, nullable=True),
        sa.Column("cost_source", _hex(16), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("preview_in", sa.LargeBinary(), nullable=True),
        sa.Column("preview_out", sa.LargeBinary(), nullable=True),
        sa.Column("words", sa.LargeBinary().with_variant(TSVECTOR(), "postgresql"), nullable=True),
        sa.PrimaryKeyConstraint("project", "trace_id", "span_id", "day", name=op.f("pk_spans")),
        postgresql_partition_by="RANGE (day)",
    )
    op.create_index(
        "ix_spans_calls",
        "spans",
        ["project", "trace_id", "kind", "input_tokens", "output_tokens", "cost"],
        unique=False,
    )
    op.create_index(
        "ix_spans_head_of_trace", "spans", ["project", "trace_id"], unique=False, **_some(sa.text("head = 1"))
    )
    op.create_index(
        "ix_spans_heads", "spans", ["project", "start", "span_id", "id"], unique=False, **_some(sa.text("head = 1"))
    )
    op.create_index("ix_spans_id", "spans", ["id"], unique=False)
    op.create_index("ix_spans_latest", "spans", ["project", "start", "span_id", "id"], unique=False)
    op.create_index("ix_spans_of_day", "spans", ["day", "project", "head"], unique=False)
    op.create_index("ix_spans_of_kind", "spans", ["project", "kind", "start", "span_id", "id"], unique=False)
    op.create_index(
        "ix_spans_of_model",
        "spans",
        ["project", "model", "start", "span_id", "id"],
        unique=False,
        **_some(sa.text('"model" IS NOT NULL')),
    )
    op.create_index(
        "ix_spans_of_run_id",
        "spans",
        ["project", "run_id", "start", "span_id", "id"],
        unique=False,
        **_some(sa.text('"run_id" IS NOT NULL')),
    )
    op.create_index(
        "ix_spans_of_session",
        "spans",
        ["project", "session", "start", "span_id", "id", "trace_id"],
        unique=False,
        **_some(sa.text('"session" IS NOT NULL')),
    )
    op.create_index(
        "ix_spans_of_trace", "spans", ["project", "trace_id", "start", "span_id", "parent_id", "id"], unique=False
    )
    op.create_index(
        "ix_spans_of_user",
        "spans",
        ["project", "user", "start", "span_id", "id"],
        unique=False,
        **_some(sa.text('"user" IS NOT NULL')),
    )
    op.create_index(
        "ix_spans_of_workflow",
        "spans",
        ["project", "workflow", "start", "span_id", "id"],
        unique=False,
        **_some(sa.text('"workflow" IS NOT NULL')),
    )
    op.create_index(
        "ix_spans_unusual",
        "spans",
        ["project", "status", "start", "span_id", "id"],
        unique=False,
        **_some(sa.text("status <> 'ok'")),
    )
    op.create_index(
        "ix_spans_words", "spans", ["words"], unique=False, postgresql_using="gin", sqlite_where=sa.text("id IS NULL")
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE VIRTUAL TABLE span_words USING fts5(words, content='', tokenize='unicode61 remove_diacritics 0')"
        )
    else:
        op.execute(sa.schema.CreateSequence(sa.Sequence("span_ids")))
        # Bodies come packed; and to pack the rest as PostgreSQL does by itself takes longer than to index all of it.
        op.execute("ALTER TABLE span_bodies ALTER COLUMN body SET STORAGE EXTERNAL")
        op.execute(_PACK_QUICKLY)


def _hex(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _label() -> sa.Text:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _some(condition: sa.TextClause) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}
