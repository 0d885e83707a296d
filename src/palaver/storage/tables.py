"""All tables that no subpackage defines. Primary keys start with the project, which every query is limited to."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from palaver.storage.evaluations.tables import EVALUATION_TABLES, LIVE_TABLES, REVIEW_TABLES
from palaver.storage.schema import Json, UtcTimestamp, metadata, partial_index, project_column, project_table
from palaver.storage.spans.tables import span_bodies, span_days, spans
from palaver.storage.testsets.tables import TESTSET_TABLES

# Access


projects = Table(
    "projects",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("created_at", UtcTimestamp, nullable=False),
)

keys = project_table(
    "keys",
    Column("id", String(8), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("expires_at", UtcTimestamp),
    Column("last_used_at", UtcTimestamp),
    Column("revoked_at", UtcTimestamp),
    Column("made_by", String(8)),
    PrimaryKeyConstraint("project", "id"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", LargeBinary(32), primary_key=True),
    project_column(),
    Column("key", String(8), nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("expires_at", UtcTimestamp, nullable=False, index=True),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary(32), nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
)

idempotency = project_table(
    "idempotency",
    Column("owner", String(16), nullable=False),  # The id of the API key, or empty.
    Column("route", String(200), nullable=False),
    Column("key", String(128), nullable=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("run", String(64)),
    Column("status", Integer),
    Column("headers", Json),
    Column("body", LargeBinary),
    Column("created_at", UtcTimestamp, nullable=False, index=True),
    PrimaryKeyConstraint("project", "owner", "route", "key"),
)

# Workflows


workflows = project_table(
    "workflows",
    Column("name", String(64), nullable=False),
    Column("description", Json, nullable=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("seen_at", UtcTimestamp, nullable=False),
    PrimaryKeyConstraint("project", "name"),
)

connections = project_table(
    "connections",
    Column("name", String(64), nullable=False),
    Column("url", Text, nullable=False),
    Column("options", Json, nullable=False),
    Column("evidence", Json),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("checked_at", UtcTimestamp),
    PrimaryKeyConstraint("project", "name"),
)

variants = project_table(
    "variants",
    Column("id", String(64), nullable=False),
    Column("workflow", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("description", Text, nullable=False),
    Column("head", Integer, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    PrimaryKeyConstraint("project", "id"),
    UniqueConstraint("project", "workflow", "name"),
)

variant_versions = project_table(
    "variant_versions",
    Column("variant", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("message", Text, nullable=False),
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    PrimaryKeyConstraint("project", "variant", "number"),
    ForeignKeyConstraint(["project", "variant"], ["variants.project", "variants.id"], ondelete="CASCADE"),
)

# Threads and runs


threads = project_table(
    "threads",
    Column("id", String(64), nullable=False),
    Column("title", String(200), nullable=False),
    Column("title_by", String(8), nullable=False),
    Column("title_folded", Text, nullable=False),  # Casefolded, for search.
    Column("workflow", String(64)),
    Column("variant", String(80)),
    Column("head", String(80)),
    Column("run", String(64)),  # The active run.
    Column("run_head", String(80)),  # The head when that run started.
    Column("pinned", Boolean, nullable=False),
    Column("origin", String(16), nullable=False),
    Column("board", String(64)),
    Column("messages", Integer, nullable=False),  # On all branches.
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("preview_in", Json),
    Column("preview_out", Json),
    Column("parameters", Json, nullable=False),
    Column("inputs", Json, nullable=False),
    Column("metadata", Json, nullable=False),
    PrimaryKeyConstraint("project", "id"),
    Index("ix_threads_latest", "project", "updated_at", "id"),
    Index("ix_threads_of_workflow", "project", "workflow", "updated_at", "id"),
    Index("ix_threads_of_origin", "project", "origin", "updated_at", "id"),
    Index("ix_threads_pinned", "project", "pinned", "updated_at", "id"),
    Index("ix_threads_taken", "run", **partial_index(text("run IS NOT NULL"))),
)

nodes = project_table(
    "nodes",
    Column("thread", String(64), nullable=False),
    Column("id", String(80), nullable=False),
    Column("parent", String(80)),
    Column("place", Integer, nullable=False),  # In order of creation within the thread.
    Column("role", String(16), nullable=False),
    Column("origin", String(16), nullable=False),
    Column("run", String(64)),
    Column("status", String(16), nullable=False),
    Column("last_child", String(80)),  # The child on the branch that was last current.
    Column("created_at", UtcTimestamp, nullable=False),
    Column("line", String(80), nullable=False),  # A preview for the tree.
    Column("error", Json),
    Column("usage", Json),
    Column("folded", Text, nullable=False),  # Casefolded text, for search.
    Column("message", Json, nullable=False),  # Large, hence last: other columns are read without it.
    PrimaryKeyConstraint("project", "thread", "id"),
    UniqueConstraint("project", "thread", "place"),
    ForeignKeyConstraint(["project", "thread"], ["threads.project", "threads.id"], ondelete="CASCADE"),
    Index("ix_nodes_named", "project", "id"),
    Index("ix_nodes_below", "project", "thread", "parent", "place"),
)

IS_OF_BOARD = text("board IS NOT NULL")
IS_UNUSUAL = text("status IN ('failed', 'cancelled', 'interrupted')")
"""A small part of all runs. Queries must use this exact condition to be answered from its partial index."""

runs = project_table(
    "runs",
    Column("id", String(64), nullable=False),
    Column("workflow", String(64), nullable=False),
    Column("variant", String(80)),
    Column("status", String(16), nullable=False),
    Column("finish", String(16)),
    Column("error", Json),
    Column("protocol", String(32), nullable=False),
    Column("background", Boolean, nullable=False),
    Column("stored", Boolean, nullable=False),
    Column("thread", String(64)),
    Column("answers", String(80)),
    Column("previous", String(64)),
    Column("board", String(64)),
    Column("session", String(128), nullable=False),
    Column("user", String(128)),
    Column("key", String(8)),
    Column("trace_id", String(32)),
    Column("seq", Integer, nullable=False),
    Column("usage", Json),
    Column("preview_in", Json),
    Column("preview_out", Json),
    Column("process", String(64)),
    Column("idempotent", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("cancel_asked_at", UtcTimestamp),
    Column("read_at", UtcTimestamp),  # When another process last read it.
    Column("created_at", UtcTimestamp, nullable=False),
    Column("started_at", UtcTimestamp),
    Column("first_output_at", UtcTimestamp),
    Column("ended_at", UtcTimestamp),
    Column("reading", Json),
    Column("call", Json),  # Large, hence last: lists do not read it.
    Column("reply", Json),
    PrimaryKeyConstraint("project", "id"),
    Index("ix_runs_of_session", "project", "session", "id"),
    Index("ix_runs_of_workflow", "project", "workflow", "id"),
    Index("ix_runs_of_thread", "project", "thread", "id"),
    Index("ix_runs_of_board", "project", "board", "id", **partial_index(IS_OF_BOARD)),
    Index("ix_runs_unusual", "project", "status", "id", **partial_index(IS_UNUSUAL)),
)
Index("ix_runs_alive", runs.c.status, runs.c.process, **partial_index(runs.c.ended_at.is_(None)))

events = project_table(
    "events",
    Column("run", String(64), nullable=False),
    Column("first", Integer, nullable=False),  # The seq of the first event.
    Column("count", Integer, nullable=False),
    # A JSON array of events, unchanged, so that a replay gives the same bytes.
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("project", "run", "first"),
)

feedback = project_table(
    "feedback",
    Column("run", String(64), nullable=False),
    Column("message", String(80), nullable=False),
    Column("key", String(8), nullable=False),
    Column("user", String(128), nullable=False),
    Column("rating", String(4), nullable=False),
    Column("comment", Text, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    PrimaryKeyConstraint("project", "run", "message", "key", "user"),
    Index("ix_feedback_latest", "project", "created_at", "run"),
)

boards = project_table(
    "boards",
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("mode", String(8), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("body", Json, nullable=False),  # Large, hence last.
    PrimaryKeyConstraint("project", "id"),
    Index("ix_boards_latest", "project", "updated_at", "id"),
)

board_cells = project_table(
    "board_cells",
    Column("board", String(64), nullable=False),
    Column("row", String(64), nullable=False),
    Column("column", String(64), nullable=False),
    Column("thread", String(64)),
    Column("run", String(64)),
    PrimaryKeyConstraint("project", "board", "row", "column"),
    ForeignKeyConstraint(["project", "board"], ["boards.project", "boards.id"], ondelete="CASCADE"),
)

files = project_table(
    "files",
    Column("id", String(64), nullable=False),
    Column("media_type", String(200), nullable=False),
    Column("filename", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("used", Boolean, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    PrimaryKeyConstraint("project", "id"),
    Index("ix_files_of_content", "project", "sha256", "bytes"),
    Index("ix_files_unused", "created_at", sqlite_where=text("used = 0"), postgresql_where=text("NOT used")),
)

file_pieces = project_table(
    "file_pieces",
    Column("sha256", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("project", "sha256", "place"),
)

file_uses = project_table(
    "file_uses",
    Column("holder", String(64), nullable=False),  # The thread or run that references the file.
    Column("node", String(80), nullable=False),  # The node of a thread; empty for a run.
    Column("file", String(64), nullable=False),
    PrimaryKeyConstraint("project", "holder", "node", "file"),
    Index("ix_file_uses_of_file", "project", "file"),
)

# Processes and views


processes = Table(
    "processes",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),  # server, or worker
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(32), nullable=False),
    Column("started_at", UtcTimestamp, nullable=False),
    Column("seen_at", UtcTimestamp, nullable=False, index=True),
)

views = project_table(
    "views",
    Column("id", String(64), nullable=False),
    Column("page", String(16), nullable=False),
    Column("name", String(200), nullable=False),
    Column("body", Json, nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    PrimaryKeyConstraint("project", "id"),
    Index("ix_views_of_page", "project", "page", "updated_at", "id"),
)

SUBPACKAGE_TABLES = (spans, span_bodies, span_days, *TESTSET_TABLES, *EVALUATION_TABLES, *REVIEW_TABLES, *LIVE_TABLES)
"""Imported here so that `metadata` contains every table."""
