"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "boards",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("mode", sa.String(length=8), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_boards")),
    )
    op.create_index("ix_boards_latest", "boards", ["project", "updated_at", "id"], unique=False)
    op.create_table(
        "connections",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("options", sa.LargeBinary(), nullable=False),
        sa.Column("evidence", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("checked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("project", "name", name=op.f("pk_connections")),
    )
    op.create_table(
        "events",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "run", "first", name=op.f("pk_events")),
    )
    op.create_table(
        "feedback",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("message", sa.String(length=80), nullable=False),
        sa.Column("key", sa.String(length=8), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("rating", sa.String(length=4), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "run", "message", "key", "user", name=op.f("pk_feedback")),
    )
    op.create_index("ix_feedback_latest", "feedback", ["project", "created_at", "run"], unique=False)
    op.create_table(
        "file_pieces",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "sha256", "place", name=op.f("pk_file_pieces")),
    )
    op.create_table(
        "file_uses",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=80), nullable=False),
        sa.Column("file", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("project", "holder", "node", "file", name=op.f("pk_file_uses")),
    )
    op.create_index("ix_file_uses_of_file", "file_uses", ["project", "file"], unique=False)
    op.create_table(
        "files",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("media_type", sa.String(length=200), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("used", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_files")),
    )
    op.create_index("ix_files_of_content", "files", ["project", "sha256", "bytes"], unique=False)
    op.create_index(
        "ix_files_unused",
        "files",
        ["created_at"],
        unique=False,
        sqlite_where=sa.text("used = 0"),
        postgresql_where=sa.text("NOT used"),
    )
    op.create_table(
        "idempotency",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=16), nullable=False),
        sa.Column("route", sa.String(length=200), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.LargeBinary(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "owner", "route", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"], unique=False)
    op.create_table(
        "keys",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=8), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("scopes", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("made_by", sa.String(length=8), nullable=True),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_keys")),
        sa.UniqueConstraint("id", name=op.f("uq_keys_id")),
    )
    op.create_table(
        "processes",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_index(op.f("ix_processes_seen_at"), "processes", ["seen_at"], unique=False)
    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.create_table(
        "runs",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workflow", sa.String(length=64), nullable=False),
        sa.Column("variant", sa.String(length=80), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("finish", sa.String(length=16), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("protocol", sa.String(length=32), nullable=False),
        sa.Column("background", sa.Boolean(), nullable=False),
        sa.Column("stored", sa.Boolean(), nullable=False),
        sa.Column("thread", sa.String(length=64), nullable=True),
        sa.Column("answers", sa.String(length=80), nullable=True),
        sa.Column("previous", sa.String(length=64), nullable=True),
        sa.Column("board", sa.String(length=64), nullable=True),
        sa.Column("session", sa.String(length=128), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=True),
        sa.Column("key", sa.String(length=8), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("usage", sa.LargeBinary(), nullable=True),
        sa.Column("preview_in", sa.LargeBinary(), nullable=True),
        sa.Column("preview_out", sa.LargeBinary(), nullable=True),
        sa.Column("process", sa.String(length=64), nullable=True),
        sa.Column("idempotent", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("cancel_asked_at", sa.BigInteger(), nullable=True),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("first_output_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("reading", sa.LargeBinary(), nullable=True),
        sa.Column("call", sa.LargeBinary(), nullable=True),
        sa.Column("reply", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_runs")),
    )
    op.create_index(
        "ix_runs_alive",
        "runs",
        ["status", "process"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_runs_of_board",
        "runs",
        ["project", "board", "id"],
        unique=False,
        sqlite_where=sa.text("board IS NOT NULL"),
        postgresql_where=sa.text("board IS NOT NULL"),
    )
    op.create_index("ix_runs_of_session", "runs", ["project", "session", "id"], unique=False)
    op.create_index("ix_runs_of_thread", "runs", ["project", "thread", "id"], unique=False)
    op.create_index("ix_runs_of_workflow", "runs", ["project", "workflow", "id"], unique=False)
    op.create_index(
        "ix_runs_unusual",
        "runs",
        ["project", "status", "id"],
        unique=False,
        sqlite_where=sa.text("status IN ('failed', 'cancelled', 'interrupted')"),
        postgresql_where=sa.text("status IN ('failed', 'cancelled', 'interrupted')"),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=8), nullable=False),
        sa.Column("scopes", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_expires_at"), "sessions", ["expires_at"], unique=False)
    op.create_table(
        "threads",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("title_by", sa.String(length=8), nullable=False),
        sa.Column("title_folded", sa.Text(), nullable=False),
        sa.Column("workflow", sa.String(length=64), nullable=True),
        sa.Column("variant", sa.String(length=80), nullable=True),
        sa.Column("head", sa.String(length=80), nullable=True),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.Column("run_head", sa.String(length=80), nullable=True),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("board", sa.String(length=64), nullable=True),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("preview_in", sa.LargeBinary(), nullable=True),
        sa.Column("preview_out", sa.LargeBinary(), nullable=True),
        sa.Column("parameters", sa.LargeBinary(), nullable=False),
        sa.Column("inputs", sa.LargeBinary(), nullable=False),
        sa.Column("metadata", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_threads")),
    )
    op.create_index("ix_threads_latest", "threads", ["project", "updated_at", "id"], unique=False)
    op.create_index("ix_threads_of_origin", "threads", ["project", "origin", "updated_at", "id"], unique=False)
    op.create_index("ix_threads_of_workflow", "threads", ["project", "workflow", "updated_at", "id"], unique=False)
    op.create_index("ix_threads_pinned", "threads", ["project", "pinned", "updated_at", "id"], unique=False)
    op.create_index(
        "ix_threads_taken",
        "threads",
        ["run"],
        unique=False,
        sqlite_where=sa.text("run IS NOT NULL"),
        postgresql_where=sa.text("run IS NOT NULL"),
    )
    op.create_table(
        "variants",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workflow", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("head", sa.Integer(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_variants")),
        sa.UniqueConstraint("project", "workflow", "name", name=op.f("uq_variants_project_workflow_name")),
    )
    op.create_table(
        "workflows",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "name", name=op.f("pk_workflows")),
    )
    op.create_table(
        "board_cells",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("board", sa.String(length=64), nullable=False),
        sa.Column("row", sa.String(length=64), nullable=False),
        sa.Column("column", sa.String(length=64), nullable=False),
        sa.Column("thread", sa.String(length=64), nullable=True),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["project", "board"],
            ["boards.project", "boards.id"],
            name=op.f("fk_board_cells_boards"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "board", "row", "column", name=op.f("pk_board_cells")),
    )
    op.create_table(
        "nodes",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("thread", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("parent", sa.String(length=80), nullable=True),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("last_child", sa.String(length=80), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.String(length=80), nullable=False),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("usage", sa.LargeBinary(), nullable=True),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project", "thread"], ["threads.project", "threads.id"], name=op.f("fk_nodes_threads"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "thread", "id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("project", "thread", "place", name=op.f("uq_nodes_project_thread_place")),
    )
    op.create_index("ix_nodes_below", "nodes", ["project", "thread", "parent", "place"], unique=False)
    op.create_index("ix_nodes_named", "nodes", ["project", "id"], unique=False)
    op.create_table(
        "variant_versions",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("variant", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("parameters", sa.LargeBinary(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("key", sa.String(length=8), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project", "variant"],
            ["variants.project", "variants.id"],
            name=op.f("fk_variant_versions_variants"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "variant", "number", name=op.f("pk_variant_versions")),
    )
