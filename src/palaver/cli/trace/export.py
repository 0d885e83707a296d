"""palaver trace export: write traces as JSON lines or OTLP, or one of them as an HTML page."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from palaver.cli.database import iterate_pages, use_database
from palaver.cli.options import db_option, project_option
from palaver.cli.output import open_output
from palaver.cli.trace.selection import build_query, filter_options, require_trace_id
from palaver.outbound import printable_json, printable_lines

if TYPE_CHECKING:
    from palaver.storage.database import Database
    from palaver.storage.spans.queries import SpanQuery
    from palaver.traces.stored_spans import ExportFormat

_PAGE_SIZE = 50
"""Number of traces, or of spans, that are read at a time."""
_Format = Literal["jsonl", "otlp", "html"]
_Write = Callable[[bytes], object]


@click.command(name="export")
@click.option("-o", "--output", metavar="FILE", help="Output file (default: standard output).")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(("jsonl", "otlp", "html")),
    help="jsonl: records; otlp: /v1/traces requests; html: a web page (default: html for .html files, else jsonl).",
)
@click.option("--trace", metavar="TRACE", help="Only this trace (id or unique prefix).")
@click.option("--workflow", help="Only traces of this workflow.")
@click.option("--session", help="Only traces of this session.")
@click.option("--status", help="Only traces with this status: ok, error, cancelled or incomplete.")
@click.option(
    "--from",
    "since",
    metavar="WHEN",
    help="Only traces started at or after this time: a date, an RFC 3339 time, or an age such as 7d.",
)
@click.option("--to", "until", metavar="WHEN", help="Only traces started before this time.")
@filter_options
@project_option("traces")
@db_option
def export_traces(
    output: str | None,
    format_name: str | None,
    trace: str | None,
    session: str | None,
    project: str,
    db: str | None,
    **options: Any,
) -> None:
    """Export all spans of the selected traces.

    Filters apply to the root span of each trace. `palaver trace import` reads
    both jsonl and otlp without loss. A web page shows one trace or the
    conversation of one session, and works offline.

    \b
    Examples:
      palaver trace export --from 1d --status error -o errors.jsonl
      palaver trace export --format otlp --workflow tutor | gzip > tutor.otlp.gz
      palaver trace export --trace 0af76519 -o trace.html
      palaver trace export --session s-1 -o talk.html
    """
    is_page = output is not None and output.endswith((".html", ".htm"))
    export_format = cast("_Format", format_name or ("html" if is_page else "jsonl"))
    if export_format == "html" and (trace is None) == (session is None):
        raise click.UsageError("--format html requires either --trace or --session.")
    query = build_query(**options)
    with open_output(output, _write_to_stdout) as write:
        summary = asyncio.run(_export(db, project, trace, session, query, export_format, write))
    if output not in (None, "-"):
        click.echo(f"{output}: {summary}.", err=True)


async def _export(
    db: str | None,
    project: str,
    trace: str | None,
    session: str | None,
    query: "SpanQuery",
    export_format: _Format,
    write: _Write,
) -> str:
    async with use_database(db) as database:
        trace_id = None if trace is None else await database.read(require_trace_id, project, trace)
        if export_format == "html":
            await _write_page(database, project, trace_id, session, write)
            return "1 page"
        if trace_id is not None:
            await _write_lines(database, project, trace_id, export_format, write)
            return "1 trace"
        count = 0
        async for selected_id in _find_ids(database, project, session, query):
            count += 1
            await _write_lines(database, project, selected_id, export_format, write)
        return f"{count:,} trace{'s' * (count != 1)}"


async def _write_page(
    database: "Database", project: str, trace: str | None, session: str | None, write: _Write
) -> None:
    from palaver.server.api import html_export

    chunks = (
        html_export.trace_page(database.read, project, trace)
        if trace is not None
        else html_export.session_page(database.read, project, session or "")
    )
    async for chunk in chunks:
        write(chunk)


async def _write_lines(database: "Database", project: str, trace: str, format_: "ExportFormat", write: _Write) -> None:
    from palaver.storage.pagination import Window
    from palaver.traces.stored_spans import export_page

    after: str | None = None
    while True:
        lines, after = await database.read(export_page, project, trace, format_, Window(_PAGE_SIZE, after))
        write(lines)
        if after is None:
            return


async def _find_ids(database: "Database", project: str, session: str | None, query: "SpanQuery") -> AsyncIterator[str]:
    """Yield the ids of the selected traces. A session has every trace with a span of it."""
    from palaver.storage.spans import queries

    list_page, selector = (queries.list_traces, query) if session is None else (queries.list_session_traces, session)
    async for rows in iterate_pages(database, list_page, project, selector, page_rows=_PAGE_SIZE):
        if session is not None:
            ids = [row.trace_id for row in rows]
            rows = await database.read(queries.list_matching_traces, project, ids, query)
        for row in rows:
            yield row.trace_id


def _write_to_stdout(text: bytes) -> None:
    """Write to standard output, without terminal control characters."""
    if text.startswith(b"{"):
        text = printable_json(text.decode()).encode()
    elif sys.stdout.isatty():
        text = printable_lines(text.decode()).encode()
    sys.stdout.buffer.write(text)
