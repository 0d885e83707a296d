"""A full disk: runs are refused or fail with an error, stored data is readable, and service resumes with free space."""

import asyncio
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.faults.rounds import round_count
from tests.faults.stream_clients import PROTOCOLS, StreamClient, counting_script, make_clients, read_streams
from tests.server.traced_server import span
from tests.server_process import ServerProcess, server_process
from tests.traces.otlp.otlp_requests import request

MIB = 1024 * 1024
LARGE_REQUEST = {"model": "scripted", "input": "word " * 20_000, "stream": False}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount_result = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "palaver-test", folder], capture_output=True, check=False
    )
    if mount_result.returncode:
        pytest.skip("only root can make a small file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill_disk(folder: Path) -> Path:
    """Use up the remaining space."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def test_a_full_disk_refuses_runs_and_stored_data_stays_readable(disk: Path, tmp_path: Path) -> None:
    database, unstored_ends = disk / "palaver.db", 0
    with (
        server_process(tmp_path, db=str(database), rate_per_minute="0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        for _ in range(round_count(2, 10)):
            stored = http.post("/v1/responses", json={"model": "scripted", "input": "Kept for ever."}).json()
            readers = make_clients([counting_script(400, 0.01)] * 8)

            filler = asyncio.run(fill_disk_while_reading(server, disk, readers))

            assert [reader.ended for reader in readers] == [True] * 8, readers
            assert [refusal_status(http, name) for name in PROTOCOLS] == [507] * 4
            assert span_refusal(http) == (503, True)
            assert http.get(f"/v1/responses/{stored['id']}").json() == stored
            assert http.get("/api/runs").status_code == http.get("/health").status_code == 200

            filler.unlink()

            answer_after = await_recovery(http)
            assert send_spans(http, "again").status_code == 200
            assert [row["name"] for row in query_spans(http) if row["name"] == "again"] == ["again"]
            assert http.get(f"/v1/responses/{answer_after['id']}").json() == answer_after
            assert http.get("/api/runs", params={"status": "running"}).json()["data"] == []
            unstored_ends += sum(has_unstored_end(http, reader) for reader in readers)
        assert server.stop() == 0
    with closing(sqlite3.connect(database)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert unstored_ends > 0  # Otherwise the full disk affected no run.


async def fill_disk_while_reading(server: ServerProcess, disk: Path, readers: list[StreamClient]) -> Path:
    """Fill the disk while the clients read, until writes fail: a database has some reserved space."""
    async with read_streams(server, readers):
        while not all(reader.pieces for reader in readers):  # noqa: ASYNC110 - there is no event to await
            await asyncio.sleep(0.01)
        filler = await asyncio.to_thread(fill_disk, disk)
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
            for _ in range(100):
                if (await http.post("/v1/responses", json=LARGE_REQUEST)).status_code == 507:
                    return filler
    raise AssertionError("the disk was never full")


def await_recovery(http: httpx.Client) -> dict[str, str]:
    end = time.monotonic() + 30
    while (answer := http.post("/v1/responses", json={"model": "scripted", "input": "Again."})).status_code != 200:
        assert (answer.status_code, time.monotonic() < end) == (507, True), answer.text
        time.sleep(0.1)
    return answer.json()


def send_spans(http: httpx.Client, name: str) -> httpx.Response:
    """Send spans as an exporter does, enough to need disk space."""
    spans = [span(f"{number}", number, trace=name[:16], said=os.urandom(2_000).hex()) for number in range(100)]
    head = {"content-type": "application/x-protobuf"}
    return http.post("/v1/traces", content=request(span(name[:8], trace=name[:16], seconds=2), *spans), headers=head)


def query_spans(http: httpx.Client) -> list[dict[str, str]]:
    return http.post("/api/spans/query", json={"limit": 200}).json()["data"]


def span_refusal(http: httpx.Client) -> tuple[int, bool]:
    """Return the final status for spans, and whether it has a Retry-After header: exporters then retry."""
    for number in range(100):
        if (answer := send_spans(http, f"full {number}")).status_code != 200:
            return answer.status_code, "retry-after" in answer.headers
    return 200, False


def refusal_status(http: httpx.Client, name: str) -> int:
    """Return the final status of a call: small ones may still fit for a while."""
    protocol = PROTOCOLS[name]
    for _ in range(500):
        if (answer := http.post(protocol.path, json=protocol.body("Hi."))).status_code != 200:
            return answer.status_code
    return 200


def has_unstored_end(http: httpx.Client, reader: StreamClient) -> bool:
    """Whether its stream reported that its outcome could not be stored; the stored run must say the same."""
    run = http.get(f"/api/runs/{reader.run}").json()
    is_reported = "its outcome could not be stored" in str(reader.frames[-3:])
    error = run["error"]["code"] if run["error"] else None
    assert (run["status"], error) == (("failed", "disk_full") if is_reported else ("finished", None))
    return is_reported
