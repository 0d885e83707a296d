"""Tables of test sets.

A revision is an ordered list of (row, hash of its data). The list is stored in chunks ("pieces") that revisions share,
and the data once per hash. So a revision that changes one row of a million adds one chunk, one content and one list of
chunks.
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
    Text,
    text,
)

from palaver.storage.schema import Json, UtcTimestamp, project_table


def _bytewise(length: int) -> String:
    """Text that is compared byte by byte, so that a prefix of a digest is a range."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


testsets = project_table(
    "testsets",
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("folded", Text, nullable=False),  # The casefolded name, for search.
    Column("description", Text, nullable=False),
    Column("head", Integer, nullable=False),
    Column("rows", Integer, nullable=False),  # Of the newest revision, like `columns`.
    Column("archived", Boolean, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("columns", Json, nullable=False),
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

testset_revisions = project_table(
    "testset_revisions",
    Column("testset", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("parent", Integer),
    Column("digest", _bytewise(67), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("columns", Json, nullable=False),
    Column("pieces", LargeBinary, nullable=False),  # Per chunk in order: 16 bytes of digest, 4 of row count.
    PrimaryKeyConstraint("project", "testset", "number"),
    Index("ix_testset_revisions_digest", "project", "testset", "digest"),
)

testset_pieces = project_table(
    "testset_pieces",
    Column("testset", String(64), nullable=False),
    Column("digest", LargeBinary(16), nullable=False),
    Column("columns", Json, nullable=False),  # Column counts of its rows.
    Column("data", LargeBinary, nullable=False),  # 32 bytes per row: id, and hash of the data.
    PrimaryKeyConstraint("project", "testset", "digest"),
)

testset_contents = project_table(
    "testset_contents",
    Column("testset", String(64), nullable=False),
    Column("hash", LargeBinary(16), nullable=False),
    Column("added", BigInteger, nullable=False),  # The number of the import; 0 for a commit.
    Column("data", LargeBinary, nullable=False),  # JSON, in the original key order.
    PrimaryKeyConstraint("project", "testset", "hash"),
)

testset_meta = project_table(
    "testset_meta",
    Column("testset", String(64), nullable=False),
    Column("row", LargeBinary(16), nullable=False),
    Column("added", BigInteger, nullable=False),
    Column("meta", Json, nullable=False),
    PrimaryKeyConstraint("project", "testset", "row"),
)

testset_imports = project_table(
    "testset_imports",
    Column("testset", String(64), nullable=False),
    Column("number", BigInteger, nullable=False),  # Stored with every row that it adds.
    Column("given_up", Boolean, nullable=False),  # Its rows are being swept.
    Column("seen_at", UtcTimestamp, nullable=False, index=True),
    PrimaryKeyConstraint("project", "testset"),
)
"""Imports in progress, one per test set, and deleted test sets. Entries not seen for long are dead."""

TESTSET_TABLES = (testsets, testset_revisions, testset_pieces, testset_contents, testset_meta, testset_imports)
