"""A server that emitters send spans to, and its view of them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec

from tests.conformance.node_drivers import NODE, assert_installed
from tests.server_process import server_process

FOLDER = Path(__file__).parent
EMITTERS = FOLDER / "emitters"


@dataclass(frozen=True)
class ProjectView:
    """The view of a project; each emitter sends to its own project with its own key."""

    url: str
    key: str
    http: httpx.Client

    def get(self, path: str, **params: Any) -> Any:
        return self._json(self.http.get(path, params=params))

    def post(self, path: str, body: Any) -> Any:
        return self._json(self.http.post(path, json=body))

    def rows(self, session: str) -> list[dict[str, Any]]:
        """The rows of a session's traces, oldest first."""
        rows = self.post("/api/traces/query", {"filter": {"field": "session", "op": "eq", "value": session}})
        assert rows["next"] is None
        return rows["data"][::-1]

    def count(self) -> int:
        """The number of rows."""
        page = self.get("/api/traces", limit=200)
        assert page["next"] is None
        return len(page["data"])

    def spans(self, trace: str) -> list[dict[str, Any]]:
        """The records of a trace's spans, in the order of their start."""
        spans = self.get(f"/api/traces/{trace}/skeleton")["data"]
        return [self.get(f"/api/spans/{trace}/{span['span_id']}") for span in spans]

    def tree(self, trace: str, parent: str | None = None) -> list[Any]:
        """The children of a span, sorted; each as its kind followed by its children."""
        rows = self.get(f"/api/traces/{trace}/tree", **({} if parent is None else {"parent": parent}))["data"]
        children = {row["span_id"]: self.tree(trace, row["span_id"]) if row["children"] else [] for row in rows}
        return sorted((row["kind"], *children[row["span_id"]]) for row in rows)

    def conversation(self, trace: str) -> list[Any]:
        """The messages that the playground would continue from, summarized."""
        return [summarize_message(message) for message in self.post(f"/api/traces/{trace}/thread", {})["messages"]]

    def thread(self, session: str) -> list[list[Any]]:
        """The steps of a session's tabs, summarized."""
        parts = self.get(f"/api/sessions/{session}/thread")
        assert parts["next"] is None
        return [
            [
                summarize_message(step["message"]) if step["type"] == "message" else ("step", step["name"])
                for step in tab["steps"]
            ]
            for tab in parts["tabs"]
        ]

    def run(self, program: str) -> None:
        """Run an emitter to its end, configured by the standard environment variables."""
        path = EMITTERS / program
        if path.suffix == ".mjs":
            assert_installed()
        command = [NODE if path.suffix == ".mjs" else sys.executable, path]
        variables = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{self.url}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"authorization=Bearer%20{self.key}",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "shop",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": self.key,
            "NO_PROXY": "*",
        }
        result = subprocess.run(
            command,
            env={**os.environ, **variables},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            cwd=FOLDER,
            check=False,
        )
        assert (result.returncode, "export" in result.stderr) == (0, False), (
            result.stderr
        )  # Exporters only log failures.

    def _json(self, answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()


RunEmitter = Callable[[str], ProjectView]
"""Runs a program and returns the view of its project."""


@dataclass(frozen=True)
class TraceServer:
    """A running server and an admin key."""

    url: str
    key: str

    @contextmanager
    def create_project(self) -> Iterator[ProjectView]:
        """Create a project and yield its view."""
        headers = {"authorization": f"Bearer {self.key}"}
        response = httpx.post(f"{self.url}/api/projects", json={"name": f"p-{uuid4().hex[:12]}"}, headers=headers)
        assert response.status_code == 201, response.text
        key = response.json()["key"]["secret"]
        with httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {key}"}, timeout=30) as http:
            yield ProjectView(self.url, key, http)


@contextmanager
def run_trace_server(folder: Path) -> Iterator[TraceServer]:
    """Serve the model and the trace API."""
    db = str(folder / "palaver.db")
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--scope", "admin"]
    response = subprocess.run(command, env={**os.environ, "PALAVER_DB": db}, capture_output=True, text=True, check=True)
    with server_process(folder, (FOLDER / "model.py").read_text("utf-8"), db=db) as running:
        yield TraceServer(running.url, response.stdout.strip())


def summarize_message(message: dict[str, Any]) -> Any:
    """A message as its role and its parts, with calls and results reduced to the essentials."""
    parts: list[Any] = []
    for part in message["parts"]:
        match part:
            case {"type": "text", "text": text}:
                parts.append(text)
            case {"type": "tool-call", "call_id": call_id, "name": name, "arguments": arguments}:
                parts.append({"calls": name, "as": call_id, "with": msgspec.json.decode(arguments)})
            case {"type": "tool-result", "call_id": call_id, "output": output}:
                parts.append({"answers": call_id, "with": output})
            case _:
                parts.append(part)
    return (message["role"], *parts)
