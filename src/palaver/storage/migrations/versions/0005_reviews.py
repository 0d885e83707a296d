"""Reviews by people, and online evaluation of live traffic."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_IS_LEFT = sa.text("state <> 'done'")


def upgrade() -> None:
    """Make them."""
    _reviews()
    _online()


def _reviews() -> None:
    op.create_table(
        "reviews",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("name_folded", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("evaluation", sa.String(length=64), nullable=True),
        sa.Column("reviewers", sa.Integer(), nullable=False),
        sa.Column("blind", sa.Boolean(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=8), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("questions", sa.LargeBinary(), nullable=False),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_reviews")),
    )
    op.create_index("ix_reviews_of_evaluation", "reviews", ["project", "evaluation", "id"], unique=False)
    op.create_table(
        "review_items",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("review", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("cell", sa.Integer(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("trace", sa.String(length=32), nullable=True),
        sa.Column("answered", sa.Integer(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("project", "review", "place", name=op.f("pk_review_items")),
    )
    op.create_index("ix_review_items_of_trace", "review_items", ["project", "trace"], unique=False)
    op.create_table(
        "review_holds",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("review", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("reviewer", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "review", "place", "reviewer", name=op.f("pk_review_holds")),
    )
    op.create_index(
        "ix_review_holds_of_reviewer", "review_holds", ["project", "review", "reviewer", "state"], unique=False
    )
    op.create_table(
        "review_answers",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("review", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("reviewer", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("answers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "review", "number", name=op.f("pk_review_answers")),
    )
    op.create_index(
        "ix_review_answers_of_item", "review_answers", ["project", "review", "place", "number"], unique=False
    )


def _online() -> None:
    label = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "online_rules",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sample", sa.Double, nullable=False),
        sa.Column("per_minute", sa.Integer(), nullable=False),
        sa.Column("session", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("paced_until", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.String(length=8), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("filter", sa.LargeBinary(), nullable=True),
        sa.Column("evaluators", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_online_rules")),
    )
    op.create_table(
        "online_cases",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("rule", sa.String(length=64), nullable=False),
        sa.Column("subject", label, nullable=False),
        sa.Column("trace", sa.String(length=32), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("process", sa.String(length=64), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project", "rule", "subject", name=op.f("pk_online_cases")),
    )
    op.create_index("ix_online_cases_of_trace", "online_cases", ["project", "trace"], unique=False)
    op.create_index(
        "ix_online_cases_left",
        "online_cases",
        ["state", "project", "rule", "due"],
        unique=False,
        sqlite_where=_IS_LEFT,
        postgresql_where=_IS_LEFT,
    )
    op.create_table(
        "online_scores",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("trace", sa.String(length=32), nullable=False),
        sa.Column("rule", sa.String(length=64), nullable=False),
        sa.Column("evaluator", sa.Integer(), nullable=False),
        sa.Column("name", label, nullable=False),
        sa.Column("session", label, nullable=True),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("score", sa.Double, nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("cost", sa.Double, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("usage", sa.LargeBinary(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("project", "trace", "rule", "evaluator", "name", name=op.f("pk_online_scores")),
    )
    op.create_index("ix_online_scores_of_rule", "online_scores", ["project", "rule", "created_at"], unique=False)
