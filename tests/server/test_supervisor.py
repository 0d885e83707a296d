"""`--workers`: processes on one socket, replaced when they die, ended with their parent."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from palaver.errors import SettingsError
from palaver.server.settings import Settings, read_settings
from palaver.server.supervisor import InheritedSockets, WorkerSupervisor, check_worker_count
from tests.server_process import ServerProcess, server_process

# A stand-in for a worker: it gets a number and two sockets, may report that it serves, and ends on SIGTERM.
WORKER = """
import os, signal, socket, sys, time
number, speaks, listening, line = map(int, sys.argv[-1].split(":"))
folder = sys.argv[1]
begun = len(os.listdir(folder))
open(f"{folder}/{number}-{os.getpid()}", "w").close()
BODY
"""
REPORT_READY = "socket.socket(fileno=line).send(b'r')\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound


def worker_names(folder: Path) -> list[str]:
    """Return number and process id of every worker that was ever started, in the order of their starts."""
    return [path.name for path in sorted(folder.glob("*-*"), key=lambda path: path.stat().st_mtime_ns)]


def alive_workers(folder: Path) -> list[str]:
    return [name for name in worker_names(folder) if _is_alive(int(name.partition("-")[2]))]


def make_supervisor(
    folder: Path, listener: socket.socket, body: str, count: int = 2, seconds: float = 5
) -> WorkerSupervisor:
    command = [sys.executable, "-S", "-c", WORKER.replace("BODY", body), str(folder)]
    return WorkerSupervisor(command, listener, count, seconds=seconds)


def stop_when(condition: Callable[[], bool]) -> threading.Thread:
    """Send SIGTERM to this process once the condition holds."""

    def stop() -> None:
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


def stop_when_started(folder: Path, count: int) -> threading.Thread:
    """Send SIGTERM to this process once `count` workers have been started."""
    return stop_when(lambda: len(worker_names(folder)) >= count)


def test_all_workers_start_when_the_first_serves_and_end_with_the_parent(
    tmp_path: Path, listener: socket.socket
) -> None:
    stop = stop_when_started(tmp_path, 3)

    code = make_supervisor(tmp_path, listener, REPORT_READY + "time.sleep(60)", count=3).run()

    stop.join()
    assert code == 0
    assert sorted(name.partition("-")[0] for name in worker_names(tmp_path)) == ["1", "2", "3"]
    assert alive_workers(tmp_path) == []


def test_the_parent_exits_with_the_code_of_a_first_worker_that_cannot_serve(
    tmp_path: Path, listener: socket.socket
) -> None:
    assert make_supervisor(tmp_path, listener, "sys.exit(2)").run() == 2
    assert len(worker_names(tmp_path)) == 1


def test_a_worker_that_dies_is_replaced(
    tmp_path: Path, listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    stop = stop_when_started(tmp_path, 5)

    code = make_supervisor(tmp_path, listener, REPORT_READY + "os._exit(7) if number == 2 else time.sleep(60)").run()

    stop.join()
    names = worker_names(tmp_path)[:5]
    messages = [record.getMessage() for record in caplog.records if record.name == "palaver.server"]
    assert code == 0
    assert [name.partition("-")[0] for name in names] == ["1", "2", "2", "2", "2"]
    assert messages[:3] == [
        f"Worker 2 (process {name.partition('-')[2]}) exited with code 7; restarting it." for name in names[1:4]
    ]
    starts = [(tmp_path / name).stat().st_mtime for name in names[1:]]
    waits = [later - earlier for earlier, later in pairwise(starts)]
    assert [wait >= delay for wait, delay in zip(waits, (0.1, 0.2, 0.4), strict=True)] == [True, True, True], waits


def test_a_worker_that_ignores_sigterm_does_not_block_the_shutdown(tmp_path: Path, listener: socket.socket) -> None:
    ignoring = tmp_path / "ignoring"
    stop = stop_when(ignoring.exists)
    ignores_sigterm = f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen({str(ignoring)!r}, 'w').close()\n"

    code = make_supervisor(
        tmp_path, listener, ignores_sigterm + REPORT_READY + "time.sleep(600)", count=1, seconds=1
    ).run()

    stop.join()
    assert (code, len(worker_names(tmp_path)), ignoring.exists()) == (0, 1, True)
    assert alive_workers(tmp_path) == []


def test_inherited_sockets_are_parsed_and_report_ready_to_the_parent(listener: socket.socket) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        inherited = InheritedSockets.parse(f"2:1:{os.dup(listener.fileno())}:{theirs.detach()}")
        inherited.report_ready()
        received = ours.recv(1)
        ours.close()
        inherited.report_ready()  # Reporting to a closed socket is harmless.
        with inherited.listening, inherited.parent_socket:
            parsed = (inherited.number, inherited.is_announcer, inherited.listening.getsockname(), received)

    assert parsed == (2, True, listener.getsockname(), b"r")


def test_several_workers_need_postgresql() -> None:
    with pytest.raises(SettingsError, match=r"--workers 4 requires PostgreSQL\. Pass --db postgresql://… or use"):
        check_worker_count(Settings(workers=4), "/srv/palaver.db")
    with pytest.raises(SettingsError, match="Invalid PALAVER_WORKERS 0: must be at least 1"):
        read_settings(env={"PALAVER_WORKERS": "0"}, folder=Path("/nowhere"))


def test_serve_with_several_workers_on_sqlite_prints_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from palaver.testing import echo\n", encoding="utf-8")
    command = [sys.executable, "-m", "palaver.cli", "serve", "app.py", "--workers", "2"]

    completed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)

    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr == (
        "error: --workers 2 requires PostgreSQL. Pass --db postgresql://… or use a single worker.\n"
    )


# Real servers


APP = """
import os
from palaver import workflow
from palaver.testing import scripted

