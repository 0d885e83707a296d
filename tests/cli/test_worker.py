"""`palaver worker`: executes queued runs next to a server, and shuts down like a server."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from palaver.errors import SettingsError
from palaver.storage import backup
from tests.server_process import WORKFLOWS, server_process


@contextmanager
def running_worker(
    folder: Path, db: str, *options: str, **settings: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Start a worker of the server's workflows; yield its process and its first line of output."""
    target = folder / "served_app.py"
    target.write_text(WORKFLOWS, encoding="utf-8")
    command = [sys.executable, "-m", "palaver.cli", "worker", str(target), "--db", db, *options]
    environment = {**os.environ, **{f"PALAVER_{name.upper()}": value for name, value in settings.items()}}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, line
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait(60)
        process.stderr.close()


@pytest.fixture(params=["file", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "palaver.db") if request.param == "file" else request.getfixturevalue("postgres_url")


def start_run(http: httpx.Client, prompt: str) -> str:
    created = http.post("/v1/responses", json={"model": "scripted", "input": prompt, "background": True}).json()
    assert created["status"] == "queued"
    return created["id"]


def wait_for_status(http: httpx.Client, response: str, *statuses: str) -> str:
    end = time.monotonic() + 20
    while (status := http.get(f"/v1/responses/{response}").json()["status"]) not in statuses:
        assert time.monotonic() < end, status
        time.sleep(0.02)
    return status


def test_a_stopping_worker_finishes_its_run_and_leaves_the_rest_queued(tmp_path: Path, db: str) -> None:
    with (
        server_process(tmp_path, db=db, background_runs="0", rate_per_minute="0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        first_run = start_run(http, "early")
        with running_worker(tmp_path, db, "--runs", "1") as (worker, line):
            first_status = wait_for_status(http, first_run, "completed")
            slow_run = start_run(http, '[{"text": "slow"}, {"sleep": 1}, {"text": "ly"}]')
            wait_for_status(http, slow_run, "in_progress")
            queued_run = start_run(http, "waits")
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(60)
        final_statuses = [http.get(f"/v1/responses/{one}").json()["status"] for one in (slow_run, queued_run)]
        with running_worker(tmp_path, db):
            last_status = wait_for_status(http, queued_run, "completed")

    assert (first_status, code, final_statuses, last_status) == ("completed", 0, ["completed", "queued"], "completed")
    masked_db = re.sub(r"(://[^:@/]+):[^@]+@", r"\1:***@", db)
    assert line == (
        "Processing background runs of calculator, eliza, headline, echo, scripted "
        f"from {masked_db}, up to 1 at a time  (Ctrl+C to stop)\n"
    )
    assert (":***@" in line) == db.startswith("postgresql")


def test_a_run_on_a_worker_is_ended_by_a_cancel_or_a_second_signal(tmp_path: Path, db: str) -> None:
    with (
        server_process(tmp_path, db=db, background_runs="0", rate_per_minute="0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
        running_worker(tmp_path, db) as (worker, _),
    ):
        cancelled = start_run(http, '[{"text": "a"}, {"sleep": 60}]')
        wait_for_status(http, cancelled, "in_progress")
        since = time.monotonic()
        status = http.post(f"/v1/responses/{cancelled}/cancel").json()["status"]
        elapsed_s = time.monotonic() - since
        endless = start_run(http, '[{"text": "a"}, {"sleep": 60}]')
        wait_for_status(http, endless, "in_progress")
        worker.send_signal(signal.SIGINT)
        worker.send_signal(signal.SIGTERM)  # Not SIGINT: pending signals of the same number are delivered as one.
        code = worker.wait(60)
        final_status = wait_for_status(http, endless, "failed", "incomplete")

    assert (status, code, final_status) == ("cancelled", 0, "incomplete")
    assert elapsed_s < 30  # A watchdog: it would take a minute.


def test_restore_is_refused_while_a_worker_uses_the_database(tmp_path: Path) -> None:
    db, target = tmp_path / "palaver.db", tmp_path / "backup.zip"
    with running_worker(tmp_path, str(db)), running_worker(tmp_path, str(db)):
        backup.create_backup(db, target, version="0", now=datetime.now(UTC))
        with pytest.raises(SettingsError) as refused:
            backup.restore_backup(target, db, replace=True, now=datetime.now(UTC))
    backup.restore_backup(target, db, replace=True, now=datetime.now(UTC))

    assert refused.value.message == f"A worker is using {db}. Stop it first."


def test_a_worker_of_a_missing_file_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "palaver.cli", "worker", "nothing.py"]

    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)

    assert (result.returncode, result.stderr) == (1, "error: File 'nothing.py' not found.\n")
