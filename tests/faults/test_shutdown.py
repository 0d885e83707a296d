"""SIGTERM: no new runs, open streams end with a terminal record, a second signal ends at once; exit code 0."""

import signal
import time
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.serving import Served, served

SLOW = {
    "messages": [],
    "flags": {"stream": True},
    "inputs": {"script": [{"text": "one "}, {"sleep": 60}, {"text": "two"}]},
}
SHORT = {
    "messages": [],
    "flags": {"stream": True},
    "inputs": {"script": [{"text": "one "}, {"sleep": 1}, {"text": "two"}]},
}


def stop_in_the_middle(server: Served, body: object, *signals: int) -> tuple[list[dict[str, object]], int, float]:
    """The records of a stream during which the server was told to stop, its exit code, and how long it took."""
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        with http.stream("POST", "/scripted/invoke", json=body) as answer:
            lines = answer.iter_lines()
            told = [next(lines)]
            began = time.monotonic()
            for sign in signals:
                server.process.send_signal(sign)
                time.sleep(0.3)
            with suppress(httpx.HTTPError):
                told += list(lines)
        code = server.process.wait(60)
        return [msgspec.json.decode(line) for line in told], code, time.monotonic() - began


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_nearly_done_may_end_by_itself(tmp_path: Path, sign: int) -> None:
    with served(tmp_path) as server:
        told, code, _ = stop_in_the_middle(server, SHORT, sign)

    assert [record["type"] for record in told][-1] == "done"
    assert told[-1]["data"]["stopReason"] == "stop"  # type: ignore[index]
    assert code == 0


def test_a_run_that_takes_too_long_is_ended_with_a_terminal_record(tmp_path: Path) -> None:
    with served(tmp_path, shutdown_seconds="1") as server:
        told, code, took = stop_in_the_middle(server, SLOW, signal.SIGTERM)

    assert told[-2] == {"type": "error", "data": {"code": "shutting_down", "message": "The server is shutting down."}}
    assert told[-1]["type"] == "done"
    assert (code, took < 20) == (0, True)


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        _, code, took = stop_in_the_middle(server, SLOW, signal.SIGTERM, signal.SIGTERM)

    assert (code, took < 20) == (0, True)


def test_an_idle_server_stops_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        began = time.monotonic()
        code = server.stop()

    assert (code, time.monotonic() - began < 10) == (0, True)
