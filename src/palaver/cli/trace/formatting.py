"""Format spans and traces as lines for a terminal. Untrusted text is made printable."""

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
"""Of a preview without a terminal; else what room it has."""
_PREFIX_CHARS = 9 + 12 + _NAME_CHARS + 2 + 10 + 14
"""Of a line before the previews."""


def format_row(row: "SpanListItem") -> str:
    """Format time, status, name, duration, tokens, input and output."""
    chars = (
        max(12, (shutil.get_terminal_size().columns - _PREFIX_CHARS - 4) // 2)
        if sys.stdout.isatty()
        else _PREVIEW_CHARS
    )
    status = click.style(f"{row.status:<10}", fg=STATUS_COLOURS.get(row.status, "green"))
    input_text, output_text = (printable(preview_text(side), chars) for side in (row.preview_in, row.preview_out))
    name = printable(row.workflow or row.name, _NAME_CHARS)
    numbers = f"{format_duration(row.duration_ms):>9}  {format_tokens(row):>12}"
    return (
        f"{format_time(row.start)}  {status}  {name:<{_NAME_CHARS}}  {numbers}  {input_text} → {output_text}".rstrip()
    )


def format_time(at: datetime) -> str:
    """Time of day in UTC."""
    return f"{at:%H:%M:%S}"


def format_duration(ms: float) -> str:
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
