"""palaver trace show: a trace as a tree with durations, and what was said in it; or one of its spans."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.bar import echo
from palaver.cli.databases import using
from palaver.cli.options import db_option, project_option
from palaver.cli.tracing.asking import sure
from palaver.cli.tracing.lines import COLOURS, duration, tokens
from palaver.cli.transcript import plain, transcript
from palaver.core import json
from palaver.errors import NotFound
from palaver.outbound import printable, printable_json, printable_lines

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.spans.queries import SpanListItem
    from palaver.storage.spans.traces import OutlineEntry, TraceOverview
    from palaver.traces.conversation import ToolStep, Turn
    from palaver.traces.model import Span

_AT_ONCE = 500
_DEEPEST = 30
"""Levels that are told apart by how far a line stands in."""


@click.command()
@click.argument("trace", metavar="TRACE")
@click.option("--span", metavar="SPAN", help="One of its spans: all that its record holds.")
@click.option("--tree", "parts", flag_value="tree", help="The tree only.")
@click.option("--conversation", "parts", flag_value="conversation", help="What was said only.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@project_option("traces")
@db_option
def show(trace: str, span: str | None, parts: str | None, as_json: bool, project: str, db: str | None) -> None:
    """Print TRACE: its spans as a tree, and then what was said. The beginning of its id is enough.

    \b
    Examples:
      palaver trace show 0af7651916cd43dd8448eb211c80319c
      palaver trace show 0af7 --conversation
      palaver trace show 0af7 --span b7ad6b7169203331 --json
    """
    if span is not None:
        record = asyncio.run(_span(db, project, trace, span))
        text = _json(record) if as_json else "\n".join(_told(record))
        echo(text)
        return
    for text in asyncio.run(_trace(db, project, trace, parts, as_json)):
        echo(text)


def _json(value: Any) -> str:
    return printable_json(msgspec.json.format(json.encode(value), indent=2).decode())


# A trace


async def _trace(db: str | None, project: str, given: str, parts: str | None, as_json: bool) -> Sequence[str]:
    from palaver.storage.spans import traces as span_trees
    from palaver.traces.stored_spans import load_turn

    async with using(db) as database:
        trace = await database.read(sure, project, given)
        summary = await database.read(span_trees.get_trace_overview, project, trace)
        said = await database.read(load_turn, project, trace)
        places = await database.read(_places, project, trace)
    if summary is None or said is None:
        raise NotFound(f"The trace {trace} is gone.")
    if as_json:
        return [_json(_value(summary, said[1], places))]
    tree = () if parts == "conversation" else ("", *_tree(places))
    conversation = () if parts == "tree" else ("", *_conversation(said[1]))
    return [*_heading(summary), *tree, *conversation]


def _places(db: "Connection", project: str, trace: str) -> "list[tuple[OutlineEntry, SpanListItem]]":
    from palaver.storage.spans import queries as span_pages
    from palaver.storage.spans import traces as span_trees

    places = span_trees.load_outline(db, project, trace)
    found: dict[str, SpanListItem] = {}
    for first in range(0, len(places), _AT_ONCE):
        ids = [place.span_id for place in places[first : first + _AT_ONCE]]
        found |= span_pages.get_span_rows(db, project, trace, ids)
    return [(place, found[place.span_id]) for place in places]


def _value(summary: "TraceOverview", said: "Turn", places: "list[tuple[OutlineEntry, SpanListItem]]") -> Any:
    spans = [msgspec.to_builtins(row) | {"depth": place.depth, "notes": place.notes} for place, row in places]
    return msgspec.to_builtins(summary) | {
        "spans": spans,
        "messages": [*said.messages_in, *said.messages_out],
        "tools": said.tools,
    }


def _heading(summary: "TraceOverview") -> Iterator[str]:
    root = summary.root
    yield click.style(plain(root.name), bold=True)
    errors = f"{root.errors} error{'s' * (root.errors != 1)}" if root.errors else ""
    used = "" if root.input_tokens is None else f"{root.input_tokens} tokens in, {root.output_tokens or 0} out"
    facts = (
        f"{root.start:%Y-%m-%d %H:%M:%S} UTC",
        click.style(root.status, fg=COLOURS.get(root.status, "green")),
        duration(root.duration_ms),
        f"{root.spans} span{'s' * (root.spans != 1)}",
        errors,
        used,
        "" if root.cost is None else f"${root.cost:.6g}",
    )
    yield "  ".join(filter(None, facts))
    yield f"trace {root.trace_id}"
    for session in summary.sessions:
        yield f"session {plain(session)}"


def _tree(places: "list[tuple[OutlineEntry, SpanListItem]]") -> Iterator[str]:
    for place, row in places:
        bad = "" if row.status == "ok" else click.style(f"  {row.status}", fg=COLOURS.get(row.status))
        used = "" if row.input_tokens is None and row.output_tokens is None else f"  {tokens(row)}"
        model = f"  {printable(row.model, 40)}" if row.model and row.model not in row.name else ""
        notes = f"  ({', '.join(place.notes)})" if place.notes else ""
        name = "  " * min(place.depth, _DEEPEST) + printable(row.name, 80)
        label = click.style(f"{row.kind:<9}", dim=True)
        told = click.style(row.span_id, dim=True)
        yield f"{duration(row.duration_ms):>9}  {told}  {label}  {name}{model}{used}{bad}{notes}"


def _conversation(said: "Turn") -> Iterator[str]:
    yield from transcript(said.messages_in)
    for tool in said.tools:
        yield from _tool(tool)
    yield from transcript(said.messages_out)


def _tool(tool: "ToolStep") -> Iterator[str]:
    """A tool of which no message tells."""
    yield click.style("tool", fg="green", bold=True)
    yield f"  call {plain(tool.name)}({plain(_text(tool.inputs))})"
    yield from _under(f"{'error' if tool.status == 'error' else 'result'}: {_text(tool.outputs)}")


# A span


async def _span(db: str | None, project: str, given: str, span: str) -> "Span":
    from palaver.traces.stored_spans import load_spans

    async with using(db) as database:
        trace = await database.read(sure, project, given)
        places = await database.read(_named, project, trace, span.lower().rstrip("…"))
        if len(places) != 1:
            why = "is no span" if not places else "is the beginning of several spans"
            raise NotFound(f"{span[:80]!r} {why} of the trace {trace}: see palaver trace show {trace[:8]} --tree.")
        return (await database.read(load_spans, project, trace, places))[0]


def _named(db: "Connection", project: str, trace: str, prefix: str) -> list[str]:
    from palaver.storage.spans import traces as span_trees

    return [place.span_id for place in span_trees.load_outline(db, project, trace) if place.span_id.startswith(prefix)]


def _told(span: "Span") -> Iterator[str]:
    """All of a record, a field a line; what is empty is left out."""
    yield click.style(plain(span.name), bold=True)
    apart = ("name", "messages_in", "messages_out", "inputs", "outputs", "attributes", "events", "links")
    for name, value in msgspec.structs.asdict(span).items():
        if name not in apart and value not in (None, "", (), {}):
            yield f"{name}: {plain(_text(value))}"
    for title, messages in (("messages in", span.messages_in), ("messages out", span.messages_out)):
        if messages:
            yield from ("", click.style(title, underline=True), *transcript(messages))
    for title, value in (("inputs", span.inputs), ("outputs", span.outputs)):
        if value is not None:
            yield from ("", click.style(title, underline=True), *_under(_text(value)))
    if span.attributes:
        yield from ("", click.style("attributes", underline=True))
        yield from (f"  {plain(name)} = {plain(_text(value))}" for name, value in span.attributes.items())
    for event in span.events:
        yield f"event {plain(event.name)} {plain(_text(event.attributes))}"
    for link in span.links:
        yield f"link {link.trace_id} {link.span_id} {plain(_text(link.attributes))}"


def _under(text: str) -> list[str]:
    return [f"  {told}" for told in printable_lines(text).split("\n")]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.encode(value).decode()
