"""A progress bar for reading a large file, and printing above it."""

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
"""Smaller files get no bar."""
_PRINT_INTERVAL_S = 0.1
"""Between two prints above the bar."""


class Printer(Protocol):
    def __call__(self, text: str | bytes, *, err: bool = False) -> None:
        """Print text or bytes to standard output or standard error."""
        ...


@contextmanager
def read_progress(stream: BinaryIO) -> Generator[tuple[BinaryIO, Printer]]:
    """Yield the file, with a bar if it is large and standard error is a terminal, and a function to print with."""
    size = _file_bytes(stream)
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


def _file_bytes(stream: BinaryIO) -> int:
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
        self._is_shared = sys.stdout.isatty()
        self._lines: list[tuple[str | bytes, bool]] = []
        self._since = 0.0

    def print(self, text: str | bytes, *, err: bool = False) -> None:
        """Print now or with the next lines."""
        if not err and not self._is_shared:
            echo(text)
            return
        if not self._lines:
            self._since = time.monotonic()
        self._lines.append((text, err))
        if time.monotonic() - self._since > _PRINT_INTERVAL_S:
            from rich.text import Text

            lines = (text if isinstance(text, str) else text.decode() for text, _ in self._lines)
            self._console.print(Text("\n".join(lines)), soft_wrap=True)
            self._lines.clear()

    def flush(self) -> None:
        """Print what is left once the bar is gone."""
        for text, err in self._lines:
            echo(text, err=err)
