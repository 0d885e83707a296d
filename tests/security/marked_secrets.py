"""Spans with marked secrets in every field, and all ways to read what was stored of them."""

import gzip
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.traces.otlp.otlp_requests import pairs, request
from tests.traces.otlp.otlp_requests import span as sent_span

PROVIDER = "sk-proj-MARKEDprovider1234567890"
ODD = "MARKED+odd/secret==of-no-shape"
PASSWORD = "MARKEDpassword"


def secret_span_requests(key: str, cookie: str) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Yield OTLP requests with every secret in every field."""
    text = f"{key} {PROVIDER} Bearer {key} palaver={cookie} at postgresql://ann:{PASSWORD}@db.example/x"
    attributes: dict[str, Any] = {
        "http.request.header.authorization": f"Bearer {ODD}",
        "http.request.header.cookie": f"palaver={cookie}; other={ODD}",
        "openai.api_key": ODD,
        "db.password": PASSWORD,
        "said": text,
        text: "as a name",
        "listed": [text, {"api_key": ODD, "deep": {"password": [ODD]}}],
        "input.value": f'{{"text": "{text}", "headers": {{"Authorization": "{ODD}"}}}}',
        "output.value": text,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": text,
        "gen_ai.input.messages": f'[{{"role": "user", "parts": [{{"type": "text", "content": "{text}"}}]}}]',
        "gen_ai.tool.definitions": f'[{{"name": "a", "description": "{text}"}}]',
        "session.id": text,
        "user.id": text,
    }
    exception_event = Span.Event(
        name=text, attributes=pairs({"exception.type": "E", "exception.message": text, text: text})
    )
    link = Span.Link(trace_id=b"1" * 16, span_id=b"2" * 8, attributes=pairs({"of": text, "api_key": ODD}))
    marked_span = sent_span(
        attributes,
        name=text,
        events=[exception_event],
        links=[link],
        status=Status(code=Status.STATUS_CODE_ERROR, message=text),
        trace_state=f"key={PROVIDER}",
    )
    body = request(marked_span, resource={"service.name": text, "api_key": ODD, "host": text}, scope=text)
    protobuf = {"content-type": "application/x-protobuf"}
    yield body, protobuf
    yield gzip.compress(body), {**protobuf, "content-encoding": "gzip"}
    yield body[:-10], protobuf
    yield text.encode(), protobuf
    yield f'{{"resourceSpans": "{text}"}}'.encode(), {"content-type": "application/json"}


def read_all_traces(send: Callable[..., httpx.Response]) -> int:
    """Read all stored traces through every route; return the number of spans."""
    rows: list[dict[str, Any]] = []
    for _ in range(100):  # Spans of runs are written in the background.
        rows = send("POST", "/api/spans/query", json={"limit": 200}).json()["data"]
        if len(rows) > 30:
            break
        time.sleep(0.1)
    for row in rows:
        send("GET", f"/api/spans/{row['trace_id']}/{row['span_id']}")
    for trace in {row["trace_id"] for row in rows}:
        for part in ("", "/tree", "/skeleton", "/export"):
            send("GET", f"/api/traces/{trace}{part}")
        send("POST", f"/api/traces/{trace}/thread", json={})
    for path in ("/api/traces", "/api/sessions", "/api/traces/stats?by=hour&group=model"):
        send("GET", path)
    for export_format in ("jsonl", "otlp"):
        send("GET", f"/api/traces/export?format={export_format}")
    return len(rows)
