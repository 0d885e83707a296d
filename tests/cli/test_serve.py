"""`palaver serve` and `demo` as processes: output, hints, --reload, the next free port."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.frameworks.fake_servers import fake_server, full_response
from tests.server_process import server_process


def test_serve_prints_a_line_for_each_workflow_and_the_address(tmp_path: Path) -> None:
    with server_process(tmp_path, "from palaver.demo import eliza, headline\n") as server:
        lines = server.lines[:3]

    assert lines == [
        f"eliza     chat      eliza.py:{_first_line('eliza')}",
        f"headline  workflow  headline.py:{_first_line('headline')}",
        f"Serving at {server.url}  (Ctrl+C to stop)",
    ]


def test_a_workflow_that_takes_messages_gets_a_hint(tmp_path: Path) -> None:
    source = "from palaver import workflow\n@workflow\ndef f(messages): return 1\n"

    with server_process(tmp_path, source) as server:
        assert server.lines[0] == "hint: f takes messages; declare it with @chat to make it a chat"


def test_a_connection_that_is_not_recognised_is_listed_with_the_reason_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    source = "from palaver import connect\nfrom palaver.testing import echo\nfar = connect('{url}', name='far')\n"
    with (
        fake_server(full_response({"detail": "Not Found"}, status="404 Not Found")) as service,
        server_process(tmp_path, source.format(url=service.url)) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        called = http.post("/echo/invoke", json={"inputs": {"text": "Hi."}})
        refused = http.post("/far/invoke", json={"inputs": {"text": "Hi."}})
        (far,) = http.get("/api/workflows", params={"state": "unavailable"}).json()["data"]
        (connection,) = http.get("/api/connections").json()["data"]

    reason = f"{service.url} could not be identified. Tried: POST /inspect: not found; "
    assert server.lines[0] == "echo  workflow  testing.py:" + server.lines[0].rpartition(":")[2]
    assert server.lines[1] == f"far   unavailable  {service.url}"
    assert server.lines[2].startswith(f"      {reason}")
    assert (called.status_code, called.json()) == (200, {"text": "Hi."})
    assert (refused.status_code, refused.json()["status"]["message"]) == (
        502,
        "far cannot be called: its protocol could not be identified.",
    )
    assert (far["name"], far["state"], connection["state"]) == ("far", "unavailable", "unavailable")
    assert far["problem"].startswith(reason)
    assert connection["message"] == far["problem"]


def test_unknown_settings_get_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "palaver.toml").write_text("max_bdoy = 1\nzebra = 2\n[jobchat]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with server_process(tmp_path, "from palaver.testing import echo\n") as server:
        assert server.lines[:2] == [
            "warning: Unknown setting 'max_bdoy' in palaver.toml. Did you mean 'max_body'?",
            "warning: Unknown setting 'zebra' in palaver.toml. See docs/reference/settings.md for all settings.",
        ]


def test_several_files_of_a_folder_are_served(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name in ("one", "two"):
        source = f"from palaver import workflow\n@workflow\ndef {name}(): return '{name}'\n"
        (tmp_path / "more" / f"{name}.py").write_text(source, encoding="utf-8")

    with server_process(tmp_path, "from palaver.testing import echo\n", str(tmp_path / "more")) as server:
        response = httpx.get(f"{server.url}/api/workflows", trust_env=False).json()

    assert [row["name"] for row in response["data"]] == ["echo", "one", "two"]


def test_the_settings_api_returns_the_source_of_each_setting(tmp_path: Path) -> None:
    with server_process(tmp_path, max_queued="3") as server:
        response = httpx.get(f"{server.url}/api/settings", trust_env=False).json()["data"]
    values = {setting["name"]: (setting["value"], setting["source"]) for setting in response}

    assert (values["max_queued"], values["port"], values["max_runs"]) == ((3, "env"), (0, "flag"), (32, "default"))


def test_reload_serves_the_changed_file(tmp_path: Path) -> None:
    target = tmp_path / "app.py"
    target.write_text("from palaver import workflow\n@workflow\ndef f(): return 'old'\n", encoding="utf-8")
    port = _free_port()
    command = [sys.executable, "-m", "palaver.cli", "serve", str(target), "--port", str(port), "--reload"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert _wait_for_value(port, "old")
        target.write_text("from palaver import workflow\n@workflow\ndef f(): return 'new'\n", encoding="utf-8")
        os.utime(target, (time.time() + 5, time.time() + 5))
        assert _wait_for_value(port, "new")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def test_the_demo_takes_the_next_free_port_and_serves_its_samples_and_job_chat(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "palaver.cli", "demo", "--no-browser", "--port", str(port)]
        environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
        assert process.stderr is not None
        try:
            lines = [process.stderr.readline() for _ in range(3)]
            url = lines[2].split()[2]
            page = httpx.get(url, trust_env=False, timeout=30)
            description = httpx.get(f"{url}/api/workflows/eliza", trust_env=False, timeout=30).json()
        finally:
            process.terminate()
            assert process.wait(60) == 0
            process.stderr.close()

    assert lines[0].endswith(" with 5 sample workflows: eliza, calculator, headline, echo, job_chat\n")
    assert url != f"http://127.0.0.1:{port}"
    assert page.status_code == 200
    assert f"curl {url}/eliza/invoke" in description["snippets"][0]["code"]


def _first_line(name: str) -> int:
    from palaver import demo

    return getattr(demo, name).function.__code__.co_firstlineno


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def _wait_for_value(port: int, value: str) -> bool:
    for _ in range(300):
        try:
            answer = httpx.post(f"http://127.0.0.1:{port}/f/invoke", json={}, trust_env=False, timeout=60)
            if answer.json() == value:
                return True
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_an_invalid_port_is_a_one_line_error(tmp_path: Path, port: str) -> None:
    command = [sys.executable, "-m", "palaver.cli", "serve", "palaver.demo:eliza"]
    environment = {**os.environ, "PALAVER_PORT": port}
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60, check=False
    )

    expected_error = f"error: Invalid PALAVER_PORT {port}: must be between 0 and 65535 (0 picks a free port).\n"
    assert (run.returncode, run.stderr) == (2, expected_error)
