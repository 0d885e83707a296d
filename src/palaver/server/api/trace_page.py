"""A trace, or a session's conversation, as one HTML file, written piece by piece: html_page.py says what holds for it.

A trace shows what was said, and then its spans as a tree with a line of time, each of which can be opened. No more than
a few spans are in memory at once.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import datetime
from html import escape
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import NotFound
from palaver.server.api import html_page
from palaver.server.api.html_page import DEEPEST, article, inert, text
from palaver.storage.pagination import Window
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans.queries import TraceListItem
from palaver.storage.spans.traces import OutlineEntry, TraceOverview
from palaver.traces.conversation import MessageStep, Step, Tab, ToolStep, Turn, build_tabs
from palaver.traces.model import Span
from palaver.traces.stored_spans import load_bodies, load_session_turns, load_spans, load_turn

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = 20
"""Spans that are in memory."""
LONG = 20_000
"""Characters that a span shows of each text: the file has all of them at its end, as data."""
SESSION_BYTES = 64 * 1024 * 1024
"""Bytes of a session's traces that are read; what comes after is not in the file, which says so."""
_TRACES = 5


class Read(Protocol):
    """How the database is asked: as by `Database.read`."""

    async def __call__(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that only looks gives."""
        ...


# A trace


async def of_trace(read: Read, project: str, trace: str) -> AsyncGenerator[bytes]:
    """The page of a trace; a NotFound comes before anything else."""
    summary, said = await read(span_trees.get_trace_overview, project, trace), await read(load_turn, project, trace)
    if summary is None or said is None:
        raise NotFound(f"There is no trace {trace[:80]!r}.")
    places = await read(span_trees.load_outline, project, trace)
    yield _joined([*html_page.head(summary.root.name, wide=True), *_facts(summary)])
    yield _joined([_title("Conversation"), *_turn(said[1]), _title("Spans")])
    for some in _lots(places):
        spans = {span.span_id: span for span in await read(load_spans, project, trace, _ids(some))}
        yield _joined(
            line
            for place in some
            if place.span_id in spans
            for line in _span(spans[place.span_id], place, summary.root)
        )
    yield b'<script type="application/json" id="spans">['
    is_first = True
    for some in _lots(places):
        for body in await read(_bodies, project, trace, _ids(some)):
            yield (b"\n" if is_first else b",\n") + inert(body.decode()).encode()
            is_first = False
    yield f"]</script>\n{html_page.END}\n".encode()


def _bodies(db: Connection, project: str, trace: str, ids: list[str]) -> list[bytes]:
    return list(load_bodies(db, project, trace, ids))


def _lots(places: Sequence[OutlineEntry]) -> Iterator[Sequence[OutlineEntry]]:
    return (places[first : first + AT_ONCE] for first in range(0, len(places), AT_ONCE))


def _ids(places: Sequence[OutlineEntry]) -> list[str]:
    return [place.span_id for place in places]


def _facts(summary: TraceOverview) -> Iterator[str]:
    root = summary.root
    used = None if root.input_tokens is None else f"{root.input_tokens:,} tokens in, {root.output_tokens or 0:,} out"
    facts: dict[str, Any] = {
        "trace": root.trace_id,
        "started": _time(root.start),
        "took": _duration(root.duration_ms),
        "status": root.status,
        "spans": f"{root.spans:,}, {root.errors:,} of them failed",
        "used": used,
        "cost": None if root.cost is None else f"${root.cost:.6g}",
        "workflow": root.workflow,
        "sessions": ", ".join(summary.sessions),
        "user": root.user,
        "service": root.service,
    }
    yield _listed(facts)


def _span(span: Span, place: OutlineEntry, root: TraceListItem) -> Iterator[str]:
    failed = "" if span.status == "ok" else " error"
    notes = "".join(f' <span class="note">({note})</span>' for note in place.notes)
    depth = f' class="d{min(place.depth, DEEPEST)}"' if place.depth else ""
    yield f'<details class="span{failed}"><summary><span{depth}>{escape(span.name)}{notes}</span>'
    yield f"<span>{span.kind}</span><span>{_duration(span.duration_ms)}</span>{_line(span, root)}</summary><div>"
    usage = span.usage
    facts: dict[str, Any] = {
        "span": span.span_id,
        "started": _time(span.start),
        "status": " ".join(filter(None, (span.status, span.status_message))),
        "exception": None if span.exception is None else f"{span.exception.type}: {span.exception.message}",
        "model": " ".join(filter(None, (span.provider, span.model))),
        "used": None if usage is None else f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
        "cost": None if span.cost is None else f"${span.cost:.6g} ({span.cost_source})",
        "finish": span.finish,
        "tool": span.tool and span.tool.name,
        "session": span.session,
        "user": span.user,
        "service": span.service,
        "scope": span.scope,
        "parameters": span.parameters or None,
        "notes": ", ".join(span.notes),
        "redacted": ", ".join(f"{one.path} by {one.by} ({one.count})" for one in span.redactions),
    }
    yield _listed(facts)
    for message in (*span.messages_in, *span.messages_out):
        yield from article(message, most=LONG)
    for name, value in (("inputs", span.inputs), ("outputs", span.outputs)):
        if value is not None:
            yield f"<pre>{name}: {text(value, LONG)}</pre>"
    lines = [f"{escape(name)} = {text(value, LONG)}" for name, value in span.attributes.items()]
    lines += [f"event {escape(event.name)} {text(event.attributes, LONG)}" for event in span.events]
    lines += [f"link {link.trace_id} {link.span_id} {text(link.attributes, LONG)}" for link in span.links]
    if lines:
        yield f"<details><summary>as it was sent</summary><pre>{_NEW_LINE.join(lines)}</pre></details>"
    yield "</div></details>"


_NEW_LINE = "\n"


def _line(span: Span, root: TraceListItem) -> str:
    """Where a span stands in the time of its trace: of a hundred, from where and how far."""
    whole = max(root.duration_ms, 0.001)
    begin = min(99.0, max(0.0, (span.start - root.start).total_seconds() * 100_000 / whole))
    width = min(100.0 - begin, max(0.5, span.duration_ms * 100 / whole))
    box = 'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg {box}><rect x="{begin:.2f}" width="{width:.2f}" height="1"/></svg>'


# A session


async def of_session(read: Read, project: str, session: str) -> AsyncGenerator[bytes]:
    """The page of a session's conversation; a NotFound comes before anything else."""
    turns: list[Turn] = []
    after, size = None, 0
    while size < SESSION_BYTES:
        page, some, more = await read(load_session_turns, project, session, Window(_TRACES, after))
        turns += some
        size += more
        after = page.next
        if after is None:
            break
    if not turns:
        raise NotFound(f"There is no session {session[:80]!r}.")
    count, tabs = len(turns), build_tabs(turns)
    del turns
    yield _joined([*html_page.head(f"Session {session}"), _listed({"traces": f"{count:,}"})])
    for place, tab in enumerate(tabs):
        yield _joined(_tab(tab, place))
    if after is not None:
        yield b'<p class="note">The session goes on: it is too long for one file.</p>\n'
    yield f"{html_page.data('session', json.encode({'session': session, 'tabs': tabs}).decode())}\n".encode()
    yield f"{html_page.END}\n".encode()


def _tab(tab: Tab, place: int) -> Iterator[str]:
    if tab.origin is not None:
        yield _title(f"Branch {place + 1}, from step {tab.origin.steps} of branch {tab.origin.tab + 1}")
    elif place:
        yield _title(f"Branch {place + 1}")
    for step in tab.steps:
        yield from _step(step)


# Pieces


def _turn(said: Turn) -> Iterator[str]:
    for message in said.messages_in:
        yield from article(message)
    for step in said.tools:
        yield from _step(step)
    for message in said.messages_out:
        yield from article(message)


def _step(step: Step) -> Iterator[str]:
    match step:
        case MessageStep(message=message):
            yield from article(message)
        case ToolStep(name=name, inputs=inputs, outputs=outputs, status=status):
            given = "" if inputs is None else text(inputs)
            yield f'<article class="tool"><h2>tool</h2><pre>{escape(name)}({given})</pre>'
            yield f"<pre>{'error' if status == 'error' else 'result'}: {text(outputs)}</pre></article>"


def _listed(facts: dict[str, Any]) -> str:
    said = [f"{name}: {text(value, LONG)}" for name, value in facts.items() if value not in (None, "")]
    return f'<pre class="note">{_NEW_LINE.join(said)}</pre>'


def _title(said: str) -> str:
    return f'<h2 class="part">{escape(said)}</h2>'


def _joined(lines: Iterator[str] | Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _duration(ms: float) -> str:
    return f"{ms:,.1f} ms" if ms < 1000 else f"{ms / 1000:,.2f} s"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
