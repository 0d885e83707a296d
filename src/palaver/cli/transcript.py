"""A conversation as lines for a terminal: who spoke, and all that was said, called, answered and attached.

Every word of it is a stranger's: what would steer the terminal is written out instead.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import click

from palaver.core import json
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.outbound import printable

_INDENT = "  "
_COLOURS = {"user": "cyan", "assistant": "magenta", "tool": "green"}


def transcript(messages: Sequence[Message]) -> Iterator[str]:
    """The lines of a conversation, none of them left out."""
    calls = {call.call_id: call.name for message in messages for call in message.tool_calls}
    for message in messages:
        name = f" ({plain(message.name)})" if message.name else ""
        yield click.style(message.role, fg=_COLOURS.get(message.role), bold=True) + name
        for part in message.parts:
            for line in _told(part, calls):
                yield f"{_INDENT}{line}" if line else ""


def plain(text: str) -> str:
    """A text on one line, whole."""
    return printable(text, len(text))


def _told(part: Part, calls: dict[str, str]) -> list[str]:
    match part:
        case Text(text=text):
            return _lines(text)
        case Reasoning(text=text):
            return _labelled("reasoning", text or "(encrypted)")
        case Refusal(text=text):
            return _labelled("refusal", text)
        case ToolCall(name=name, arguments=arguments):
            return _lines(f"{name}({arguments})", first="call ")
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            return _labelled(
                f"{'error' if is_error else 'result'} of {calls.get(call_id) or call_id or 'a call'}", output
            )
        case File():
            return _labelled("file", _file(part))
        case Data(name=name, value=value):
            return _labelled(f"data {name}", value)
        case _:
            assert_never(part)


def _labelled(label: str, value: object) -> list[str]:
    return _lines(value if isinstance(value, str) else json.encode(value).decode(), first=f"{label}: ")


def _file(part: File) -> str:
    held = f"{len(part.data):,} characters of base64" if part.data is not None else ""
    url = part.url or ""
    if url.startswith("data:"):
        url, held = "", f"{len(url):,} characters in its URL"
    return " ".join(filter(None, (part.media_type, part.filename, url, part.file_id, held)))


def _lines(text: str, first: str = "") -> list[str]:
    """The lines of a text, tabs kept; `first` begins the first of them, and the others stand under it."""
    whole = (first + text.replace("\r\n", "\n")).split("\n")
    shown = ["\t".join(map(plain, line.split("\t"))) for line in whole]
    return [shown[0], *(f"{_INDENT}{line}" if first and line else line for line in shown[1:])]
