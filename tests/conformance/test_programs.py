"""The example programs that the REST API returns for a workflow run unchanged against a real server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.node_drivers import HERE, NODE, assert_installed
from tests.server_process import ServerProcess, server_process

SOURCE = '''
from palaver import Message, chat, workflow

@chat
def tutor(messages: list[Message], subject: str) -> str:
    """Explains."""
    return f"{messages[-1].text} This is about {subject!r}."

@chat
def greeter(messages: list[Message]) -> str:
    return "Good day."

@workflow
def counted(text: str, often: int, loud: bool) -> str:
    return f"{text} {often} {loud}"

@workflow
def listed(words: list[str]) -> dict[str, int]:
    return {"words": len(words)}
'''
PROGRAMS = {"bash": ("sh", ["sh", "-e"]), "python": ("py", [sys.executable]), "javascript": ("mjs", [str(NODE)])}
EXPECTED_OUTPUT = {
    "tutor": "Hello! This is about 'Some text.'.",
    "greeter": "Good day.",
    "counted": "Some text. 1 True",
    "listed": '{"words":0}',
}
CLIENTS = ["curl", "openai-python", "openai-node", "ai-sdk", "langchain"]


@pytest.fixture(scope="module")
def program_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("programs"), SOURCE) as server:
        yield server


@pytest.fixture(scope="module")
def locked_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """A server that requires an API key, and that key."""
    with server_process(tmp_path_factory.mktemp("locked"), SOURCE) as server:
        key_request = {"name": "k", "scopes": ["invoke", "read"]}
        answer = httpx.post(f"{server.url}/api/keys", json=key_request, trust_env=False)
        assert answer.status_code == 201, answer.text
        yield server, answer.json()["secret"]


def get_program(program_server: ServerProcess, workflow: str, client: str, headers: dict[str, str]) -> dict[str, Any]:
    answer = httpx.get(f"{program_server.url}/api/workflows/{workflow}", headers=headers, trust_env=False)
    (program_snippet,) = [snippet for snippet in answer.json()["snippets"] if snippet["client"] == client]
    return program_snippet


def run_program(program_snippet: dict[str, Any], folder: Path, **environment: str) -> str:
    assert_installed()
    (folder / "node_modules").symlink_to(HERE / "node_modules")  # Node resolves packages from the file's folder.
    suffix, command = PROGRAMS[program_snippet["language"]]
    path = folder / f"program.{suffix}"
    path.write_text(program_snippet["code"], encoding="utf-8")
    completed = subprocess.run(
        [*command, path],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("workflow", EXPECTED_OUTPUT)
def test_a_snippet_runs_unchanged(program_server: ServerProcess, workflow: str, client: str, tmp_path: Path) -> None:
    program_snippet = get_program(program_server, workflow, client, {})

    output = run_program(program_snippet, tmp_path)

    assert "PALAVER_KEY" not in program_snippet["code"]
    assert EXPECTED_OUTPUT[workflow] in output
    if client != "curl":
        assert output == f"{EXPECTED_OUTPUT[workflow]}\n"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_snippet_reads_the_api_key_from_the_environment(
    locked_server: tuple[ServerProcess, str], client: str, tmp_path: Path
) -> None:
    server, key = locked_server
    program_snippet = get_program(server, "tutor", client, {"authorization": f"Bearer {key}"})

    output = run_program(program_snippet, tmp_path, PALAVER_KEY=key)

    assert "PALAVER_KEY" in program_snippet["code"]
    assert key not in program_snippet["code"]
    assert EXPECTED_OUTPUT["tutor"] in output
