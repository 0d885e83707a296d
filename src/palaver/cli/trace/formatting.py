"""Spans and traces as lines for a terminal. Every text in them is a stranger's: what would steer is written out."""

import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from palaver.outbound import printable

if TYPE_CHECKING:
    from palaver.storage.spans.queries import SpanListItem

STATUS_COLOURS = {"error": "red", "cancelled": "yellow", "incomplete": "yellow"}
_NAME_CHARS = 26
_PREVIEW_CHARS = 40
"""Characters of a preview where nobody looks at a terminal; there, what room it has."""
_PREFIX_CHARS = 9 + 12 + _NAME_CHARS + 2 + 10 + 14
"""Characters of a line in front of the previews."""


def format_row(row: "SpanListItem") -> str:
    """When, how it ended, what it was, how long it took, tokens, and what went in and came out."""
    room = (
        max(12, (shutil.get_terminal_size().columns - _PREFIX_CHARS - 4) // 2)
        if sys.stdout.isatty()
        else _PREVIEW_CHARS
    )
    status = click.style(f"{row.status:<10}", fg=STATUS_COLOURS.get(row.status, "green"))
    given, came = (printable(preview_text(side), room) for side in (row.preview_in, row.preview_out))
    name = printable(row.workflow or row.name, _NAME_CHARS)
    figures = f"{format_duration(row.duration_ms):>9}  {format_tokens(row):>12}"
    return f"{format_time(row.start)}  {status}  {name:<{_NAME_CHARS}}  {figures}  {given} → {came}".rstrip()


def format_time(at: datetime) -> str:
    """The time of day, in UTC as everywhere."""
    return f"{at:%H:%M:%S}"


def format_duration(ms: float) -> str:
    """How long something took, as people say it."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.0f} min"


def format_tokens(row: "SpanListItem") -> str:
    """Those that went in and came out."""
    if row.input_tokens is None and row.output_tokens is None:
        return "-"
    return f"{row.input_tokens or 0}+{row.output_tokens or 0}"


def preview_text(preview: Any) -> str:
    """The one line of a preview."""
    match preview:
        case {"text": str(text)}:
            return text
        case _:
            return ""