@workflow
def who() -> int:
    return os.getpid()

@workflow
def quits() -> int:
    os._exit(7)
"""


def _invoke(server: ServerProcess, name: str) -> int:
    return httpx.post(f"{server.url}/{name}/invoke", json={}, trust_env=False, timeout=30).json()


def _worker_pids(server: ServerProcess, count: int) -> set[int]:
    """Return the ids of the answering processes once there are `count`."""
    pids: set[int] = set()
    deadline = time.monotonic() + 30
    while len(pids) < count and time.monotonic() < deadline:
        pids.add(_invoke(server, "who"))
    return pids


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def test_a_worker_that_its_workflow_exits_is_replaced_while_others_serve(tmp_path: Path, postgres_url: str) -> None:
    with server_process(tmp_path, APP, "--workers", "2", db=postgres_url, rate_per_minute="0") as server:
        before = _worker_pids(server, 2)
        with pytest.raises(httpx.RemoteProtocolError):
            _invoke(server, "quits")
        meanwhile = {_invoke(server, "who") for _ in range(20)}
        died = next(pid for pid in before if not _is_alive(pid))
        after = _worker_pids(server, 2)
        code = server.stop()
        lines = "\n".join(server.lines)

    assert meanwhile <= before - {died} | after
    assert (len(before), len(after), code) == (2, 2, 0)
    assert before & after == before - {died}
    assert f"(process {died}) exited with code 7; restarting it." in lines
    assert lines.count("Serving at") == lines.count("with 2 workers") == 1
    assert {f'"worker":{number}' in lines for number in (1, 2)} == {True}
    assert not any(map(_is_alive, before | after))


def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path, postgres_url: str) -> None:
    with server_process(tmp_path, APP, "--workers", "2", db=postgres_url, rate_per_minute="0") as server:
        workers = _worker_pids(server, 2)
        server.process.kill()
        deadline = time.monotonic() + 20
        while any(map(_is_alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)

        assert not any(map(_is_alive, workers))
