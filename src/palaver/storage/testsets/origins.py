"""Which rows of test sets were cut from what carries a label: they are copies, and stay when that is erased."""

from typing import Any

from sqlalchemy import Connection, LargeBinary, literal, select, type_coerce

from palaver.core.ids import sortable
from palaver.storage.spans.erasing import Label
from palaver.storage.spans.tables import spans
from palaver.storage.tables import runs as runs_table
from palaver.storage.testsets.tables import testset_meta as table

_FIRST, _AFTER = b'{"source":', b'{"source;'
"""What rows say of where they were cut from begins with the first; a colon comes before a semicolon."""


def cut_from(db: Connection, project: str, label: Label, value: str) -> list[dict[str, str]]:
    """Those of a conversation or trace with that label, as they are told."""
    theirs = runs_table.c.project == project, runs_table.c[label] == value
    threads = {value, *db.scalars(select(runs_table.c.thread).where(*theirs).distinct())}
    traces = set(db.scalars(select(runs_table.c.trace_id).where(*theirs).distinct()))
    traces.update(db.scalars(select(spans.c.trace_id).where(spans.c.project == project, spans.c[label] == value)))
    written = type_coerce(table.c.meta, LargeBinary)
    begins = written >= literal(_FIRST, LargeBinary), written < literal(_AFTER, LargeBinary)
    rows = db.execute(select(table.c.testset, table.c.row, table.c.meta).where(table.c.project == project, *begins))
    return [_told(row) for row in rows if _is_from(row.meta["source"], threads, traces)]


def _is_from(source: Any, threads: set[str | None], traces: set[str | None]) -> bool:
    return source.get("id") in threads or (source.get("trace_id") or "").lower() in traces


def _told(row: Any) -> dict[str, str]:
    number = int.from_bytes(row.row)
    return {"kind": "row", "id": f"row_{sortable(number >> 80, number)}", "testset": row.testset}
