"""Events from log records that wait for their span."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "span_logs",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("trace_id", _hex(32), nullable=False),
        sa.Column("span_id", _hex(16), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "trace_id", "span_id", "digest", name=op.f("pk_span_logs")),
    )
    op.create_index("ix_span_logs_received", "span_logs", ["received_at"], unique=False)


def _hex(length: int) -> sa.String:
    """Text that is compared byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
