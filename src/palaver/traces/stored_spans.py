"""Read stored spans: as records, as the turns of conversations, or as lines of an export."""

from collections.abc import Iterator
from typing import Literal

import msgspec
from sqlalchemy import Connection

from palaver.storage.pagination import Page, Window
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans import traces as span_traces
from palaver.storage.spans.queries import TraceListItem
from palaver.traces.conversation import Turn, build_turn
from palaver.traces.model import Span
from palaver.traces.otlp import encode_lines

_decode_span = msgspec.json.Decoder(Span).decode


def load_turn(db: Connection, project: str, trace: str) -> tuple[Span, Turn] | None:
    """Return the head span of a trace and its conversation; None if the project has no such trace."""
    body = span_traces.get_head_body(db, project, trace)
    if body is None:
        return None
    head = _decode_span(body)
    calls, tools = span_traces.iter_model_calls(db, project, trace), span_traces.iter_tool_calls(db, project, trace)
    return head, build_turn(head, map(_decode_span, calls), map(_decode_span, tools))


def load_session_turns(
    db: Connection, project: str, session: str, window: Window
) -> tuple[Page[TraceListItem], list[Turn], int]:
    """Return a page of a session's traces, oldest first, their turns, and the approximate bytes of these."""
    page = span_queries.list_session_traces(db, project, session, window)
    loaded = [load_turn(db, project, row.trace_id) for row in page.data]
    turns = [item[1] for item in loaded if item is not None]
    return page, turns, sum(len(msgspec.json.encode(turn)) for turn in turns)


ExportFormat = Literal["jsonl", "otlp"]


def export_page(
    db: Connection, project: str, trace: str, form: ExportFormat, window: Window
) -> tuple[bytes, str | None]:
    """Return the lines of a page of spans, ordered by start, and the cursor of the next page."""
    page = span_traces.list_skeleton(db, project, trace, window)
    bodies = load_bodies(db, project, trace, [row.span_id for row in page.data])
    if form == "otlp":
        return b"".join(encode_lines(map(_decode_span, bodies))), page.next
    return b"".join(body + b"\n" for body in bodies), page.next


def load_bodies(db: Connection, project: str, trace: str, ids: list[str]) -> Iterator[bytes]:
    """Return encoded spans in the order of `ids`; spans deleted meanwhile are left out."""
    bodies = dict(span_traces.iter_span_bodies(db, project, trace, ids))
    return (bodies[span] for span in ids if span in bodies)


def load_spans(db: Connection, project: str, trace: str, ids: list[str]) -> list[Span]:
    return [_decode_span(body) for body in load_bodies(db, project, trace, ids)]
