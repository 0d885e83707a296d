"""A real server that emitters send their spans to, and what its table shows of them."""

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

HERE = Path(__file__).parent
EMITTERS = HERE / "emitters"


@dataclass(frozen=True)
class ProjectView:
    """What one project shows: each emitter sends to a project of its own, with a key of it."""

    url: str
    key: str
    http: httpx.Client

    def get(self, path: str, **asked: Any) -> Any:
        return self._told(self.http.get(path, params=asked))

    def post(self, path: str, body: Any) -> Any:
        return self._told(self.http.post(path, json=body))

    def rows(self, session: str) -> list[dict[str, Any]]:
        """The rows of a session's traces, the earliest first."""
        found = self.post("/api/traces/query", {"filter": {"field": "session", "op": "eq", "value": session}})
        assert found["next"] is None
        return found["data"][::-1]

    def count(self) -> int:
        """How many rows it has."""
        page = self.get("/api/traces", limit=200)
        assert page["next"] is None
        return len(page["data"])

    def spans(self, trace: str) -> list[dict[str, Any]]:
        """The records of a trace's spans, in the order of their start."""
        bones = self.get(f"/api/traces/{trace}/skeleton")["data"]
        return [self.get(f"/api/spans/{trace}/{bone['span_id']}") for bone in bones]

    def tree(self, trace: str, parent: str | None = None) -> list[Any]:
        """What stands below a span, sorted: each as its kind, and what stands below it."""
        found = self.get(f"/api/traces/{trace}/tree", **({} if parent is None else {"parent": parent}))["data"]
        below = {row["span_id"]: self.tree(trace, row["span_id"]) if row["children"] else [] for row in found}
        return sorted((row["kind"], *below[row["span_id"]]) for row in found)

    def conversation(self, trace: str) -> list[Any]:
        """What the playground would go on from, in short."""
        return [summarize_message(message) for message in self.post(f"/api/traces/{trace}/thread", {})["messages"]]

    def thread(self, session: str) -> list[list[Any]]:
        """A session's tabs, in short."""
        told = self.get(f"/api/sessions/{session}/thread")
        assert told["next"] is None
        return [
            [
                summarize_message(step["message"]) if step["type"] == "message" else ("step", step["name"])
                for step in tab["steps"]
            ]
            for tab in told["tabs"]
        ]

    def run(self, program: str) -> None:
        """Run an emitter to its end, told by the usual variables where to send."""
        path = EMITTERS / program
        if path.suffix == ".mjs":
            assert_installed()
        command = [NODE if path.suffix == ".mjs" else sys.executable, path]
        known = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{self.url}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"authorization=Bearer%20{self.key}",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "shop",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": self.key,
            "NO_PROXY": "*",
        }
        done = subprocess.run(
            command,
            env={**os.environ, **known},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            cwd=HERE,
            check=False,
        )
        assert (done.returncode, "export" in done.stderr) == (0, False), (
            done.stderr
        )  # Exporters tell of failure only there.

    def _told(self, answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()


RunEmitter = Callable[[str], ProjectView]
"""The table of a program, after it has run."""


@dataclass(frozen=True)
class TraceServer:
    """A running server, and the key of its first project."""

    url: str
    key: str

    @contextmanager
    def table(self) -> Iterator[ProjectView]:
        """A new project, and what it will show."""
        headers = {"authorization": f"Bearer {self.key}"}
        made = httpx.post(f"{self.url}/api/projects", json={"name": f"p-{uuid4().hex[:12]}"}, headers=headers)
        assert made.status_code == 201, made.text
        key = made.json()["key"]["secret"]
        with httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {key}"}, timeout=30) as http:
            yield ProjectView(self.url, key, http)


@contextmanager
def run_trace_server(folder: Path) -> Iterator[TraceServer]:
    """Serve the model, and the table."""
    db = str(folder / "palaver.db")
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--scope", "admin"]
    made = subprocess.run(command, env={**os.environ, "PALAVER_DB": db}, capture_output=True, text=True, check=True)
    with server_process(folder, (HERE / "model.py").read_text("utf-8"), db=db) as running:
        yield TraceServer(running.url, made.stdout.strip())


def summarize_message(message: dict[str, Any]) -> Any:
    """A message as its role and its text; a call and a result as what they are of."""
    told: list[Any] = []
    for part in message["parts"]:
        match part:
            case {"type": "text", "text": text}:
                told.append(text)
            case {"type": "tool-call", "call_id": call_id, "name": name, "arguments": arguments}:
                told.append({"calls": name, "as": call_id, "with": msgspec.json.decode(arguments)})
            case {"type": "tool-result", "call_id": call_id, "output": output}:
                told.append({"answers": call_id, "with": output})
            case _:
                told.append(part)
    return (message["role"], *told)
