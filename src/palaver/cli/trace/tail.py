"""palaver trace tail: print new traces or spans, one per line."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from palaver.cli.database import RowT, use_database
from palaver.cli.options import db_option, project_option
from palaver.cli.output import echo, format_span_row
from palaver.cli.trace.selection import build_query, filter_options
from palaver.core import json
from palaver.outbound import printable_json

if TYPE_CHECKING:
    from palaver.storage.database import Database
    from palaver.storage.pagination import Page
    from palaver.storage.spans.queries import SpanListItem, SpanQuery

POLL_INTERVAL_S = 0.5
ROOT_TIMEOUT_S = 10.0
"""Maximum wait for the root of a trace: exporters send children first."""
_PAGE_SPANS = 500
_MAX_REMEMBERED_TRACES = 20_000
"""Maximum number of printed traces that are remembered, so that they are not printed again."""


@click.command(name="tail")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="Number of existing traces to show first.",
)
@click.option("--spans", "by_span", is_flag=True, help="Show every span instead of one line per trace.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@filter_options
@project_option("traces")
@db_option
def tail_traces(
    lines: int, by_span: bool, as_json: bool, filters: tuple[str, ...], search: str | None, project: str, db: str | None
) -> int:
    """Print new traces as they arrive, one per line. Press Ctrl+C to stop.

    Columns: time (UTC), first characters of the trace id, status, name,
    duration, input + output tokens, input → output. Filters apply to the root
    span of each trace; with --spans, to every span.

    \b
    Examples:
      palaver trace tail
      palaver trace tail --filter status=error --filter workflow=tutor
      palaver trace tail --spans --filter kind=llm --filter "duration_ms>2000"
      palaver trace tail --search '"order 42"' --json | jq .trace_id
    """
    query = build_query(filters, search)
    try:
        asyncio.run(_follow(db, project, query, lines, by_span, as_json))
    except KeyboardInterrupt:  # Ctrl+C is the way to stop.
        click.echo(err=True)
    return 0


async def _follow(db: str | None, project: str, query: "SpanQuery", lines: int, by_span: bool, as_json: bool) -> None:
    async with use_database(db) as database:
        follower = SpanFollower(database, project, query) if by_span else TraceFollower(database, project, query)
        _print_rows(await follower.start(lines), as_json)
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            _print_rows(await follower.poll(), as_json)


def _print_rows(rows: "Sequence[SpanListItem]", as_json: bool) -> None:
    for row in rows:
        echo(printable_json(json.encode(row).decode()) if as_json else format_span_row(row))


class SpanFollower:
    def __init__(self, database: "Database", project: str, query: "SpanQuery") -> None:
        self._database = database
        self._project = project
        self._query = query
        self._last_position = 0

    async def start(self, lines: int) -> "Sequence[SpanListItem]":
        """Return the last stored spans. `poll` returns those that are stored later."""
        from palaver.storage.spans import queries

        page = await self._first_page(queries.list_spans, lines)
        return page[::-1]

    async def _first_page(self, query: "Callable[..., Page[RowT]]", lines: int) -> list[RowT]:
        """Return the newest rows, newest first, and remember the last position."""
        from palaver.storage.pagination import Window
        from palaver.storage.spans import queries

        self._last_position = await self._database.read(queries.last_position)
        if not lines:
            return []
        return (await self._database.read(query, self._project, self._query, Window(lines))).data

    async def poll(self) -> "Sequence[SpanListItem]":
        """Return the spans stored since the last call."""
        return await self._next_arrivals(self._query)

    async def _next_arrivals(self, *query: "SpanQuery", heads: bool = False) -> "list[SpanListItem]":
        """Return the spans stored since the last position.

        It goes back if the last position is lower: positions are reused after the last spans were erased.
        """
        from palaver.storage.spans import queries

        read, project = self._database.read, self._project
        after = min(self._last_position, await read(queries.last_position))
        arrivals = await read(queries.list_arrivals, project, after, *query, heads=heads, limit=_PAGE_SPANS)
        self._last_position = arrivals[-1].position if arrivals else after
        return [arrival.row for arrival in arrivals]


class TraceFollower(SpanFollower):
    """Follows new traces: each is printed once, when its root is stored or after a timeout."""

    def __init__(self, database: "Database", project: str, query: "SpanQuery") -> None:
        super().__init__(database, project, query)
        self._rootless_since: dict[str, float] = {}
        self._printed_traces: OrderedDict[str, None] = OrderedDict()

    async def start(self, lines: int) -> "Sequence[SpanListItem]":
        from palaver.storage.spans import queries

        page = await self._first_page(queries.list_traces, lines)
        for row in page:
            self._remember(row.trace_id)
        return page[::-1]

    async def poll(self) -> "Sequence[SpanListItem]":
        """Return the traces whose root was stored, or timed out, since the last call."""
        from palaver.storage.spans import queries

        heads = await self._next_arrivals(heads=True)
        now = time.monotonic()
        ready: list[str] = []
        for row in heads:
            if row.trace_id in self._printed_traces:
                continue
            if row.parent_id is None:
                ready.append(row.trace_id)
            else:
                self._rootless_since.setdefault(row.trace_id, now)
        ready += [trace for trace, since in self._rootless_since.items() if now - since >= ROOT_TIMEOUT_S]
        for trace in ready:
            self._rootless_since.pop(trace, None)
            self._remember(trace)
        if not ready:
            return []
        return await self._database.read(queries.list_matching_traces, self._project, ready, self._query)

    def _remember(self, trace: str) -> None:
        self._printed_traces[trace] = None
        if len(self._printed_traces) > _MAX_REMEMBERED_TRACES:
            self._printed_traces.popitem(last=False)
