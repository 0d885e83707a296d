"""A file that one process holds locked, so that others can tell that it is at work.

The system lets go of the lock when the process ends, however it ends. The file itself stays: whoever removed it could
remove one that somebody else has just locked.
"""

import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from palaver.errors import SettingsError
from palaver.storage.paths import lock_path, workers_lock_path

LockMode = Literal["alone", "shared"]
"""Held by one process and nobody else, or by any number of those who share it."""


class FileLock:
    """A lock on a file: `with Lock(path):`, or `acquire` and `release`. Who does not get it is told at once."""

    def __init__(self, path: Path, mode: LockMode = "alone") -> None:
        self.path = path
        self.mode: LockMode = mode
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take it, if nobody else holds it: now it is held."""
        if self._file is not None:
            return True
        file = _open_lock_file(self.path)
        if _took(file, self.mode):
            self._file = file
            return True
        os.close(file)
        return False

    def release(self) -> None:
        """Let go of it; letting go twice is not an error."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        if not self.acquire():
            raise SettingsError(f"Another process is at work there: it holds {self.path}.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Does anybody hold a lock on it, alone or with others?"""
    if not path.exists():
        return False
    lock = FileLock(path)
    if not lock.acquire():
        return True
    lock.release()
    return False


@contextmanager
def exclusive_access(database: Path) -> Generator[None]:
    """Hold a database against everybody, if nobody is at work on it; a SettingsError names who is."""
    with ExitStack() as held:
        for path, who in ((lock_path(database), "server"), (workers_lock_path(database), "worker")):
            lock = FileLock(path)
            if not lock.acquire():
                raise SettingsError(f"A {who} is at work on {database}: stop it first.")
            held.callback(lock.release)
        yield


def _open_lock_file(path: Path) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise SettingsError(f"{path} cannot be opened: {error.strerror}.") from None


if sys.platform == "win32":  # pragma: no cover - on a system that our tests do not run on
    import msvcrt

    def _took(file: int, kind: LockMode) -> bool:  # noqa: ARG001 - there is only one kind here: sharing is not to be had
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _took(file: int, kind: LockMode) -> bool:
        # Of the two locks that POSIX has, the one that belongs to the open file: the other is lost as soon as anybody
        # in this process opens and closes the same path, and two holders in one process would not see each other.
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if kind == "alone" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
