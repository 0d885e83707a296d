"""`palaver demo`: the data that it starts with, and that changes persist."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import START_TIMEOUT_S, ServerProcess, demo_process, free_port


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(home: Path) -> Iterator[ServerProcess]:
    with demo_process(home) as server:
        yield server


def list_items(demo: ServerProcess, path: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{demo.url}{path}", trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/api/threads?limit=50", 11),
        ("/api/boards", 2),
        ("/api/testsets", 1),
        ("/api/evaluations", 2),
        ("/api/reviews", 1),
        ("/api/online", 1),
        ("/api/feedback", 5),
        ("/api/workflows/calculator/variants", 2),
    ],
)
def test_every_list_has_sample_data(demo: ServerProcess, path: str, count: int) -> None:
    assert len(list_items(demo, path)) == count


def test_the_tour_is_on_unless_it_is_disabled_by_setting(
    demo: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_toured(server: ServerProcess) -> bool:
        return httpx.get(f"{server.url}/api/bootstrap", trust_env=False, timeout=60).json()["features"]["tour"]

    assert is_toured(demo)
    monkeypatch.setenv("PALAVER_TOUR", "false")
    with demo_process(tmp_path) as second_demo:
        assert not is_toured(second_demo)


def test_every_sample_thread_has_an_answer(demo: ServerProcess) -> None:
    threads = list_items(demo, "/api/threads?limit=50")

    assert {thread["workflow"] for thread in threads} == {"eliza", "calculator"}
    assert [thread["title"] for thread in threads if not thread["out"]["text"]] == []


def test_the_sample_data_has_a_conversation_trace_of_another_service(demo: ServerProcess) -> None:
    (trace,) = [trace for trace in list_items(demo, "/api/traces?limit=200") if trace["service"] == "travel-desk"]

    assert trace["in"]["text"] == "Is there a train to Bergen tonight?"
    assert trace["out"]["text"].startswith("Yes: the night train leaves at 23:25")


def test_comparing_the_sample_evaluations_shows_a_regression(demo: ServerProcess) -> None:
    hasty, base = [one["id"] for one in list_items(demo, "/api/evaluations")]
    compared = httpx.get(
        f"{demo.url}/api/evaluations/compare",
        params={"base": base, "candidate": hasty},
        trust_env=False,
        timeout=60,
    ).json()

    verdicts = {one["name"]: (one["verdict"], one["regressions"]) for one in compared["evaluators"]}
    assert verdicts["contains"] == ("worse", 8)
    assert verdicts["tool_sequence"][0] == "worse"
    assert verdicts["latency_budget"] == ("same", 0)


def test_changes_persist_and_fresh_recreates_the_sample_data(tmp_path: Path) -> None:
    def titles(server: ServerProcess) -> list[str]:
        return [thread["title"] for thread in list_items(server, "/api/threads?limit=50")]

    with demo_process(tmp_path) as first:
        response = httpx.post(f"{first.url}/api/threads", json={"workflow": "eliza", "title": "Mine"}, trust_env=False)
        assert response.status_code == 201
        assert first.stop() == 0

    with demo_process(tmp_path) as second:
        assert titles(second).count("Mine") == 1
        assert len(titles(second)) == 12
        assert second.stop() == 0

    with demo_process(tmp_path, "--fresh") as third:
        assert len(titles(third)) == 11


def test_fresh_is_refused_for_a_configured_database(tmp_path: Path) -> None:
    configured_db = tmp_path / "own.db"
    configured_db.write_bytes(b"mine")
    run = subprocess.run(
        [sys.executable, "-m", "palaver.cli", "demo", "--fresh", "--no-browser", "--port", "0"],
        env={**os.environ, "PALAVER_DB": str(configured_db)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (
        2,
        "error: --fresh can't be combined with a configured database (setting 'db').\nTry 'palaver demo --help'.\n",
    )
    assert configured_db.read_bytes() == b"mine"


def test_the_demo_prints_its_address_once_and_what_to_try(tmp_path: Path) -> None:
    with demo_process(tmp_path) as first:
        assert re.fullmatch(r"Adding sample data… \d+ s", first.lines[1])
        assert first.stop() == 0
    with demo_process(tmp_path) as second:
        httpx.get(f"{second.url}/api/bootstrap", trust_env=False, timeout=60)
        assert second.stop() == 0

    assert second.lines == [
        f"Palaver {version('palaver')} with 5 sample workflows: eliza, calculator, headline, echo, job_chat",
        "Using the data of your previous demo (--fresh starts over).",
        "",
        f"Serving at {second.url}  (Ctrl+C to stop)",
        (
            'Try: open the address in a browser, choose calculator and ask "What is 2 + 3 * 4?", or follow the tour in'
            " the sidebar."
        ),
    ]


def test_a_demo_that_is_stopped_while_it_adds_sample_data_stops_at_once(tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "palaver.cli", "demo", "--no-browser", "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "PALAVER_DB": ""},
        cwd=tmp_path,
    )
    deadline = time.monotonic() + START_TIMEOUT_S
    evaluations: list[dict[str, Any]] = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:
        while not evaluations:
            assert time.monotonic() < deadline
            with suppress(httpx.TransportError):
                evaluations = http.get("/api/evaluations").json()["data"]
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[1]

    assert process.returncode == 0
    assert printed.splitlines()[1:] == [
        "Adding sample data…",
        "warning: Stopped before all sample data was added; --fresh starts over.",
    ]
