"""Read input files: JSON and JSONL values, with a progress bar for large files."""

import os
import re
import stat
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import msgspec

from palaver.cli.output import echo, error_reason
from palaver.errors import InvalidJson, PalaverError, TargetNotFound, TooDeep

if TYPE_CHECKING:
    from rich.progress import Progress


_decode = msgspec.json.Decoder().decode
_JSONL_SUFFIXES = (".jsonl", ".ndjson")
_BOM = b"\xef\xbb\xbf"  # Written by some editors.
_OBJECT_LINE = re.compile(rb"^\{.*\}\s*$")
_PEEKED_LINES = 10
"""Number of lines of a broken file that are parsed to tell JSONL from a document."""

Line = tuple[int, bytes]


class JsonRecord(NamedTuple):
    """A value, or why it could not be read."""

    line: int | None
    """The line number, from 1; None for a whole document."""
    value: Any = None
    fault: str | None = None


@contextmanager
def open_input(name: str) -> Generator[BinaryIO]:
    """Open a file, or standard input for `-`."""
    if name == "-":
        yield sys.stdin.buffer
        return
    with _open_file(name) as stream:
        yield stream


def _open_file(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except (OSError, ValueError) as error:  # A NUL in the name raises ValueError.
        raise TargetNotFound(f"Cannot read {name}: {error_reason(error)}.") from None


def read_records(stream: BinaryIO, name: str) -> Iterator[JsonRecord]:
    """Yield the values of a file. JSONL is recognized by its name, or by a first line that is a complete value.

    A broken line yields a record with its fault; a document that cannot be read raises.
    """
    lines = _number_lines(stream)
    if name.endswith(_JSONL_SUFFIXES):
        yield from map(_parse_line, _drop_blank_lines(lines))
        return
    first_lines = list(_take_until_second_nonblank(lines))
    nonblank_lines = list(_drop_blank_lines(first_lines))
    if not nonblank_lines:
        raise InvalidJson(_empty_input_message(name))
    if len(nonblank_lines) > 1 and _parse_line(nonblank_lines[0]).fault is None:
        yield from map(_parse_line, _drop_blank_lines(chain(first_lines, lines)))
        return
    body = b"".join([text for _, text in first_lines]) + stream.read()
    try:
        records = iter((JsonRecord(None, _parse_json(body)),))
    except PalaverError as error:
        if not _looks_like_jsonl(body):
            raise type(error)(f"{_display_name(name)} {error.message}.") from None
        records = map(_parse_line, _drop_blank_lines(enumerate(body.split(b"\n"), 1)))
    yield from records


def parse_document(body: bytes, name: str) -> Any:
    """Parse a file that is one JSON value. Raises InvalidJson or TooDeep with the file's name."""
    if not body.strip():
        raise InvalidJson(_empty_input_message(name))
    try:
        return _parse_json(body)
    except PalaverError as error:
        raise type(error)(f"{_display_name(name)} {error.message}.") from None


def _empty_input_message(name: str) -> str:
    return "No JSON on standard input." if name == "-" else f"{name} is empty: expected JSON."


def _display_name(name: str) -> str:
    return "Standard input" if name == "-" else name


def _number_lines(stream: BinaryIO) -> Iterator[Line]:
    for number, text in enumerate(stream, 1):
        yield number, text.removeprefix(_BOM) if number == 1 else text


def _drop_blank_lines(lines: Iterable[Line]) -> Iterator[Line]:
    return (line for line in lines if not line[1].isspace() and line[1])


def _take_until_second_nonblank(lines: Iterator[Line]) -> Iterator[Line]:
    count = 0
    for line in lines:
        yield line
        count += not line[1].isspace()
        if count == 2:
            return


def _looks_like_jsonl(body: bytes) -> bool:
    """Whether a file with a broken first line is JSONL: one of the next lines is a complete object."""
    lines = body.split(b"\n", _PEEKED_LINES)[1:_PEEKED_LINES]
    return any(_OBJECT_LINE.match(text) is not None and _parse_line((0, text)).fault is None for text in lines)


def _parse_line(line: Line) -> JsonRecord:
    number, text = line
    try:
        return JsonRecord(number, _parse_json(text))
    except PalaverError as error:
        return JsonRecord(number, fault=error.message)


def _parse_json(text: bytes) -> Any:
    try:
        return _decode(text)
    except RecursionError:
        raise TooDeep("is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise InvalidJson("is not valid UTF-8") from None
        reason = str(error).removeprefix("JSON is malformed: ")
        raise InvalidJson(f"is not valid JSON: {reason[:1].lower()}{reason[1:]}") from None


_MIN_BAR_BYTES = 1_000_000
"""Minimum size of files that get a progress bar."""
_PRINT_INTERVAL_S = 0.1
"""Seconds between two prints above the bar."""


class Printer(Protocol):
    def __call__(self, text: str | bytes, *, err: bool = False) -> None: ...


@contextmanager
def read_progress(stream: BinaryIO) -> Generator[tuple[BinaryIO, Printer]]:
    """Yield the file, with a bar if it is large and standard error is a terminal, and a function to print with."""
    size = _file_size(stream)
    if size < _MIN_BAR_BYTES or not sys.stderr.isatty():
        yield stream, echo
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        printer = _BufferedPrinter(bar)
        yield bar.wrap_file(stream, total=size), printer.print
    printer.flush()


def _file_size(stream: BinaryIO) -> int:
    """Return the size of a regular file; 0 for a pipe."""
    try:
        info = os.fstat(stream.fileno())
    except OSError:
        return 0
    return info.st_size if stat.S_ISREG(info.st_mode) else 0


class _BufferedPrinter:
    """Prints above a bar, several lines at a time, as each print redraws the bar."""

    def __init__(self, bar: "Progress") -> None:
        self._console = bar.console
        self._is_stdout_terminal = sys.stdout.isatty()
        self._lines: list[tuple[str | bytes, bool]] = []
        self._buffering_since = 0.0

    def print(self, text: str | bytes, *, err: bool = False) -> None:
        """Print now or with the next lines."""
        if not err and not self._is_stdout_terminal:
            echo(text)
            return
        if not self._lines:
            self._buffering_since = time.monotonic()
        self._lines.append((text, err))
        if time.monotonic() - self._buffering_since > _PRINT_INTERVAL_S:
            from rich.text import Text

            lines = (text if isinstance(text, str) else text.decode() for text, _ in self._lines)
            self._console.print(Text("\n".join(lines)), soft_wrap=True)
            self._lines.clear()

    def flush(self) -> None:
        """Print the remaining lines once the bar is gone."""
        for text, err in self._lines:
            echo(text, err=err)
