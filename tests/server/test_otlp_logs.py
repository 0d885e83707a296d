"""POST /v1/logs: events of spans, which arrive before or after their span, are joined to it."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from sqlalchemy import select

from palaver.storage.database import MEMORY_URL
from palaver.storage.spans import span_logs
from palaver.storage.spans.tables import span_logs as waiting_table
from palaver.storage.spans.writes import decompress_body
from tests.server.keyed_server import KeyedServer, keyed_server
from tests.server.traced_server import NOW, SECOND, send_spans, span, span_id, trace_id
from tests.traces.otlp.otlp_requests import JSON, PROTOBUF, pairs

MODEL: dict[str, Any] = {"gen_ai__operation__name": "chat", "gen_ai__system": "openai"}


@pytest.fixture(params=["sqlite", "postgresql"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[KeyedServer]:
    url = MEMORY_URL if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    async with keyed_server(url) as running:
        yield running


def event(name: str, body: Any = None, *, at: float = 0, of: str = "call", **attributes: Any) -> LogRecord:
    """A log record `at` seconds after the start of the span."""
    return LogRecord(
        trace_id=bytes.fromhex(trace_id("t")),
        span_id=bytes.fromhex(span_id(of)),
        time_unix_nano=NOW + int(at * SECOND),
        event_name=name,
        body=None if body is None else pairs({"x": body})[0].value,
        attributes=pairs({key.replace("__", "."): value for key, value in attributes.items()}),
    )


QUESTION = event("gen_ai.user.message", {"content": "Snow?"}, at=0.1, gen_ai__system="openai")
ANSWER = event(
    "gen_ai.choice",
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A little."}},
    at=0.2,
)


def encode(*records: LogRecord) -> bytes:
    scope = ScopeLogs(log_records=records)
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[scope])]).SerializeToString()


async def send_logs(http: httpx.AsyncClient, *records: LogRecord, **headers: str) -> httpx.Response:
    return await http.post("/v1/logs", content=encode(*records), headers={"content-type": PROTOBUF} | headers)


async def conversation(backend: KeyedServer, **headers: str) -> list[tuple[str, str]]:
    answer = await backend.http.get(f"/api/traces/{trace_id('t')}/conversation", headers=headers)
    if answer.status_code == 404:
        return []
    steps = answer.json()["steps"]
    return [(step["message"]["role"], step["message"]["parts"][0]["text"]) for step in steps]


async def waiting_bodies(backend: KeyedServer) -> list[bytes]:
    bodies = await backend.database.read(lambda db: db.scalars(select(waiting_table.c.body)).all())
    return [decompress_body(body) for body in bodies]


BOTH = [("user", "Snow?"), ("assistant", "A little.")]


@pytest.mark.parametrize("order", ["logs", "spans", "between"])
async def test_events_are_joined_whichever_arrives_first(backend: KeyedServer, order: str) -> None:
    http, call = backend.http, span("call", **MODEL)
    if order == "spans":
        await send_spans(http, call)
    answers = [await send_logs(http, QUESTION)]
    if order == "between":
        await send_spans(http, call)
    answers.append(await send_logs(http, ANSWER))
    if order == "logs":
        assert (await conversation(backend), len(await waiting_bodies(backend))) == ([], 2)
        await send_spans(http, call)

    assert [(answer.status_code, answer.content) for answer in answers] == [(200, b"")] * 2
    assert await conversation(backend) == BOTH
    assert await waiting_bodies(backend) == []
    [row] = (await http.get("/api/traces")).json()["data"]
    assert (row["in"]["text"], row["out"]["text"], row["kind"]) == ("Snow?", "A little.", "llm")
    usage = (await http.get("/api/spans/" + trace_id("t") + "/" + span_id("call"))).json()
    assert ([item["name"] for item in usage["events"]], usage["finish"]) == (
        ["gen_ai.user.message", "gen_ai.choice"],
        "stop",
    )


async def test_events_and_spans_that_arrive_together_are_all_joined(backend: KeyedServer) -> None:
    names = [f"call-{number}" for number in range(20)]
    await asyncio.gather(
        *(send_spans(backend.http, span(name[-8:], **MODEL)) for name in names),
        *(send_logs(backend.http, event("gen_ai.user.message", {"content": name}, of=name[-8:])) for name in names),
    )
    rows = (await backend.http.post("/api/spans/query", json={"limit": 50})).json()["data"]

    assert sorted(row["in"]["text"] for row in rows) == sorted(names)
    assert await waiting_bodies(backend) == []


async def test_records_that_are_sent_again_are_stored_once(backend: KeyedServer) -> None:
    await send_logs(backend.http, QUESTION)
    await send_logs(backend.http, QUESTION)
    assert len(await waiting_bodies(backend)) == 1
    await send_spans(backend.http, span("call", **MODEL))
    await send_logs(backend.http, QUESTION, ANSWER)

    assert await conversation(backend) == BOTH


async def test_events_are_joined_only_in_the_project_of_their_key(backend: KeyedServer) -> None:
    _, mine = await backend.create_key(project="mine")
    _, theirs = await backend.create_key(project="theirs")
    await send_spans(backend.http, span("call", **MODEL), header=mine)
    await send_logs(backend.http, QUESTION, **theirs)
    await send_logs(backend.http, event("gen_ai.user.message", {"content": "Mine?"}), **mine)

    assert await conversation(backend, **mine) == [("user", "Mine?")]
    assert await conversation(backend, **theirs) == []
    assert len(await waiting_bodies(backend)) == 1


async def test_only_events_of_spans_are_kept(backend: KeyedServer) -> None:
    plain = LogRecord(body=AnyValue(string_value="started"), trace_id=QUESTION.trace_id, span_id=QUESTION.span_id)
    other = event("app.started", {"content": "no"})
    named = event("", {"content": "Snow?"}, event__name="gen_ai.user.message")
    answer = await send_logs(backend.http, plain, other, named)

    assert (answer.status_code, answer.content) == (200, b"")
    await send_spans(backend.http, span("call", **MODEL))
    assert await conversation(backend) == BOTH[:1]


async def test_json_with_a_text_as_body_is_read() -> None:
    record = {
        "traceId": trace_id("t").upper(),
        "spanId": span_id("call"),
        "observedTimeUnixNano": str(NOW),
        "eventName": "gen_ai.user.message",
        "body": {"stringValue": '{"content": "Snow?"}'},
    }
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {"spanId": 5}, {"body": {}}]}]}]}
    async with keyed_server() as backend:
        answer = await backend.http.post("/v1/logs", json=body)
        await send_spans(backend.http, span("call", **MODEL))

        assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "1"
        assert answer.json()["partialSuccess"]["errorMessage"].startswith("logRecords[1]: expected `str | null`")
        assert await conversation(backend) == BOTH[:1]


async def test_events_without_a_span_are_rejected() -> None:
    bare = event("gen_ai.user.message", {"content": "Snow?"})
    bare.ClearField("span_id")
    async with keyed_server() as backend:
        answer = await send_logs(backend.http, bare, QUESTION)

        response = ExportLogsServiceResponse.FromString(answer.content).partial_success
        assert (response.rejected_log_records, response.error_message) == (
            1,
            "logRecords[0]: span id has 0 bytes, not 8",
        )
        assert len(await waiting_bodies(backend)) == 1


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "status"),
    [
        (b"\xff\xff", PROTOBUF, "identity", 400),
        (b"{", JSON, "identity", 400),
        (b"no gzip", JSON, "gzip", 400),
        (b"{}", "text/plain", "identity", 415),
        (b"x" * 2_001, PROTOBUF, "identity", 413),
        (gzip.compress(b"\0" * 3_000_000), PROTOBUF, "gzip", 413),
    ],
)
async def test_the_limits_are_those_of_traces(body: bytes, kind: str, encoding: str, status: int) -> None:
    async with keyed_server(otlp_max_body=4_000 if encoding == "gzip" else 2_000, otlp_max_unpacked=1_000) as backend:
        headers = {"content-type": kind, "content-encoding": encoding}
        answer = await backend.http.post("/v1/logs", content=body, headers=headers)

        assert answer.status_code == status


async def test_a_sender_needs_a_key_with_the_scope_invoke() -> None:
    async with keyed_server(rate_per_minute=1) as backend:
        _, reader = await backend.create_key("read")
        _, sender = await backend.create_key("invoke")
        answers = [await send_logs(backend.http, QUESTION, **key) for key in ({}, reader, sender, sender)]
        get = await backend.http.get("/v1/logs", headers=(await backend.create_key())[1])

    assert [answer.status_code for answer in answers] == [401, 403, 200, 429]
    assert (get.status_code, get.headers["allow"]) == (405, "POST")


async def test_waiting_events_are_redacted_and_joined_ones_again() -> None:
    rules = [{"path": "messages_in.*.text", "action": "mask"}]
    secret = event("gen_ai.user.message", {"content": "My key is sk-proj-" + "a1B2" * 12})
    async with keyed_server(redact=rules) as backend:
        await send_logs(backend.http, secret)
        [waiting] = await waiting_bodies(backend)
        await send_spans(backend.http, span("call", **MODEL))

        assert b"a1B2a1B2" not in waiting
        assert await conversation(backend) == [("user", "‹redacted›")]


async def test_attributes_of_a_span_win_over_its_events() -> None:
    messages = '[{"role": "user", "content": "Mine."}]'
    async with keyed_server() as backend:
        await send_spans(backend.http, span("call", gen_ai__input__messages=messages, **MODEL))
        await send_logs(backend.http, QUESTION, ANSWER)

        assert await conversation(backend) == [("user", "Mine."), BOTH[1]]


async def test_a_span_keeps_session_user_and_place_in_its_trace() -> None:
    call = span("call", 1, parent="root", session__id="s-1", user__id="u-1", **MODEL)
    async with keyed_server() as backend:
        await send_spans(backend.http, span("root"), call)
        before = (await backend.http.get(f"/api/spans/{trace_id('t')}/{span_id('call')}")).json()
        await send_logs(backend.http, QUESTION)
        after = (await backend.http.get(f"/api/spans/{trace_id('t')}/{span_id('call')}")).json()
        rows = (await backend.http.get("/api/traces")).json()["data"]

    changed = {"messages_in", "events", "conventions"}
    assert {name for name in after if after[name] != before[name]} == changed
    assert [(row["name"], row["spans"]) for row in rows] == [("root", 2)]


async def test_events_whose_span_does_not_arrive_are_deleted(backend: KeyedServer) -> None:
    await send_logs(backend.http, QUESTION)
    await send_logs(backend.http, event("gen_ai.user.message", {"content": "?"}, of="other"))
    now = datetime.now(UTC)
    early = await backend.database.write(span_logs.delete_expired, now)
    beyond = await backend.database.write(span_logs.delete_beyond, 1)
    late = await backend.database.write(span_logs.delete_expired, now + span_logs.MAX_WAIT + timedelta(minutes=1))

    assert (early, beyond, late) == (0, 1, 1)
    assert await waiting_bodies(backend) == []
