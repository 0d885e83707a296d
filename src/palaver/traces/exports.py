"""Traces as lines, some spans at a time: records, or OTLP that is taken back."""

from collections.abc import Iterator
from typing import Literal

import msgspec
from sqlalchemy import Connection

from palaver.storage.pagination import Window
from palaver.storage.spans import traces as span_trees
from palaver.traces.otlp import encode
from palaver.traces.record import Span

Lines = Literal["jsonl", "otlp"]
_read = msgspec.json.Decoder(Span).decode


def piece(db: Connection, project: str, trace: str, form: Lines, window: Window) -> tuple[bytes, str | None]:
    """The lines of some spans of a trace, in the order of their start; and where the next begin."""
    page = span_trees.list_skeleton(db, project, trace, window)
    bodies = bodies_of(db, project, trace, [bone.span_id for bone in page.data])
    if form == "otlp":
        return b"".join(encode(map(_read, bodies))), page.next
    return b"".join(body + b"\n" for body in bodies), page.next


def bodies_of(db: Connection, project: str, trace: str, ids: list[str]) -> Iterator[bytes]:
    """The records of spans, in this order; what is gone meanwhile is left out."""
    found = dict(span_trees.iter_span_bodies(db, project, trace, ids))
    return (found[span] for span in ids if span in found)


def spans_of(db: Connection, project: str, trace: str, ids: list[str]) -> list[Span]:
    """The same, read."""
    return [_read(body) for body in bodies_of(db, project, trace, ids)]
