"""A bar while a large file is read, for whoever looks; and printing that does not disturb it."""

import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol

from palaver.cli.output import echo

if TYPE_CHECKING:
    from rich.progress import Progress


_MIN_BAR_BYTES = 1_000_000
"""Bytes of a file whose reading is worth a bar."""
_PRINT_INTERVAL_S = 0.1
"""Between two prints above the bar."""


class Printer(Protocol):
    """How to print."""

    def __call__(self, text: str | bytes, *, err: bool = False) -> None:
        """Print a text, or data as it stands, to standard output or to standard error."""
        ...


@contextmanager
def read_progress(stream: BinaryIO) -> Generator[tuple[BinaryIO, Printer]]:
    """The file, under a bar where it is large and standard error is a terminal; and how to print meanwhile."""
    size = _file_bytes(stream)
    if size < _MIN_BAR_BYTES or not sys.stderr.isatty():
        yield stream, echo
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        above = _BufferedPrinter(bar)
        yield bar.wrap_file(stream, total=size), above.say
    above.rest()


def _file_bytes(stream: BinaryIO) -> int:
    """Bytes of a file on disk; 0 for a pipe, whose end nobody knows."""
    try:
        about = os.fstat(stream.fileno())
    except OSError:
        return 0
    return about.st_size if stat.S_ISREG(about.st_mode) else 0


class _BufferedPrinter:
    """Prints above a bar on the same screen, some lines at a time: each print draws the bar anew."""

    def __init__(self, bar: "Progress") -> None:
        self._console = bar.console
        self._shared = sys.stdout.isatty()
        self._waiting: list[tuple[str | bytes, bool]] = []
        self._since = 0.0

    def say(self, text: str | bytes, *, err: bool = False) -> None:
        """Print it, at once or soon."""
        if not err and not self._shared:
            echo(text)
            return
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append((text, err))
        if time.monotonic() - self._since > _PRINT_INTERVAL_S:
            from rich.text import Text

            lines = (text if isinstance(text, str) else text.decode() for text, _ in self._waiting)
            self._console.print(Text("\n".join(lines)), soft_wrap=True)
            self._waiting.clear()

    def rest(self) -> None:
        """Print what still waits, now that the bar is gone."""
        for text, err in self._waiting:
            echo(text, err=err)
