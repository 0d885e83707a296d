"""Lock files that show which processes use a database.

The operating system releases a lock when its process ends, however it ends. The file is never removed: another process
may have locked it meanwhile.
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

LockMode = Literal["exclusive", "shared"]


class FileLock:
    """A non-blocking lock on a file, as a context manager or with `acquire` and `release`."""

    def __init__(self, path: Path, mode: LockMode = "exclusive") -> None:
        self.path = path
        self.mode: LockMode = mode
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Try to take the lock; returns whether it is held now."""
        if self._descriptor is not None:
            return True
        descriptor = _open_lock_file(self.path)
        if _try_lock(descriptor, self.mode):
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False

    def release(self) -> None:
        """Release the lock. Has no effect if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        if not self.acquire():
            raise SettingsError(f"Another process is using the database (it holds the lock {self.path}).")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock on the file, exclusive or shared."""
    if not path.exists():
        return False
    lock = FileLock(path)
    if not lock.acquire():
        return True
    lock.release()
    return False


@contextmanager
def exclusive_access(database: Path) -> Generator[None]:
    """Hold the locks of a database. Raises SettingsError if a server or worker uses it."""
    with ExitStack() as locks:
        for path, user in ((lock_path(database), "server"), (workers_lock_path(database), "worker")):
            lock = FileLock(path)
            if not lock.acquire():
                raise SettingsError(f"A {user} is using {database}. Stop it first.")
            locks.callback(lock.release)
        yield


def _open_lock_file(path: Path) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise SettingsError(f"Cannot open {path}: {error.strerror}.") from None


if sys.platform == "win32":  # pragma: no cover - on a system that our tests do not run on
    import msvcrt

    def _try_lock(descriptor: int, mode: LockMode) -> bool:  # noqa: ARG001 - shared locks do not exist here
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int, mode: LockMode) -> bool:
        # flock belongs to the open file. A POSIX lock would be lost as soon as this process opens and closes the path
        # again, and two holders in one process would not exclude each other.
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if mode == "exclusive" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
