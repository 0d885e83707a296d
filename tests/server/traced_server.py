"""A server with spans in it: sent over OTLP, as an exporter does."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.server.keyed_server import KeyedServer, keyed_server
from tests.traces.otlp.otlp_requests import PROTOBUF, pairs, request

NOW = time.time_ns() - 60_000_000_000
SECOND = 1_000_000_000


def trace_id(name: str) -> str:
    return name.encode().hex().zfill(32)


def span_id(name: str) -> str:
    return name.encode().hex().zfill(16)


def span(
    name: str, at: float = 0, *, trace: str = "t", parent: str | None = None, seconds: float = 1, **attributes: Any
) -> Span:
    """A span that starts `at` seconds after a minute ago; `__` in attribute names becomes a dot."""
    start = NOW + int(at * SECOND)
    return Span(
        trace_id=bytes.fromhex(trace_id(trace)),
        span_id=bytes.fromhex(span_id(name)),
        parent_span_id=b"" if parent is None else bytes.fromhex(span_id(parent)),
        name=name,
        start_time_unix_nano=start,
        end_time_unix_nano=start + int(seconds * SECOND),
        attributes=pairs({key.replace("__", "."): value for key, value in attributes.items()}),
    )


def chat_span(name: str, question: str, answer_text: str, at: float = 0, **overrides: Any) -> Span:
    """A call of a model."""
    attributes = {
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "gpt-4o",
        "gen_ai__input__messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{question}"}}]}}]',
        "gen_ai__output__messages": f'[{{"role":"assistant","parts":[{{"type":"text","content":"{answer_text}"}}]}}]',
        "gen_ai__usage__input_tokens": 3,
        "gen_ai__usage__output_tokens": 2,
    }
    return span(name, at, **(attributes | overrides))


async def send_spans(http: httpx.AsyncClient, *spans: Span, header: dict[str, str] | None = None) -> httpx.Response:
    """Send spans as protobuf, and assert that the server accepted all of them."""
    headers = {"content-type": PROTOBUF} | (header or {})
    answer = await http.post("/v1/traces", content=request(*spans), headers=headers)
    assert (answer.status_code, answer.content) == (200, b"")  # A partial success is a 200 with a body.
    return answer


@asynccontextmanager
async def traced_server(*spans: Span, **settings: Any) -> AsyncIterator[KeyedServer]:
    """A server without keys that has received these spans."""
    async with keyed_server(**settings) as backend:
        if spans:
            await send_spans(backend.http, *spans)
        yield backend
