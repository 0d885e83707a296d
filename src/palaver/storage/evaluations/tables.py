"""Tables of evaluations, reviews and live evaluators; the schema and the API call a live evaluator a rule.

There are no foreign keys: writers lock the row of the evaluation once instead of checking it for each result.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Text,
    text,
)

from palaver.storage.schema import Json, UtcTimestamp, partial_index, project_table

evaluations = project_table(
    "evaluations",
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("name_folded", Text, nullable=False),  # Casefolded, for search.
    Column("state", String(16), nullable=False),
    Column("testset", String(64), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errors", Integer, nullable=False),  # Scores that failed with an error.
    Column("recorded", Integer, nullable=False),  # The `seq` of the last recorded result.
    Column("cost", Double),
    Column("score_cost", Double),  # Of evaluators that call models.
    Column("reason", Json),
    Column("key", String(8)),
    Column("version", Integer, nullable=False),  # Increases with every change.
    Column("cancel_asked_at", UtcTimestamp),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("started_at", UtcTimestamp),
    Column("ended_at", UtcTimestamp),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("paced_until", UtcTimestamp),  # Calls of a rate-limited evaluation are reserved until then.
    Column("plan", Json, nullable=False),
    Column("rows", LargeBinary, nullable=False),  # Large, hence last: 32 bytes per row.
    PrimaryKeyConstraint("project", "id"),
    Index("ix_evaluations_of_testset", "project", "testset", "id"),
)

IS_UNFINISHED = text("state <> 'done'")
"""Matches few of many slices and cases. Queries must use this exact condition to use the partial indexes."""

evaluation_slices = project_table(
    "evaluation_slices",
    Column("evaluation", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("workflow", String(64), nullable=False),  # Empty if no workflow is called.
    Column("first", Integer, nullable=False),  # Index among the cells of its workflow.
    Column("count", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),  # Of the workflow, over all processes.
    Column("width", Integer, nullable=False),  # Its share of the concurrency.
    Column("state", String(8), nullable=False),  # waiting, running or done
    Column("process", String(64)),
    Column("attempts", Integer, nullable=False),  # Processes that died since its last recorded cell.
    PrimaryKeyConstraint("project", "evaluation", "place"),
    Index(
        "ix_evaluation_slices_left",
        *("state", "project", "workflow", "evaluation", "place"),
        **partial_index(IS_UNFINISHED),
    ),
)

evaluation_results = project_table(
    "evaluation_results",
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
    Column("folded", Text, nullable=False),  # Casefolded, for search.
    Column("body", LargeBinary, nullable=False),  # The complete result, compressed; large, hence last.
    PrimaryKeyConstraint("project", "evaluation", "cell"),
    Index("ix_evaluation_results_latest", "project", "evaluation", "seq"),
)

evaluation_scores = project_table(
    "evaluation_scores",
    Column("evaluation", String(64), nullable=False),
    Column("cell", Integer, nullable=False),
    Column("evaluator", Integer, nullable=False),  # Its index in the plan.
    Column("name", Text, nullable=False),  # Of the score: an evaluator may return several.
    Column("status", String(8), nullable=False),  # scored, skipped or error
    Column("passed", Boolean),
    Column("score", Double),
    Column("label", Text),
    Column("seconds", Double, nullable=False),
    Column("cost", Double),
    Column("usage", Json),
    Column("reason", Text, nullable=False),
    Column("details", Json),
    # In order of insertion; a summary reads all scores of an evaluation sequentially.
    PrimaryKeyConstraint("project", "evaluation", "cell", "evaluator", "name"),
    sqlite_with_rowid=False,
)

EVALUATION_TABLES = (evaluations, evaluation_slices, evaluation_results, evaluation_scores)

reviews = project_table(
    "reviews",
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("name_folded", Text, nullable=False),  # Casefolded, for search.
    Column("state", String(8), nullable=False),  # open or closed
    Column("evaluation", String(64)),  # The evaluation whose results are reviewed.
    Column("reviewers", Integer, nullable=False),  # Answers wanted per item.
    Column("blind", Boolean, nullable=False),
    Column("total", Integer, nullable=False),
    Column("answers", Integer, nullable=False),  # The number of the last answer.
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("questions", Json, nullable=False),
    Column("source", Json, nullable=False),  # The request that selected the items.
    PrimaryKeyConstraint("project", "id"),
    Index("ix_reviews_of_evaluation", "project", "evaluation", "id"),
)

review_items = project_table(
    "review_items",
    Column("review", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("cell", Integer),  # The result, and its seq: a rerun records another result.
    Column("seq", Integer),
    Column("trace", String(32)),  # The trace, or the trace of the result.
    Column("answered", Integer, nullable=False),  # Number of answers.
    Column("gone", Boolean, nullable=False),
    PrimaryKeyConstraint("project", "review", "place"),
    Index("ix_review_items_of_trace", "project", "trace"),
)

review_holds = project_table(
    "review_holds",
    Column("review", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("state", String(8), nullable=False),  # held, answered or skipped
    Column("until", UtcTimestamp, nullable=False),  # The end of the lease.
    PrimaryKeyConstraint("project", "review", "place", "reviewer"),
    Index("ix_review_holds_of_reviewer", "project", "review", "reviewer", "state"),
)

review_answers = project_table(
    "review_answers",
    Column("review", String(64), nullable=False),
    Column("number", Integer, nullable=False),  # In order of submission.
    Column("place", Integer, nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("comment", Text, nullable=False),
    Column("answers", Json, nullable=False),  # By question key.
    PrimaryKeyConstraint("project", "review", "number"),
    Index("ix_review_answers_of_item", "project", "review", "place", "number"),
)

REVIEW_TABLES = (reviews, review_items, review_holds, review_answers)


def _label() -> Text:
    """Text from clients, compared byte by byte like the columns of spans."""
    return Text().with_variant(Text(collation="C"), "postgresql")


online_rules = project_table(
    "online_rules",
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("sample", Double, nullable=False),
    Column("per_minute", Integer, nullable=False),
    Column("session", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("place", BigInteger, nullable=False),  # The arrival position up to which it has scanned.
    Column("paced_until", UtcTimestamp),  # Calls are reserved until then.
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("filter", Json),
    Column("evaluators", Json, nullable=False),
    PrimaryKeyConstraint("project", "id"),
)

online_cases = project_table(
    "online_cases",
    Column("rule", String(64), nullable=False),
    Column("subject", _label(), nullable=False),  # The trace or session.
    Column("trace", String(32), nullable=False),  # Of a session, its last trace.
    Column("place", BigInteger, nullable=False),  # The arrival position of its last span.
    Column("state", String(8), nullable=False),  # waiting, running or done
    Column("due", UtcTimestamp, nullable=False),
    Column("process", String(64)),
    Column("attempts", Integer, nullable=False),  # Processes that died with it; -1 if it was dropped.
    PrimaryKeyConstraint("project", "rule", "subject"),
    Index("ix_online_cases_of_trace", "project", "trace"),
    Index("ix_online_cases_left", "state", "project", "rule", "due", **partial_index(IS_UNFINISHED)),
)

online_scores = project_table(
    "online_scores",
    Column("trace", String(32), nullable=False),
    Column("rule", String(64), nullable=False),
    Column("evaluator", Integer, nullable=False),  # Its index in the rule.
    Column("name", _label(), nullable=False),
    Column("session", _label()),  # Set if the score is that of a session.
    Column("status", String(8), nullable=False),  # scored, skipped or error
    Column("passed", Boolean),
    Column("score", Double),
    Column("label", Text),
    Column("seconds", Double, nullable=False),
    Column("cost", Double),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("usage", Json),
    Column("reason", Text, nullable=False),
    Column("details", Json),
    PrimaryKeyConstraint("project", "trace", "rule", "evaluator", "name"),
    Index("ix_online_scores_of_rule", "project", "rule", "created_at"),
)

LIVE_TABLES = (online_rules, online_cases, online_scores)
