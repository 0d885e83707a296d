"""Record what other emitters send, for test_recordings.py: `python -m tests.conformance.telemetry.record [NAME…]`.

Each emitter needs an environment of its own, some of them a gigabyte, so they run here and not in the tests. They talk
to the model of model.py, over OpenAI's protocol, or to the same answers over Gemini's, and export to a server that
keeps the requests. The requests are stored as OTLP/JSON, without what tells of the machine.
"""

import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.server_process import server_process

HERE = Path(__file__).parent
PROGRAMS = HERE / "recorded"
EXPORTER = "opentelemetry-exporter-otlp-proto-http"
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "adk_agent": ("google-adk==2.13.0", EXPORTER),
    "agenta_sdk": ("agenta==0.125.1",),
    "crewai_crew": ("crewai==1.15.30", "openinference-instrumentation-crewai==1.1.21", EXPORTER),
    "langfuse_sdk": ("langfuse==5.0.4", "openai==3.51.0"),
    "logfire_openai": ("logfire==5.2.0", "openai==3.51.0"),
    "openai_v2": ("opentelemetry-instrumentation-openai-v2==2.3b0", "openai==3.51.0", "httpx", "wrapt<2", EXPORTER),
    "smolagents_agent": ("smolagents[openai]==1.26.0", "openinference-instrumentation-smolagents==0.1.43", EXPORTER),
    "strands_agent": ("strands-agents[openai,otel]==1.62.0",),
    "strands_agent_latest": ("strands-agents[openai,otel]==1.62.0",),
}
PROGRAM_NAMES = {"strands_agent_latest": "strands_agent"}
"""The programs of recordings with another name."""
VARIABLES: dict[str, dict[str, str]] = {
    "adk_agent": {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
    "openai_v2": {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
    "strands_agent_latest": {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"},
}
_KEPT_RESOURCE = ("service.name", "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version")
_ID_FIELDS = ("traceId", "spanId", "parentSpanId")


class _Server(ThreadingHTTPServer):
    """Keeps the requests of exporters, and answers as Gemini does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"status": "ok"})

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size)
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if "generateContent" in self.path:
            self._answer(_gemini_answer(json.loads(body)))
            return
        is_logs = self.path.endswith("/logs")
        if is_logs or self.path.endswith("/traces"):
            scheme = (self.headers.get("authorization") or "").partition(" ")[0]
            document = _decode(body, self.headers.get("content-type") or "", is_logs=is_logs)
            cast("_Server", self.server).requests.append({"path": self.path, "scheme": scheme, "body": document})
        self._answer({})

    def _answer(self, document: Any) -> None:
        body = json.dumps(document).encode()
        is_json = document or "json" in (self.headers.get("content-type") or "json")
        self.send_response(200)
        self.send_header("content-type", "application/json" if is_json else "application/x-protobuf")
        self.send_header("content-length", str(len(body) if is_json else 0))
        self.end_headers()
        if is_json:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _gemini_answer(request: Any) -> Any:
    """Answer as model.py does."""
    contents = request["contents"]
    questions = [
        part["text"] for content in contents if content["role"] == "user" for part in content["parts"] if "text" in part
    ]
    city = questions[-1].rstrip("?").split()[-1]
    responses = [part["functionResponse"] for part in contents[-1]["parts"] if "functionResponse" in part]
    if responses:
        part: Any = {"text": f"It is {responses[-1]['response']['result']} in {city}."}
        usage = {"promptTokenCount": 30, "candidatesTokenCount": 9, "totalTokenCount": 39}
    else:
        part = {"functionCall": {"id": f"call_{city.lower()}", "name": "weather", "args": {"city": city}}}
        usage = {"promptTokenCount": 20, "candidatesTokenCount": 7, "totalTokenCount": 27}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}


def _decode(body: bytes, media_type: str, *, is_logs: bool) -> Any:
    """Return a request as OTLP/JSON: ids are hexadecimal there, and base64 in the JSON form of protobuf."""
    if "json" in media_type:
        document = json.loads(body)
    else:
        kind = ExportLogsServiceRequest if is_logs else ExportTraceServiceRequest
        document = MessageToDict(kind.FromString(body), use_integers_for_enums=True)
        _convert_ids(document)
    for resource in document.get("resourceLogs" if is_logs else "resourceSpans", []):
        attributes = resource.get("resource", {}).get("attributes", [])
        attributes[:] = [item for item in attributes if item["key"] in _KEPT_RESOURCE]
    return document


def _convert_ids(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _convert_ids(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in _ID_FIELDS:
                value[name] = base64.b64decode(item).hex()
            else:
                _convert_ids(item)


@contextmanager
def _capture() -> Iterator[_Server]:
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def _variables(exporter: str, model: str) -> dict[str, str]:
    """Return the variables by which the emitters find the server that keeps their requests, and the model."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": exporter,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "shop",
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": exporter,
        "GOOGLE_API_KEY": "none",
        "LANGFUSE_BASE_URL": exporter,
        "LANGFUSE_PUBLIC_KEY": "pk-lf-1",
        "LANGFUSE_SECRET_KEY": "sk-lf-1",
        "AGENTA_HOST": exporter,
        "AGENTA_API_KEY": "none",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "NO_PROXY": "*",
    }


def record(name: str, environments: Path) -> None:
    """Run an emitter in its environment, and store its requests."""
    python = environments / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environments / name], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[name]], check=True)
    with tempfile.TemporaryDirectory() as folder, _capture() as server:
        program = Path(folder) / "shop.py"  # Some emitters record its path.
        program.write_text((PROGRAMS / f"{PROGRAM_NAMES.get(name, name)}.py").read_text("utf-8"), "utf-8")
        model = (HERE / "model.py").read_text("utf-8")
        with server_process(Path(folder), model, db=f"{folder}/palaver.db") as running:
            variables = _variables(server.url, running.url) | VARIABLES.get(name, {}) | {"HOME": folder}
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
            subprocess.run(
                [python, program.name], env={**environment, **variables}, cwd=folder, timeout=300, check=True
            )
    lines = [json.dumps(request, ensure_ascii=False, separators=(",", ":")) + "\n" for request in server.requests]
    (PROGRAMS / f"{name}.jsonl").write_text("".join(lines), "utf-8")


def main() -> None:
    environments = Path(os.environ.get("RECORDING_ENVIRONMENTS", HERE / ".environments"))
    for name in sys.argv[1:] or REQUIREMENTS:
        record(name, environments)


if __name__ == "__main__":
    main()
