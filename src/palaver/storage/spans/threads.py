"""What a trace's conversation is made of: its head, its calls of models, and its tools. Bodies are read one by one."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, Connection, select, type_coerce

from palaver.storage.spans import pages as span_pages
from palaver.storage.spans import trees as span_trees
from palaver.storage.spans.tables import spans

MOST_CALLS = 8
"""Calls of models that are looked at, from the last on, for one with a conversation."""
MOST_TOOLS = 100
"""Steps of tools that a trace is shown with."""


def head(db: Connection, project: str, trace: str) -> bytes | None:
    """The record of the span that stands for a trace; None for an unknown one, or another project's."""
    row = span_pages.head_of(db, project, trace)
    return None if row is None else span_trees.body(db, project, trace, row.span_id)


def calls(db: Connection, project: str, trace: str) -> Iterator[bytes]:
    """The records of its calls of models, the one that ended last first."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    asked = select(spans.c.span_id).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "llm")
    asked = asked.order_by(ended.desc(), spans.c.span_id).limit(MOST_CALLS)
    for span in db.scalars(asked).all():
        body = span_trees.body(db, project, trace, span)
        if body is not None:
            yield body


def tools(db: Connection, project: str, trace: str) -> Iterator[bytes]:
    """The records of its tools, in the order of their start."""
    asked = select(spans.c.span_id).where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "tool")
    asked = asked.order_by(spans.c.start, spans.c.span_id).limit(MOST_TOOLS)
    for span in db.scalars(asked).all():
        body = span_trees.body(db, project, trace, span)
        if body is not None:
            yield body
