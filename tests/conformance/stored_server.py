"""A server that stores runs in its own database, with API keys for two projects."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.server_process import WORKFLOWS, server_process

FOLDER = Path(__file__).parent
UNLIMITED = {"rate_per_minute": "0"}
"""All tests share one key."""

GET_TIME: Any = {"type": "function", "name": "get_time", "parameters": {"type": "object"}, "strict": False}
"""A tool that the client declares, so that its call is the client's to answer."""


@dataclass(frozen=True)
class StoredServer:
    """A running server and its API keys."""

    url: str
    db: str
    key: str
    other_key: str
    """A key of another project."""

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    def openai(self, *, key: str | None = None, max_retries: int = 0) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key or self.key, max_retries=max_retries)

    def open(self, gate: str) -> None:
        """Open a gate that a run waits at."""
        body = {"inputs": {"name": gate}}
        answer = httpx.post(f"{self.url}/open_gate/invoke", json=body, headers=self.headers, timeout=30)
        assert answer.status_code == 200, answer.text


@contextmanager
def run_stored_server(folder: Path, db: str) -> Iterator[StoredServer]:
    """Serve gated_workflows.py and the usual test workflows with the database `db`."""
    key, other_key = (_new_key(db, project) for project in ("ours", "theirs"))
    with server_process(folder, WORKFLOWS, str(FOLDER / "gated_workflows.py"), db=db, **UNLIMITED) as running:
        yield StoredServer(running.url, db, key, other_key)


@contextmanager
def run_second_server(folder: Path, keeper: StoredServer) -> Iterator[StoredServer]:
    """Run a second server on the same database, with the same keys."""
    with server_process(folder, WORKFLOWS, str(FOLDER / "gated_workflows.py"), db=keeper.db, **UNLIMITED) as running:
        yield replace(keeper, url=running.url)


def _new_key(db: str, project: str) -> str:
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--scope", "invoke", "--project", project]
    result = subprocess.run(command, env={**os.environ, "PALAVER_DB": db}, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def error_fields(error: openai.APIStatusError) -> dict[str, Any]:
    """The machine-readable fields of an error."""
    return {"status": error.status_code, "type": error.type, "code": error.code, "param": error.param}
