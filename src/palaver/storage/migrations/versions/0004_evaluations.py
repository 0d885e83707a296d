"""Evaluations: what was planned, the slices that are left to run, and what each cell came to."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_IS_LEFT = sa.text("state <> 'done'")


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "evaluations",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("name_folded", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("testset", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("recorded", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Double, nullable=True),
        sa.Column("score_cost", sa.Double, nullable=True),
        sa.Column("reason", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.String(length=8), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("cancel_asked_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("paced_until", sa.BigInteger(), nullable=True),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_evaluations")),
    )
    op.create_index("ix_evaluations_of_testset", "evaluations", ["project", "testset", "id"], unique=False)
    op.create_table(
        "evaluation_slices",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("evaluation", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("workflow", sa.String(length=64), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("process", sa.String(length=64), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project", "evaluation", "place", name=op.f("pk_evaluation_slices")),
    )
    op.create_index(
        "ix_evaluation_slices_left",
        "evaluation_slices",
        ["state", "project", "workflow", "evaluation", "place"],
        unique=False,
        sqlite_where=_IS_LEFT,
        postgresql_where=_IS_LEFT,
    )
    op.create_table(
        "evaluation_results",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("evaluation", sa.String(length=64), nullable=False),
        sa.Column("cell", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("row", sa.String(length=64), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("latency", sa.Double, nullable=True),
        sa.Column("first_output", sa.Double, nullable=True),
        sa.Column("cost", sa.Double, nullable=True),
        sa.Column("finish", sa.String(length=16), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=True),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("usage", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("preview_in", sa.LargeBinary(), nullable=True),
        sa.Column("preview_out", sa.LargeBinary(), nullable=True),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "evaluation", "cell", name=op.f("pk_evaluation_results")),
    )
    op.create_index(
        "ix_evaluation_results_latest", "evaluation_results", ["project", "evaluation", "seq"], unique=False
    )
    op.create_table(
        "evaluation_scores",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("evaluation", sa.String(length=64), nullable=False),
        sa.Column("cell", sa.Integer(), nullable=False),
        sa.Column("evaluator", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("score", sa.Double, nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("cost", sa.Double, nullable=True),
        sa.Column("usage", sa.LargeBinary(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint(
            "project", "evaluation", "cell", "evaluator", "name", name=op.f("pk_evaluation_scores")
        ),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE evaluation_results ALTER COLUMN body SET STORAGE EXTERNAL")  # It comes packed.
