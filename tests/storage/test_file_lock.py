"""Lock files show which processes use a database, for as long as they live."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from palaver.errors import SettingsError
from palaver.storage.file_lock import FileLock, exclusive_access, is_locked
from palaver.storage.paths import lock_path, workers_lock_path

HOLDER_SCRIPT = """
import sys
from pathlib import Path
from palaver.storage.file_lock import FileLock
held = FileLock(Path(sys.argv[1]))
print(held.acquire(), flush=True)
sys.stdin.readline()
"""


def test_exclusive_lock_has_one_holder_and_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "palaver.db.lock"
    assert is_locked(path) is False
    assert not path.exists()

    with FileLock(path) as lock:
        assert (lock.acquire(), FileLock(path).acquire(), is_locked(path)) == (True, False, True)
        with pytest.raises(SettingsError) as refused, FileLock(path):
            pass
        assert oct(stat.S_IMODE(path.stat().st_mode)) == "0o600"

    assert refused.value.message == f"Another process is using the database (it holds the lock {path})."
    lock.release()
    assert (path.exists(), is_locked(path)) == (True, False)


def test_shared_locks_coexist_and_exclude_exclusive_ones(tmp_path: Path) -> None:
    path = tmp_path / "palaver.db.lock"

    with FileLock(path, "shared"), FileLock(path, "shared"):
        assert (is_locked(path), FileLock(path).acquire()) == (True, False)
    with FileLock(path):
        assert FileLock(path, "shared").acquire() is False


def test_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    path = tmp_path / "palaver.db.lock"
    command = [sys.executable, "-c", HOLDER_SCRIPT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.readline()
        while_alive = is_locked(path), FileLock(path).acquire()
        process.kill()

    assert (output, *while_alive) == ("True\n", True, False)
    assert is_locked(path) is False


def test_lock_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        FileLock(tmp_path / "no such folder" / "x.lock").acquire()

    assert refused.value.message.endswith("x.lock: No such file or directory.")


def test_exclusive_access_is_refused_while_a_server_or_worker_uses_the_database(tmp_path: Path) -> None:
    database = tmp_path / "palaver.db"
    messages: list[str] = []
    for path in (lock_path(database), workers_lock_path(database)):
        with FileLock(path, "shared"), pytest.raises(SettingsError) as refused, exclusive_access(database):
            pass
        messages.append(refused.value.message)
    with exclusive_access(database):
        locked = [is_locked(path(database)) for path in (lock_path, workers_lock_path)]

    assert messages == [f"A {who} is using {database}. Stop it first." for who in ("server", "worker")]
    assert locked == [True, True]
    assert not is_locked(lock_path(database))
