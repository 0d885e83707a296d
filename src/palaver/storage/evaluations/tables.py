"""Tables of evaluations, slices, results and scores.

There are no foreign keys: writers lock the row of the evaluation once instead of checking it for each result.
"""

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from palaver.storage.schema import Json, UtcTimestamp, metadata
from palaver.storage.schema import project_column as _project

evaluations = Table(
    "evaluations",
    metadata,
    _project(),
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("name_folded", Text, nullable=False),  # What a search looks at: without upper case.
    Column("state", String(16), nullable=False),
    Column("testset", String(64), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errors", Integer, nullable=False),  # Scores that could not be had.
    Column("recorded", Integer, nullable=False),  # Results that were ever recorded: the `seq` of the last.
    Column("cost", Double),
    Column("score_cost", Double),  # Of evaluators that call models themselves.
    Column("reason", Json),
    Column("key", String(8)),
    Column("version", Integer, nullable=False),  # One more with every change.
    Column("cancel_asked_at", UtcTimestamp),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("started_at", UtcTimestamp),
    Column("ended_at", UtcTimestamp),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("paced_until", UtcTimestamp),  # Until then its calls are given out, where they may only be so many.
    Column("plan", Json, nullable=False),
    Column("rows", LargeBinary, nullable=False),  # Large, hence last: 32 bytes of each row.
    PrimaryKeyConstraint("project", "id"),
    Index("ix_evaluations_of_testset", "project", "testset", "id"),
)

IS_LEFT = text("state <> 'done'")
"""Few slices among many. A query has to say it in these words to be answered from their index."""

evaluation_slices = Table(
    "evaluation_slices",
    metadata,
    _project(),
    Column("evaluation", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("workflow", String(64), nullable=False),  # Empty: nothing is called.
    Column("first", Integer, nullable=False),  # Among the cells of its workflow.
    Column("count", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),  # Of the workflow, in all processes.
    Column("width", Integer, nullable=False),  # How much of that it has.
    Column("state", String(8), nullable=False),  # waiting, running or done
    Column("process", String(64)),
    Column("attempts", Integer, nullable=False),  # Processes that died since a cell of it was last recorded.
    PrimaryKeyConstraint("project", "evaluation", "place"),
    Index(
        "ix_evaluation_slices_left",
        "state",
        "project",
        "workflow",
        "evaluation",
        "place",
        sqlite_where=IS_LEFT,
        postgresql_where=IS_LEFT,
    ),
)

evaluation_results = Table(
    "evaluation_results",
    metadata,
    _project(),
    Column("evaluation", String(64), nullable=False),
    Column("cell", Integer, nullable=False),  # (row × variants + variant) × repeats + repeat
    Column("seq", Integer, nullable=False),  # In order of recording.
    Column("row", String(64), nullable=False),
    Column("variant", Integer, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("status", String(8), nullable=False),  # done or failed
    Column("latency", Double),
    Column("first_output", Double),
    Column("cost", Double),
    Column("finish", String(16)),
    Column("attempts", Integer, nullable=False),
    Column("trace_id", String(32)),
    Column("run", String(64)),
    Column("started_at", UtcTimestamp, nullable=False),
    Column("ended_at", UtcTimestamp, nullable=False),
    Column("usage", Json),
    Column("error", Json),
    Column("preview_in", Json),
    Column("preview_out", Json),
    Column("folded", Text, nullable=False),  # What a search looks at: without upper case.
    Column("body", LargeBinary, nullable=False),  # All of it, packed; large, hence last.
    PrimaryKeyConstraint("project", "evaluation", "cell"),
    Index("ix_evaluation_results_latest", "project", "evaluation", "seq"),
)

evaluation_scores = Table(
    "evaluation_scores",
    metadata,
    _project(),
    Column("evaluation", String(64), nullable=False),
    Column("cell", Integer, nullable=False),
    Column("evaluator", Integer, nullable=False),  # Its place in the plan.
    Column("name", Text, nullable=False),  # Of the score: an evaluator may give several.
    Column("status", String(8), nullable=False),  # scored, skipped or error
    Column("passed", Boolean),
    Column("score", Double),
    Column("label", Text),
    Column("seconds", Double, nullable=False),
    Column("cost", Double),
    Column("usage", Json),
    Column("reason", Text, nullable=False),
    Column("details", Json),
    # In the order in which they are written; a summary reads those of one evaluation, all in one stretch.
    PrimaryKeyConstraint("project", "evaluation", "cell", "evaluator", "name"),
    sqlite_with_rowid=False,
)

EVALUATIONS = (evaluations, evaluation_slices, evaluation_results, evaluation_scores)
"""All of them."""
