"""Spans of the project `mine` for tests."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from palaver.core import json
from palaver.storage.database import Database
from palaver.storage.spans import writes as spans
from palaver.storage.spans.full_text import normalize_words
from palaver.storage.spans.writes import InsertCounts, SpanRow, compress_body

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TODAY = date(2026, 11, 15)
SECOND = timedelta(seconds=1)


def trace_id(name: str) -> str:
    return name.encode().hex().zfill(32)


def span_id(name: str) -> str:
    return name.encode().hex().zfill(16)


def span_row(name: str, at: float = 0, *, trace: str = "t", parent: str | None = None, **more: Any) -> SpanRow:
    """Return a span that starts `at` seconds after noon; `text` is its search text."""
    attributes = more.pop("attributes", {})
    record = {"name": name, "attributes": attributes}
    fields: dict[str, Any] = {
        "project": "mine",
        "trace_id": trace_id(trace),
        "span_id": span_id(name),
        "parent_id": None if parent is None else span_id(parent),
        "start": NOON + at * SECOND,
        "duration_ms": 100.0,
        "name": name,
        "preview_in": json.encode({"renderer": "text", "text": f"in {name}"}),
        "preview_out": json.encode({"renderer": "text", "text": f"out {name}"}),
        "words": normalize_words(more.pop("text", name)),
        "labels": json.encode(attributes).decode(),
        "body": compress_body(json.encode(record)),
    }
    return SpanRow(**(fields | more))


async def insert_rows(database: Database, *rows: SpanRow, today: date = TODAY) -> InsertCounts:
    return await database.write(spans.insert_spans, rows, today=today)
