"""palaver trace: the group, and `show`, which prints a trace as a tree and a conversation, or one span."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.database import use_database
from palaver.cli.options import db_option, project_option
from palaver.cli.output import (
    STATUS_COLOURS,
    echo,
    format_duration,
    format_json,
    format_tokens,
    one_line,
    render_transcript,
)
from palaver.cli.trace.export import export_traces
from palaver.cli.trace.importer import import_traces
from palaver.cli.trace.selection import require_trace_id
from palaver.cli.trace.tail import tail_traces
from palaver.core.json import result_text
from palaver.errors import NotFound
from palaver.outbound import printable, printable_lines

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.spans.queries import SpanListItem
    from palaver.storage.spans.traces import OutlineEntry, TraceOverview
    from palaver.traces.conversation import ToolStep, Turn
    from palaver.traces.model import Span


_PAGE_SPANS = 500
_MAX_INDENT_LEVELS = 30
"""Maximum number of levels that are indented."""


@click.command(name="show")
@click.argument("trace", metavar="TRACE")
@click.option("--span", metavar="SPAN", help="Show all fields of one span.")
@click.option("--tree", "parts", flag_value="tree", help="Show only the span tree.")
@click.option("--conversation", "parts", flag_value="conversation", help="Show only the conversation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@project_option("traces")
@db_option
def show_trace(trace: str, span: str | None, parts: str | None, as_json: bool, project: str, db: str | None) -> None:
    """Show a trace as a span tree and a conversation.

    TRACE is a trace id or a unique prefix of one.

    \b
    Examples:
      palaver trace show 0af7651916cd43dd8448eb211c80319c
      palaver trace show 0af7 --conversation
      palaver trace show 0af7 --span b7ad6b7169203331 --json
    """
    if span is not None:
        record = asyncio.run(_load_span(db, project, trace, span))
        text = format_json(record) if as_json else "\n".join(_span_lines(record))
        echo(text)
        return
    for text in asyncio.run(_load_lines(db, project, trace, parts, as_json)):
        echo(text)


# Traces


async def _load_lines(db: str | None, project: str, prefix: str, parts: str | None, as_json: bool) -> Sequence[str]:
    from palaver.storage.spans import traces as span_traces
    from palaver.traces.stored_spans import load_turn

    async with use_database(db) as database:
        trace = await database.read(require_trace_id, project, prefix)
        summary = await database.read(span_traces.get_trace_overview, project, trace)
        turn = await database.read(load_turn, project, trace)
        tree = await database.read(_load_tree, project, trace)
    if summary is None or turn is None:
        raise NotFound(f"Trace {trace!r} not found.")
    if as_json:
        return [format_json(_trace_json(summary, turn[1], tree))]
    tree_lines = () if parts == "conversation" else ("", *_tree_lines(tree))
    conversation = () if parts == "tree" else ("", *_conversation_lines(turn[1]))
    return [*_heading_lines(summary), *tree_lines, *conversation]


def _load_tree(db: "Connection", project: str, trace: str) -> "list[tuple[OutlineEntry, SpanListItem]]":
    from palaver.storage.spans import queries as span_queries
    from palaver.storage.spans import traces as span_traces

    nodes = span_traces.load_outline(db, project, trace)
    rows: dict[str, SpanListItem] = {}
    for start in range(0, len(nodes), _PAGE_SPANS):
        ids = [node.span_id for node in nodes[start : start + _PAGE_SPANS]]
        rows |= span_queries.get_span_rows(db, project, trace, ids)
    return [(node, rows[node.span_id]) for node in nodes]


def _trace_json(summary: "TraceOverview", turn: "Turn", tree: "list[tuple[OutlineEntry, SpanListItem]]") -> Any:
    spans = [msgspec.to_builtins(row) | {"depth": node.depth, "notes": node.notes} for node, row in tree]
    return msgspec.to_builtins(summary) | {
        "spans": spans,
        "messages": [*turn.messages_in, *turn.messages_out],
        "tools": turn.tools,
    }


def _heading_lines(summary: "TraceOverview") -> Iterator[str]:
    root = summary.root
    yield click.style(one_line(root.name), bold=True)
    errors = f"{root.errors} error{'s' * (root.errors != 1)}" if root.errors else ""
    tokens = (
        ""
        if root.input_tokens is None
        else f"{root.input_tokens} input tokens, {root.output_tokens or 0} output tokens"
    )
    fields = (
        f"{root.start:%Y-%m-%d %H:%M:%S} UTC",
        click.style(root.status, fg=STATUS_COLOURS.get(root.status, "green")),
        format_duration(root.duration_ms),
        f"{root.spans} span{'s' * (root.spans != 1)}",
        errors,
        tokens,
        "" if root.cost is None else f"${root.cost:.6g}",
    )
    yield "  ".join(filter(None, fields))
    yield f"trace {root.trace_id}"
    for session in summary.sessions:
        yield f"session {one_line(session)}"


def _tree_lines(tree: "list[tuple[OutlineEntry, SpanListItem]]") -> Iterator[str]:
    for node, row in tree:
        status = "" if row.status == "ok" else click.style(f"  {row.status}", fg=STATUS_COLOURS.get(row.status))
        tokens = "" if row.input_tokens is None and row.output_tokens is None else f"  {format_tokens(row)}"
        model = f"  {printable(row.model, 40)}" if row.model and row.model not in row.name else ""
        notes = f"  ({', '.join(node.notes)})" if node.notes else ""
        name = "  " * min(node.depth, _MAX_INDENT_LEVELS) + printable(row.name, 80)
        label = click.style(f"{row.kind:<9}", dim=True)
        span_id = click.style(row.span_id, dim=True)
        yield f"{format_duration(row.duration_ms):>9}  {span_id}  {label}  {name}{model}{tokens}{status}{notes}"


def _conversation_lines(turn: "Turn") -> Iterator[str]:
    yield from render_transcript(turn.messages_in)
    for tool in turn.tools:
        yield from _tool_lines(tool)
    yield from render_transcript(turn.messages_out)


def _tool_lines(tool: "ToolStep") -> Iterator[str]:
    """Yield the lines of a tool that no message mentions."""
    yield click.style("tool", fg="green", bold=True)
    yield f"  call {one_line(tool.name)}({one_line(result_text(tool.inputs))})"
    yield from _indented_lines(f"{'error' if tool.status == 'error' else 'result'}: {result_text(tool.outputs)}")


# Spans


async def _load_span(db: str | None, project: str, prefix: str, span: str) -> "Span":
    from palaver.traces.stored_spans import load_spans

    async with use_database(db) as database:
        trace = await database.read(require_trace_id, project, prefix)
        ids = await database.read(_find_span_ids, project, trace, span.lower().rstrip("…"))
        if len(ids) != 1:
            problem = "not found" if not ids else "is ambiguous"
            hint = f"See `palaver trace show {trace[:8]} --tree`."
            raise NotFound(f"Span {span[:80]!r} {problem} in trace {trace}. {hint}")
        return (await database.read(load_spans, project, trace, ids))[0]


def _find_span_ids(db: "Connection", project: str, trace: str, prefix: str) -> list[str]:
    from palaver.storage.spans import traces as span_traces

    return [node.span_id for node in span_traces.load_outline(db, project, trace) if node.span_id.startswith(prefix)]


def _span_lines(span: "Span") -> Iterator[str]:
    yield click.style(one_line(span.name), bold=True)
    long_fields = ("name", "messages_in", "messages_out", "inputs", "outputs", "attributes", "events", "links")
    for name, value in msgspec.structs.asdict(span).items():
        if name not in long_fields and value not in (None, "", (), {}):
            yield f"{name}: {one_line(result_text(value))}"
    for title, messages in (("input messages", span.messages_in), ("output messages", span.messages_out)):
        if messages:
            yield from ("", click.style(title, underline=True), *render_transcript(messages))
    for title, value in (("inputs", span.inputs), ("outputs", span.outputs)):
        if value is not None:
            yield from ("", click.style(title, underline=True), *_indented_lines(result_text(value)))
    if span.attributes:
        yield from ("", click.style("attributes", underline=True))
        yield from (f"  {one_line(name)} = {one_line(result_text(value))}" for name, value in span.attributes.items())
    for event in span.events:
        yield f"event {one_line(event.name)} {one_line(result_text(event.attributes))}"
    for link in span.links:
        yield f"link {link.trace_id} {link.span_id} {one_line(result_text(link.attributes))}"


def _indented_lines(text: str) -> list[str]:
    return [f"  {line}" for line in printable_lines(text).split("\n")]


@click.group()
def command() -> None:
    """Tail, show, export and import traces.

    \b
    Examples:
      palaver trace tail --filter status=error
      palaver trace show 0af76519
      palaver trace export --workflow tutor --from 7d -o week.jsonl
      palaver trace export --trace 0af76519 -o trace.html
      palaver trace import week.jsonl
    """


for _subcommand in (tail_traces, show_trace, export_traces, import_traces):
    command.add_command(_subcommand)
