"""The command `palaver-jobchat`."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from palaver_jobchat.cli import commands

ENVIRONMENT_WITHOUT_KEYS = {
    name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "PALAVER_JOBCHAT_"))
}


def run(*arguments: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **ENVIRONMENT_WITHOUT_KEYS,
        "PALAVER_JOBCHAT_ONLINE": "0",
        "PALAVER_JOBCHAT_CACHE": str(folder / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-m", "palaver_jobchat", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        input=stdin,
        timeout=60,
        check=False,
    )


def test_call_answers_in_process(tmp_path: Path) -> None:
    payload = json.dumps({"content": "why?", "rehearsal": True})

    result = run("call", "-", folder=tmp_path, stdin=payload)

    assert result.returncode == 0
    assert json.loads(result.stdout)["response"].startswith("Test mode: no model was called.")


def test_call_prints_an_error_as_json_to_stderr(tmp_path: Path) -> None:
    result = run("call", "-", folder=tmp_path, stdin='{"content": "why?"}')

    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr.splitlines()[-1])["type"] == "UNAUTHORIZED"


def test_index_writes_an_index_and_prints_the_setting_that_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.md").write_text("# Cursors\n\nA cursor remembers.\n")
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(commands, ["index", "docs", "-o", "docs.db"])

    assert result.exit_code == 0
    assert "docs: 1 file, 1 chunk (1 added" in result.output
    assert "PALAVER_JOBCHAT_INDEX=docs.db" in result.output
    assert (tmp_path / "docs.db").is_file()


def test_adaptor_prints_the_docs_that_the_model_would_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALAVER_JOBCHAT_ONLINE", "0")
    monkeypatch.setenv("PALAVER_JOBCHAT_CACHE", str(tmp_path))

    short = CliRunner().invoke(commands, ["adaptor", "http@6.5.4"])
    full = CliRunner().invoke(commands, ["adaptor", "http@6.5.4", "--full"])

    assert short.output.startswith("@openfn/language-http 6.5.4\ndocs: exact\n")
    assert "get(path: string" in short.output
    assert len(full.output) > 3 * len(short.output)


def test_invalid_setting_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text('[jobchat]\nretries = "many"\n')

    result = run("adaptor", "http", folder=tmp_path)

    assert result.returncode == 1
    assert result.stderr.startswith("Error: Invalid Job Chat setting: Expected `int`, got `str`")
    assert len(result.stderr.splitlines()) == 1


def test_fake_model_prints_its_url_and_plays_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('[{"text": "Hello"}]')
    command = [sys.executable, "-m", "palaver_jobchat", "fake-model", "script.json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        match = re.fullmatch(r"ANTHROPIC_BASE_URL=(http://127\.0\.0\.1:\d+)\n", process.stdout.readline())
        assert match is not None
        answer = httpx.post(
            f"{match[1]}/v1/messages",
            json={"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]},
            headers={"x-api-key": "k", "anthropic-version": "2023-06-01"},
            trust_env=False,
        )
        assert answer.json()["content"] == [{"type": "text", "text": "Hello"}]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
