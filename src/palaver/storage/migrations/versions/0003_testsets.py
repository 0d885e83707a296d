"""Test sets: their revisions, what those are made of, and what rows hold."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "testsets",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("head", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_testsets")),
    )
    op.create_index("ix_testsets_latest", "testsets", ["project", "updated_at", "id"], unique=False)
    op.create_index(
        "uq_testsets_name",
        "testsets",
        ["project", "name"],
        unique=True,
        sqlite_where=sa.text("archived = 0"),
        postgresql_where=sa.text("NOT archived"),
    )
    digest = sa.String(67).with_variant(sa.String(67, collation="C"), "postgresql")
    op.create_table(
        "testset_revisions",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("testset", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("digest", digest, nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("key", sa.String(length=8), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.LargeBinary(), nullable=False),
        sa.Column("pieces", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "testset", "number", name=op.f("pk_testset_revisions")),
    )
    op.create_index("ix_testset_revisions_digest", "testset_revisions", ["project", "testset", "digest"], unique=False)
    op.create_table(
        "testset_pieces",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("testset", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("columns", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "testset", "digest", name=op.f("pk_testset_pieces")),
    )
    op.create_table(
        "testset_contents",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("testset", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=16), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "testset", "hash", name=op.f("pk_testset_contents")),
    )
    op.create_table(
        "testset_meta",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("testset", sa.String(length=64), nullable=False),
        sa.Column("row", sa.LargeBinary(length=16), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("meta", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "testset", "row", name=op.f("pk_testset_meta")),
    )
    op.create_table(
        "testset_imports",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("testset", sa.String(length=64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("given_up", sa.Boolean(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "testset", name=op.f("pk_testset_imports")),
    )
    op.create_index(op.f("ix_testset_imports_seen_at"), "testset_imports", ["seen_at"], unique=False)
