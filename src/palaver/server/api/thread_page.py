"""A thread as one HTML file that asks no network for anything, and in which nothing of what was said can act.

Every text is escaped; no script runs, and the file's own policy says so too. What was said is in it a second time, as
JSON, for programs.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import assert_never

from sqlalchemy import Connection

from palaver.core import jsons
from palaver.core.parts import Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.storage import nodes
from palaver.storage.nodes import Node
from palaver.storage.thread_files import paths, written
from palaver.storage.thread_rows import Thread, sure

_STYLE = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
article { margin: 1rem 0; padding: .75rem 1rem; border: 1px solid #8884; border-radius: .5rem; }
article.user { background: #8881; }
h2 { margin: 0 0 .25rem; font-size: .8rem; opacity: .7; }
p, pre { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
pre { font: 13px/1.4 ui-monospace, monospace; }
img { max-width: 100%; }
.note { opacity: .7; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may do with the file: show it, with its own style and the pictures inside it."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def shown(db: Connection, project: str, thread: str) -> bytes:
    """A thread as a page to read; made in the thread of the database, as the loop should not wait for a long one."""
    found, everything = sure(db, project, thread), nodes.everything(db, project, thread)
    return page(found, paths(everything, [found.head])[0], everything)


def page(thread: Thread, branch: Sequence[Node], everything: Sequence[Node]) -> bytes:
    """The file: one branch to be read, all of them as data."""
    title = escape(thread.title or thread.id)
    data = written(thread, list(everything)).decode().strip()
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="content-security-policy" content="{escape(POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f'<h1 dir="auto">{title}</h1>',
        *(line for node in branch for line in _article(node)),
        f'<script type="application/json" id="thread">{_inert(data)}</script>',
        "</body></html>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _inert(text: str) -> str:
    """JSON that cannot end the element which holds it."""
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _article(node: Node) -> Iterator[str]:
    message = node.message
    name = f" ({escape(message.name)})" if message.name else ""
    stopped = " · stopped" if node.status == "partial" else ""
    yield f'<article class="{message.role}"><h2>{message.role}{name}{stopped}</h2>'
    for part in message.parts:
        yield _part(part)
    yield "</article>"


def _part(part: Part) -> str:
    match part:
        case Text(text=text):
            return f'<p dir="auto">{escape(text)}</p>'
        case Refusal(text=text):
            return f'<p dir="auto"><em>{escape(text)}</em></p>'
        case Reasoning(text=text):
            return f"<details><summary>reasoning</summary><pre>{escape(text)}</pre></details>"
        case ToolCall(name=name, arguments=arguments):
            return f"<pre>{escape(name)}({escape(arguments)})</pre>"
        case ToolResult(output=output, is_error=is_error):
            shown = output if isinstance(output, str) else jsons.encode(output).decode()
            return f"<pre>{'error' if is_error else 'result'}: {escape(shown)}</pre>"
        case File():
            return _file(part)
        case Data(name=name, value=value):
            return f"<pre>{escape(name)}: {escape(jsons.encode(value).decode())}</pre>"
        case _:
            assert_never(part)


def _file(part: File) -> str:
    """A picture that is in the message is shown; any other file is named, and never fetched."""
    kind, data = part.media_type, part.data
    if data is None and part.url is not None and part.url.startswith("data:"):
        kind, _, data = part.url.removeprefix("data:").partition(";base64,")
    named = escape(part.filename or part.media_type)
    if kind in _PICTURES and data and _BASE64.fullmatch(data):
        return f'<p><img alt="{named}" src="data:{kind};base64,{data}"></p>'
    where = f" {escape(part.url)}" if part.url and not part.url.startswith("data:") else ""
    return f'<p class="note">[{named}{where}]</p>'
