"""What was said in a trace, or in those of a session, read from where their spans are kept."""

from collections.abc import Iterator

import msgspec
from sqlalchemy import Connection

from palaver.storage.pagination import Page, Window
from palaver.storage.spans import sessions as span_sessions
from palaver.storage.spans import traces as span_threads
from palaver.storage.spans.queries import TraceListItem
from palaver.traces.record import Span
from palaver.traces.threads import Turn, turn_of

_read = msgspec.json.Decoder(Span).decode


def turn(db: Connection, project: str, trace: str) -> tuple[Span, Turn] | None:
    """The span that stands for a trace, and its conversation; None for an unknown one, or another project's."""
    body = span_threads.get_head_body(db, project, trace)
    if body is None:
        return None
    head = _read(body)
    calls, tools = span_threads.iter_model_calls(db, project, trace), span_threads.iter_tool_calls(db, project, trace)
    return head, turn_of(head, _spans(calls), _spans(tools))


def turns_of(db: Connection, project: str, session: str, window: Window) -> tuple[Page[TraceListItem], list[Turn], int]:
    """Some traces of a session as conversations, the earliest first, and about how many bytes these have."""
    page = span_sessions.list_session_traces(db, project, session, window)
    read = [turn(db, project, row.trace_id) for row in page.data]
    turns = [found[1] for found in read if found is not None]
    return page, turns, sum(len(msgspec.json.encode(one)) for one in turns)


def _spans(bodies: Iterator[bytes]) -> Iterator[Span]:
    return map(_read, bodies)
