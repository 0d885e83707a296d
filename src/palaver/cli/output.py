"""Terminal output: JSON, counts, transcripts. Control characters of untrusted text are escaped."""

import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import click
import msgspec

from palaver.core import json
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.errors import TargetNotFound
from palaver.outbound import printable, printable_json

if TYPE_CHECKING:
    import httpx

    from palaver.storage.spans.queries import SpanListItem


_INDENT = "  "
_COLOURS = {"user": "cyan", "assistant": "magenta", "tool": "green"}


def render_transcript(messages: Sequence[Message]) -> Iterator[str]:
    """Yield all lines of a conversation: roles, texts, calls, results and files."""
    call_names = {call.call_id: call.name for message in messages for call in message.tool_calls}
    for message in messages:
        name = f" ({one_line(message.name)})" if message.name else ""
        yield click.style(message.role, fg=_COLOURS.get(message.role), bold=True) + name
        for part in message.parts:
            for line in _part_lines(part, call_names):
                yield f"{_INDENT}{line}" if line else ""


def one_line(text: str) -> str:
    """Make a text printable on one line, without truncating it."""
    return printable(text, len(text))


def _part_lines(part: Part, call_names: dict[str, str]) -> list[str]:
    match part:
        case Text(text=text):
            return _printable_lines(text)
        case Reasoning(text=text):
            return _labelled_lines("reasoning", text or "(encrypted)")
        case Refusal(text=text):
            return _labelled_lines("refusal", text)
        case ToolCall(name=name, arguments=arguments):
            return _printable_lines(f"{name}({arguments})", prefix="call ")
        case ToolResult(call_id=call_id, output=output, is_error=is_error):
            return _labelled_lines(
                f"{'error' if is_error else 'result'} of {call_names.get(call_id) or call_id or 'unknown call'}", output
            )
        case File():
            return _labelled_lines("file", _file_summary(part))
        case Data(name=name, value=value):
            return _labelled_lines(f"data {name}", value)
        case _:
            assert_never(part)


def _labelled_lines(label: str, value: object) -> list[str]:
    return _printable_lines(json.result_text(value), prefix=f"{label}: ")


def _file_summary(part: File) -> str:
    size = f"{len(part.data):,} base64 characters" if part.data is not None else ""
    url = part.url or ""
    if url.startswith("data:"):
        url, size = "", f"data URL of {len(url):,} characters"
    return " ".join(filter(None, (part.media_type, part.filename, url, part.file_id, size)))


def _printable_lines(text: str, prefix: str = "") -> list[str]:
    """Split a text into printable lines, keeping tabs; with a `prefix` of the first line, the others are indented."""
    lines = (prefix + text.replace("\r\n", "\n")).split("\n")
    cleaned = ["\t".join(map(one_line, line.split("\t"))) for line in lines]
    return [cleaned[0], *(f"{_INDENT}{line}" if prefix and line else line for line in cleaned[1:])]


def echo(text: str | bytes, *, err: bool = False) -> None:
    """Print text, escaping characters that the terminal's encoding lacks; bytes are written unchanged."""
    if isinstance(text, str):
        encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(text, err=err)


def format_json(value: Any) -> str:
    """Return indented JSON without terminal control characters."""
    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line per row, in columns as wide as their longest cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


@contextmanager
def open_output(output: str | None, to_stdout: Callable[[bytes], object]) -> Generator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, or `to_stdout` for None and `-`. Raises TargetNotFound."""
    if output is None or output == "-":
        yield to_stdout
        sys.stdout.buffer.flush()
        return
    try:
        with Path(output).open("wb") as stream:
            yield stream.write
    except OSError as error:
        raise TargetNotFound(f"Cannot write {output}: {error_reason(error)}.") from None


def error_reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be opened, in lower case: `no such file or directory`."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return text[:1].lower() + text[1:]


def request_failure(url: str, error: "httpx.HTTPError") -> str:
    """Return why a request failed, as a sentence."""
    import httpx  # Imported late: --help must not wait for it.

    reason = printable(str(error)).rstrip(".")
    match error:
        case httpx.ConnectTimeout():
            return f"Cannot reach {url}: timed out."
        case httpx.TimeoutException():
            return f"Request to {url} timed out."
        case httpx.ConnectError():
            return f"Cannot reach {url}: {reason or 'connection failed'}."
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            return f"Connection to {url} lost{f': {reason}' if reason else ''}."
        case _:
            return f"Request to {url} failed: {reason or type(error).__name__}."


STATUS_COLOURS = {"error": "red", "cancelled": "yellow", "incomplete": "yellow"}
_TRACE_CHARS = 8
_NAME_CHARS = 26
_PREVIEW_CHARS = 40
"""Length of a preview if the output is not a terminal; else the previews fill the line."""
_PREFIX_CHARS = 10 + _TRACE_CHARS + 2 + 12 + _NAME_CHARS + 2 + 11 + 14
"""Length of a line before the previews."""


def format_span_row(row: "SpanListItem") -> str:
    """Format time of day (UTC), start of the trace id, status, name, duration, tokens, input and output."""
    chars = (
        max(12, (shutil.get_terminal_size().columns - _PREFIX_CHARS - 4) // 2)
        if sys.stdout.isatty()
        else _PREVIEW_CHARS
    )
    status = click.style(f"{row.status:<10}", fg=STATUS_COLOURS.get(row.status, "green"))
    input_text, output_text = (printable(preview_text(side), chars) for side in (row.preview_in, row.preview_out))
    name = printable(row.workflow or row.name, _NAME_CHARS)
    numbers = f"{format_duration(row.duration_ms):>9}  {format_tokens(row):>12}"
    start = f"{row.start:%H:%M:%S}  {row.trace_id[:_TRACE_CHARS]}"
    return f"{start}  {status}  {name:<{_NAME_CHARS}}  {numbers}  {input_text} → {output_text}".rstrip()


def format_duration(ms: float) -> str:
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.0f} min"


def format_tokens(row: "SpanListItem") -> str:
    if row.input_tokens is None and row.output_tokens is None:
        return "-"
    return f"{row.input_tokens or 0}+{row.output_tokens or 0}"


def preview_text(preview: Any) -> str:
    match preview:
        case {"text": str(text)}:
            return text
        case _:
            return ""
