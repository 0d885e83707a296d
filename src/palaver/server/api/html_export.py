"""Traces, sessions and threads as self-contained HTML files without scripts.

A trace shows its conversation and then its spans as a tree with a timeline. Pages of traces and sessions are written in
chunks, so that only a few spans are in memory at once.
"""

import base64
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import datetime
from html import escape
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, assert_never

from sqlalchemy import Connection

from palaver.core import json
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.errors import NotFound
from palaver.storage.pagination import Window
from palaver.storage.spans import traces as span_traces
from palaver.storage.spans.queries import TraceListItem
from palaver.storage.spans.traces import OutlineEntry, TraceOverview
from palaver.storage.threads import message_tree
from palaver.storage.threads.import_export import branch_paths, encode_thread
from palaver.storage.threads.message_tree import Node
from palaver.storage.threads.repository import Thread, require_thread
from palaver.traces.conversation import MessageStep, Step, Tab, ToolStep, Turn, build_tabs
from palaver.traces.model import Span
from palaver.traces.stored_spans import load_bodies, load_session_turns, load_spans, load_turn

_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
body.wide { max-width: 72rem; }
article { margin: 1rem 0; padding: .75rem 1rem; border: 1px solid #8884; border-radius: .5rem; }
article.user { background: #8881; }
h2 { margin: 0 0 .25rem; font-size: .8rem; opacity: .7; }
h2.part { margin: 2rem 0 .5rem; font-size: 1.1rem; opacity: 1; }
p, pre { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
pre { font: 13px/1.4 ui-monospace, monospace; }
img { max-width: 100%; }
.note { opacity: .7; }
details.span { border-top: 1px solid #8883; content-visibility: auto; contain-intrinsic-size: auto 2rem; }
details.span > summary { display: grid; grid-template-columns: minmax(0, 1fr) 6rem 5rem 12rem; gap: .75rem;
  padding: .25rem 0; align-items: center; cursor: pointer; font-size: .9rem; }
details.span > summary > :first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
details.span > summary > :first-child::before { content: "▸ "; }
details.span[open] > summary > :first-child::before { content: "▾ "; }
details.error > summary { color: #b3261e; }
@media (prefers-color-scheme: dark) { details.error > summary { color: #ff8a80; } }
details.span > div { padding: .25rem 0 1rem 1.5rem; }
svg { width: 100%; height: .5rem; background: #8882; fill: #46c; }
details.error > summary svg { fill: currentColor; }
""" + "".join(f".d{depth} {{ padding-left: {depth}rem; }}\n" for depth in range(1, 21))
MAX_INDENT = 20  # Levels with a class in _STYLE: the policy allows no inline styles.
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
"""Allows only the style above and embedded images."""

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def page_head(title: str, *, wide: bool = False) -> Iterator[str]:
    escaped, body = escape(title), '<body class="wide">' if wide else "<body>"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="content-security-policy" content="{escape(PAGE_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escaped}</title><style>{_STYLE}</style></head>{body}"
    yield f'<h1 dir="auto">{escaped}</h1>'


PAGE_END = "</body></html>"


def data_script(name: str, text: str) -> str:
    return f'<script type="application/json" id="{name}">{escape_script(text)}</script>'


def escape_script(text: str) -> str:
    """Escape JSON so that it cannot close the surrounding script element."""
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def message_article(message: Message, note: str = "", max_chars: int | None = None) -> Iterator[str]:
    name = f" ({escape(message.name)})" if message.name else ""
    yield f'<article class="{message.role}"><h2>{message.role}{name}{note}</h2>'
    for part in message.parts:
        yield _part(part, max_chars)
    yield "</article>"


def escape_text(value: object, max_chars: int | None = None) -> str:
    """Escape a string, or any other value as JSON; long text is truncated with a note."""
    text = value if isinstance(value, str) else json.encode(value).decode()
    if max_chars is None or len(text) <= max_chars:
        return escape(text)
    return f'{escape(text[:max_chars])}<span class="note">… and {len(text) - max_chars:,} more characters</span>'


def _part(part: Part, max_chars: int | None) -> str:
    match part:
        case Text(text=text):
            return f'<p dir="auto">{escape_text(text, max_chars)}</p>'
        case Refusal(text=text):
            return f'<p dir="auto"><em>{escape_text(text, max_chars)}</em></p>'
        case Reasoning(text=text):
            return f"<details><summary>reasoning</summary><pre>{escape_text(text, max_chars)}</pre></details>"
        case ToolCall(name=name, arguments=arguments):
            return f"<pre>{escape(name)}({escape_text(arguments, max_chars)})</pre>"
        case ToolResult(output=output, is_error=is_error):
            return f"<pre>{'error' if is_error else 'result'}: {escape_text(output, max_chars)}</pre>"
        case File():
            return _file(part, max_chars)
        case Data(name=name, value=value):
            return f"<pre>{escape(name)}: {escape_text(json.encode(value).decode(), max_chars)}</pre>"
        case _:
            assert_never(part)


def _file(part: File, max_chars: int | None) -> str:
    """Embed inline images; other files are only named, never fetched."""
    media_type, data = part.media_type, part.data
    if data is None and part.url is not None and part.url.startswith("data:"):
        media_type, _, data = part.url.removeprefix("data:").partition(";base64,")
    name = escape(part.filename or part.media_type)
    if (
        media_type in _IMAGE_TYPES
        and data
        and (max_chars is None or len(data) <= max_chars)
        and _BASE64.fullmatch(data)
    ):
        return f'<p><img alt="{name}" src="data:{media_type};base64,{data}"></p>'
    url = f" {escape(part.url)}" if part.url and not part.url.startswith("data:") else ""
    return f'<p class="note">[{name}{url}]</p>'


P = ParamSpec("P")
T = TypeVar("T")

SPAN_BATCH_SIZE = 20
MAX_TEXT_CHARS = 20_000  # Per displayed text of a span; the data at the end of the file is complete.
MAX_SESSION_BYTES = 64 * 1024 * 1024  # Later traces are left out, with a note.
_TRACE_BATCH_SIZE = 5


class ReadDatabase(Protocol):
    """The signature of `Database.read`."""

    async def __call__(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T: ...


# A trace


async def trace_page(read: ReadDatabase, project: str, trace: str) -> AsyncGenerator[bytes]:
    """Yield the page of a trace. Raises NotFound before the first chunk."""
    summary, turn = await read(span_traces.get_trace_overview, project, trace), await read(load_turn, project, trace)
    if summary is None or turn is None:
        raise NotFound(f"Trace {trace[:80]!r} not found.")
    entries = await read(span_traces.load_outline, project, trace)
    yield _encode_lines([*page_head(summary.root.name, wide=True), *_facts(summary)])
    yield _encode_lines([_heading("Conversation"), *_turn(turn[1]), _heading("Spans")])
    for batch in _batches(entries):
        spans = {span.span_id: span for span in await read(load_spans, project, trace, _ids(batch))}
        yield _encode_lines(
            line
            for entry in batch
            if entry.span_id in spans
            for line in _span(spans[entry.span_id], entry, summary.root)
        )
    yield b'<script type="application/json" id="spans">['
    is_first = True
    for batch in _batches(entries):
        for body in await read(_bodies, project, trace, _ids(batch)):
            yield (b"\n" if is_first else b",\n") + escape_script(body.decode()).encode()
            is_first = False
    yield f"]</script>\n{PAGE_END}\n".encode()


def _bodies(db: Connection, project: str, trace: str, ids: list[str]) -> list[bytes]:
    return list(load_bodies(db, project, trace, ids))


def _batches(entries: Sequence[OutlineEntry]) -> Iterator[Sequence[OutlineEntry]]:
    return (entries[offset : offset + SPAN_BATCH_SIZE] for offset in range(0, len(entries), SPAN_BATCH_SIZE))


def _ids(entries: Sequence[OutlineEntry]) -> list[str]:
    return [entry.span_id for entry in entries]


def _facts(summary: TraceOverview) -> Iterator[str]:
    root = summary.root
    usage = (
        None
        if root.input_tokens is None
        else f"{root.input_tokens:,} input tokens, {root.output_tokens or 0:,} output tokens"
    )
    facts: dict[str, Any] = {
        "trace": root.trace_id,
        "started": _time(root.start),
        "duration": _duration(root.duration_ms),
        "status": root.status,
        "spans": f"{root.spans:,} ({root.errors:,} failed)",
        "usage": usage,
        "cost": None if root.cost is None else f"${root.cost:.6g}",
        "workflow": root.workflow,
        "sessions": ", ".join(summary.sessions),
        "user": root.user,
        "service": root.service,
    }
    yield _fact_list(facts)


def _span(span: Span, entry: OutlineEntry, root: TraceListItem) -> Iterator[str]:
    failed = "" if span.status == "ok" else " error"
    notes = "".join(f' <span class="note">({note})</span>' for note in entry.notes)
    depth = f' class="d{min(entry.depth, MAX_INDENT)}"' if entry.depth else ""
    yield f'<details class="span{failed}"><summary><span{depth}>{escape(span.name)}{notes}</span>'
    yield f"<span>{span.kind}</span><span>{_duration(span.duration_ms)}</span>{_time_bar(span, root)}</summary><div>"
    usage = span.usage
    facts: dict[str, Any] = {
        "span": span.span_id,
        "started": _time(span.start),
        "status": " ".join(filter(None, (span.status, span.status_message))),
        "exception": None if span.exception is None else f"{span.exception.type}: {span.exception.message}",
        "model": " ".join(filter(None, (span.provider, span.model))),
        "usage": None
        if usage is None
        else f"{usage.input_tokens:,} input tokens, {usage.output_tokens:,} output tokens",
        "cost": None if span.cost is None else f"${span.cost:.6g} ({span.cost_source})",
        "finish reason": span.finish,
        "tool": span.tool and span.tool.name,
        "session": span.session,
        "user": span.user,
        "service": span.service,
        "scope": span.scope,
        "parameters": span.parameters or None,
        "notes": ", ".join(span.notes),
        "redacted": ", ".join(f"{item.path} by {item.by} ({item.count})" for item in span.redactions),
    }
    yield _fact_list(facts)
    for message in (*span.messages_in, *span.messages_out):
        yield from message_article(message, max_chars=MAX_TEXT_CHARS)
    for name, value in (("inputs", span.inputs), ("outputs", span.outputs)):
        if value is not None:
            yield f"<pre>{name}: {escape_text(value, MAX_TEXT_CHARS)}</pre>"
    lines = [f"{escape(name)} = {escape_text(value, MAX_TEXT_CHARS)}" for name, value in span.attributes.items()]
    lines += [f"event {escape(event.name)} {escape_text(event.attributes, MAX_TEXT_CHARS)}" for event in span.events]
    lines += [
        f"link {link.trace_id} {link.span_id} {escape_text(link.attributes, MAX_TEXT_CHARS)}" for link in span.links
    ]
    if lines:
        yield f"<details><summary>attributes, events and links</summary><pre>{_NEW_LINE.join(lines)}</pre></details>"
    yield "</div></details>"


_NEW_LINE = "\n"


def _time_bar(span: Span, root: TraceListItem) -> str:
    """Draw the span's share of the trace's duration, in percent."""
    total_ms = max(root.duration_ms, 0.001)
    start = min(99.0, max(0.0, (span.start - root.start).total_seconds() * 100_000 / total_ms))
    width = min(100.0 - start, max(0.5, span.duration_ms * 100 / total_ms))
    box = 'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg {box}><rect x="{start:.2f}" width="{width:.2f}" height="1"/></svg>'


# A session


async def session_page(read: ReadDatabase, project: str, session: str) -> AsyncGenerator[bytes]:
    """Yield the page of a session's conversation. Raises NotFound before the first chunk."""
    turns: list[Turn] = []
    after, size = None, 0
    while size < MAX_SESSION_BYTES:
        page, batch, batch_bytes = await read(load_session_turns, project, session, Window(_TRACE_BATCH_SIZE, after))
        turns += batch
        size += batch_bytes
        after = page.next
        if after is None:
            break
    if not turns:
        raise NotFound(f"Session {session[:80]!r} not found.")
    count, tabs = len(turns), build_tabs(turns)
    del turns
    yield _encode_lines([*page_head(f"Session {session}"), _fact_list({"traces": f"{count:,}"})])
    for index, tab in enumerate(tabs):
        yield _encode_lines(_tab(tab, index))
    if after is not None:
        yield b'<p class="note">This session is too long for one file. Later traces are not included.</p>\n'
    yield f"{data_script('session', json.encode({'session': session, 'tabs': tabs}).decode())}\n".encode()
    yield f"{PAGE_END}\n".encode()


def _tab(tab: Tab, index: int) -> Iterator[str]:
    if tab.origin is not None:
        yield _heading(f"Branch {index + 1}, forked from branch {tab.origin.tab + 1} after step {tab.origin.steps}")
    elif index:
        yield _heading(f"Branch {index + 1}")
    for step in tab.steps:
        yield from _step(step)


def _turn(turn: Turn) -> Iterator[str]:
    for message in turn.messages_in:
        yield from message_article(message)
    for step in turn.tools:
        yield from _step(step)
    for message in turn.messages_out:
        yield from message_article(message)


def _step(step: Step) -> Iterator[str]:
    match step:
        case MessageStep(message=message):
            yield from message_article(message)
        case ToolStep(name=name, inputs=inputs, outputs=outputs, status=status):
            arguments = "" if inputs is None else escape_text(inputs)
            yield f'<article class="tool"><h2>tool</h2><pre>{escape(name)}({arguments})</pre>'
            yield f"<pre>{'error' if status == 'error' else 'result'}: {escape_text(outputs)}</pre></article>"


def _fact_list(facts: dict[str, Any]) -> str:
    rows = [f"{name}: {escape_text(value, MAX_TEXT_CHARS)}" for name, value in facts.items() if value not in (None, "")]
    return f'<pre class="note">{_NEW_LINE.join(rows)}</pre>'


def _heading(text: str) -> str:
    return f'<h2 class="part">{escape(text)}</h2>'


def _encode_lines(lines: Iterator[str] | Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _duration(ms: float) -> str:
    return f"{ms:,.1f} ms" if ms < 1000 else f"{ms / 1000:,.2f} s"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def read_thread_page(db: Connection, project: str, thread: str) -> bytes:
    """Return the page of a thread, rendered in the database's OS thread, off the event loop."""
    stored_thread, nodes = require_thread(db, project, thread), message_tree.list_nodes(db, project, thread)
    return thread_page(stored_thread, branch_paths(nodes, [stored_thread.head])[0], nodes)


def thread_page(thread: Thread, branch: Sequence[Node], nodes: Sequence[Node]) -> bytes:
    """Render one branch; the data at the end has all nodes."""
    lines = [
        *page_head(thread.title or thread.id),
        *(line for node in branch for line in message_article(node.message, _note(node))),
        data_script("thread", encode_thread(thread, list(nodes)).decode().strip()),
        PAGE_END,
    ]
    return ("\n".join(lines) + "\n").encode()


def _note(node: Node) -> str:
    return " · stopped" if node.status == "partial" else ""
