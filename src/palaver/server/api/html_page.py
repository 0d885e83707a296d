"""Conversations as one HTML file that asks no network for anything, and in which nothing of what was said can act.

Every text is escaped; no script runs, and the file's own policy says so too. What a page shows is in it a second time,
as JSON, for programs. Follows the reader's choice of light or dark.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from typing import assert_never

from palaver.core import json
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

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
DEEPEST = 20
"""Levels that stand further in than the one above: policy allows no style but that of the file."""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may do with the file: show it, with its own style and the pictures inside it."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def head(title: str, *, wide: bool = False) -> Iterator[str]:
    """The lines that a page begins with."""
    shown, body = escape(title), '<body class="wide">' if wide else "<body>"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="content-security-policy" content="{escape(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{shown}</title><style>{_STYLE}</style></head>{body}"
    yield f'<h1 dir="auto">{shown}</h1>'


END = "</body></html>"


def data(name: str, text: str) -> str:
    """JSON for programs, in an element that it cannot end."""
    return f'<script type="application/json" id="{name}">{inert(text)}</script>'


def inert(text: str) -> str:
    """JSON that cannot end the element which holds it."""
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def article(message: Message, note: str = "", most: int | None = None) -> Iterator[str]:
    """A message: who spoke, and all its parts; of each at most so many characters."""
    name = f" ({escape(message.name)})" if message.name else ""
    yield f'<article class="{message.role}"><h2>{message.role}{name}{note}</h2>'
    for part in message.parts:
        yield _part(part, most)
    yield "</article>"


def text(value: object, most: int | None = None) -> str:
    """A text, or any other value as JSON, escaped; what is left out of a long one is said."""
    whole = value if isinstance(value, str) else json.encode(value).decode()
    if most is None or len(whole) <= most:
        return escape(whole)
    return f'{escape(whole[:most])}<span class="note">… and {len(whole) - most:,} more characters</span>'


def _part(part: Part, most: int | None) -> str:
    match part:
        case Text(text=said):
            return f'<p dir="auto">{text(said, most)}</p>'
        case Refusal(text=said):
            return f'<p dir="auto"><em>{text(said, most)}</em></p>'
        case Reasoning(text=said):
            return f"<details><summary>reasoning</summary><pre>{text(said, most)}</pre></details>"
        case ToolCall(name=name, arguments=arguments):
            return f"<pre>{escape(name)}({text(arguments, most)})</pre>"
        case ToolResult(output=output, is_error=is_error):
            return f"<pre>{'error' if is_error else 'result'}: {text(output, most)}</pre>"
        case File():
            return _file(part, most)
        case Data(name=name, value=value):
            return f"<pre>{escape(name)}: {text(json.encode(value).decode(), most)}</pre>"
        case _:
            assert_never(part)


def _file(part: File, most: int | None) -> str:
    """A picture that is in the message is shown; any other file is named, and never fetched."""
    kind, held = part.media_type, part.data
    if held is None and part.url is not None and part.url.startswith("data:"):
        kind, _, held = part.url.removeprefix("data:").partition(";base64,")
    named = escape(part.filename or part.media_type)
    if kind in _PICTURES and held and (most is None or len(held) <= most) and _BASE64.fullmatch(held):
        return f'<p><img alt="{named}" src="data:{kind};base64,{held}"></p>'
    where = f" {escape(part.url)}" if part.url and not part.url.startswith("data:") else ""
    return f'<p class="note">[{named}{where}]</p>'
