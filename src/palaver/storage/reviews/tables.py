"""Reviews: what people are asked, the items they are asked about, who holds which, and what they said.

An item is a link to a result or a trace, and no copy of it. What was said is never changed: a correction is said anew.
"""

from sqlalchemy import Boolean, Column, Index, Integer, PrimaryKeyConstraint, String, Table, Text

from palaver.storage.schema import Json, UtcTimestamp, metadata
from palaver.storage.schema import project_column as _project

reviews = Table(
    "reviews",
    metadata,
    _project(),
    Column("id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("name_folded", Text, nullable=False),  # What a search looks at: without upper case.
    Column("state", String(8), nullable=False),  # open or closed
    Column("evaluation", String(64)),  # The run that its items are results of.
    Column("reviewers", Integer, nullable=False),  # How many are to answer each item.
    Column("blind", Boolean, nullable=False),
    Column("total", Integer, nullable=False),
    Column("answers", Integer, nullable=False),  # That were ever given: the number of the last.
    Column("key", String(8)),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("updated_at", UtcTimestamp, nullable=False),
    Column("questions", Json, nullable=False),
    Column("source", Json, nullable=False),  # As it was asked for.
    PrimaryKeyConstraint("project", "id"),
    Index("ix_reviews_of_evaluation", "project", "evaluation", "id"),
)

review_items = Table(
    "review_items",
    metadata,
    _project(),
    Column("review", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("cell", Integer),  # Of the review's run,
    Column("seq", Integer),  # and as what it was recorded: what is run again is another result.
    Column("trace", String(32)),  # Of the result, too, if it has one.
    Column("answered", Integer, nullable=False),  # How many have answered it.
    Column("gone", Boolean, nullable=False),
    PrimaryKeyConstraint("project", "review", "place"),
    Index("ix_review_items_of_trace", "project", "trace"),
)

review_holds = Table(
    "review_holds",
    metadata,
    _project(),
    Column("review", String(64), nullable=False),
    Column("place", Integer, nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("state", String(8), nullable=False),  # held, answered or skipped
    Column("until", UtcTimestamp, nullable=False),  # Of one that is held.
    PrimaryKeyConstraint("project", "review", "place", "reviewer"),
    Index("ix_review_holds_of_reviewer", "project", "review", "reviewer", "state"),
)

review_answers = Table(
    "review_answers",
    metadata,
    _project(),
    Column("review", String(64), nullable=False),
    Column("number", Integer, nullable=False),  # In the order in which they were given.
    Column("place", Integer, nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
    Column("comment", Text, nullable=False),
    Column("answers", Json, nullable=False),  # By the key of the question.
    PrimaryKeyConstraint("project", "review", "number"),
    Index("ix_review_answers_of_item", "project", "review", "place", "number"),
)

REVIEWS = (reviews, review_items, review_holds, review_answers)
"""All of them."""
