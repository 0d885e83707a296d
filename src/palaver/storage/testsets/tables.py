"""The tables of test sets: sets, their revisions, what revisions are made of, and what rows hold.

A revision is an ordered list of (row, hash of its data). The list is kept in pieces that revisions share, and the data
once for each hash. So a revision that changes one row of a million costs one piece, one content and one list of pieces.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from palaver.storage.schema import Json, UtcTimestamp, metadata, project_column


def _plain(length: int) -> String:
    """A text that is compared byte by byte, so that the beginning of a digest is a range."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


testsets = Table(
    "testsets",
    metadata,
    project_column(),
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("folded", Text, nullable=False),  # Its name without upper case: what a search looks at.
    Column("description", Text, nullable=False),
    Column("head", Integer, nullable=False),
    Column("rows", Integer, nullable=False),  # Of its newest revision,
    Column("archived", Boolean, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("columns", Json, nullable=False),  # and so are these.
    PrimaryKeyConstraint("project", "id"),
    Index("ix_testsets_latest", "project", "updated_at", "id"),
    Index(
        "uq_testsets_name",
        "project",
        "name",
        unique=True,
        sqlite_where=text("archived = 0"),
        postgresql_where=text("NOT archived"),
    ),
)

testset_revisions = Table(
    "testset_revisions",
    metadata,
    project_column(),
    Column("testset", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("parent", Integer),
    Column("digest", _plain(67), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("columns", Json, nullable=False),
    Column("pieces", LargeBinary, nullable=False),  # In order: 16 bytes of each one's digest, 4 of its count.
    PrimaryKeyConstraint("project", "testset", "number"),
    Index("ix_testset_revisions_digest", "project", "testset", "digest"),
)

testset_pieces = Table(
    "testset_pieces",
    metadata,
    project_column(),
    Column("testset", String(64), nullable=False),
    Column("digest", LargeBinary(16), nullable=False),
    Column("columns", Json, nullable=False),  # What its rows add to the columns of a revision.
    Column("data", LargeBinary, nullable=False),  # 32 bytes a row: its id, and the hash of its data.
    PrimaryKeyConstraint("project", "testset", "digest"),
)

testset_contents = Table(
    "testset_contents",
    metadata,
    project_column(),
    Column("testset", String(64), nullable=False),
    Column("hash", LargeBinary(16), nullable=False),
    Column("added", BigInteger, nullable=False),  # By which import; 0: by a commit.
    Column("data", LargeBinary, nullable=False),  # JSON, its keys as they came.
    PrimaryKeyConstraint("project", "testset", "hash"),
)

testset_meta = Table(
    "testset_meta",
    metadata,
    project_column(),
    Column("testset", String(64), nullable=False),
    Column("row", LargeBinary(16), nullable=False),
    Column("added", BigInteger, nullable=False),
    Column("meta", Json, nullable=False),
    PrimaryKeyConstraint("project", "testset", "row"),
)

testset_imports = Table(
    "testset_imports",
    metadata,
    project_column(),
    Column("testset", String(64), nullable=False),
    Column("number", BigInteger, nullable=False),  # What it adds carries it.
    Column("given_up", Boolean, nullable=False),  # What it brought is being swept.
    Column("seen_at", UtcTimestamp, nullable=False, index=True),
    PrimaryKeyConstraint("project", "testset"),
)
"""Imports under way, one a set; and sets that are being erased. What is not seen for long has died."""

TESTSET_TABLES = (testsets, testset_revisions, testset_pieces, testset_contents, testset_meta, testset_imports)
