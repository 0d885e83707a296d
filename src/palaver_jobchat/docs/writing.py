"""One writer at a time, and readers that see the old file or the new.

A file is never changed in place: a copy of it is, which then takes its name. So whoever reads needs no lock, and a
writer that dies halfway has changed nothing.
"""

import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from palaver import PalaverError


@contextmanager
def rewriting(file: Path, *, wait: float) -> Generator[Path]:
    """A copy of the file to change (nothing, if there is none), which takes its place if all goes well.

    A second writer waits so many seconds for the first.
    """
    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone(file, wait=wait):
        # A name of its own is not needed: whoever finds one here found what a dead writer left.
        part = file.with_name(f".{file.name}.part")
        part.unlink(missing_ok=True)
        try:
            if file.exists():
                shutil.copy(file, part)
            yield part
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _alone(file: Path, *, wait: float) -> Generator[None]:
    # SQLite's lock is the same on every system and ends with its process. The file stays behind, empty: were it
    # removed, one who waits for the old and one who makes a new would both believe to be alone.
    with closing(sqlite3.connect(file.with_name(f".{file.name}.lock"), timeout=wait, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise PalaverError(f"{file} is being written by another process. Try again when it has ended.") from error
        yield
