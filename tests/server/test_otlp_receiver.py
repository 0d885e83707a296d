"""POST /v1/traces: both encodings, refusals, and that 200 means durable."""

import asyncio
import base64
import gzip
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from palaver.errors import DiskFull, Overloaded
from tests.server.keyed_server import keyed_server
from tests.server.traced_server import NOW, chat_span, send_spans, span, span_id, trace_id, traced_server
from tests.traces.otlp.otlp_requests import JSON, PROTOBUF, request

SPAN: dict[str, Any] = {
    "traceId": "0AF7651916CD43DD8448EB211C80319C",
    "spanId": "b7ad6b7169203331",
    "name": "chat",
    "startTimeUnixNano": str(NOW),
    "endTimeUnixNano": NOW + 5_000_000,
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
}


def encode_json(*spans: Any) -> bytes:
    return msgspec.json.encode({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


async def post(http: httpx.AsyncClient, body: bytes, kind: str = JSON, **headers: str) -> httpx.Response:
    extra_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post("/v1/traces", content=body, headers={"content-type": kind} | extra_headers)


def response_parts(answer: httpx.Response) -> tuple[int, str, bytes]:
    return answer.status_code, answer.headers["content-type"], answer.content


async def test_spans_are_listed_as_soon_as_the_answer_is_200() -> None:
    async with traced_server() as backend:
        answer = await send_spans(backend.http, chat_span("a", "Hi", "Hello."))
        listed = (await backend.http.get("/api/traces")).json()["data"]

        assert response_parts(answer) == (200, PROTOBUF, b"")
        assert [(row["name"], row["kind"], row["in"]["text"], row["out"]["text"]) for row in listed] == [
            ("a", "llm", "Hi", "Hello.")
        ]


async def test_the_json_encoding_is_accepted_and_answered_in_json() -> None:
    async with traced_server() as backend:
        answer = await post(backend.http, encode_json(SPAN), "application/json; charset=utf-8")
        found = await backend.http.get(f"/api/spans/{SPAN['traceId']}/{SPAN['spanId']}")

        assert response_parts(answer) == (200, JSON, b"{}")
        assert (found.json()["kind"], found.json()["duration_ms"]) == ("llm", 5.0)


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
async def test_a_gzip_body_is_decompressed(kind: str) -> None:
    async with traced_server() as backend:
        body = request(span("a")) if kind == PROTOBUF else encode_json(SPAN)
        answer = await post(backend.http, gzip.compress(body), kind, content_encoding="gzip")

        assert answer.status_code == 200
        assert len((await backend.http.get("/api/traces")).json()["data"]) == 1


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
async def test_an_invalid_span_is_reported_and_the_others_are_stored(kind: str) -> None:
    async with traced_server() as backend:
        bad = span("bad")
        bad.span_id = b"abcd"
        body = (
            request(span("a"), bad, span("b")) if kind == PROTOBUF else encode_json(SPAN, SPAN | {"spanId": "61626364"})
        )
        answer = await post(backend.http, body, kind)
        stored = (await backend.http.post("/api/spans/query", json={})).json()["data"]

    reason = "spans[1]: span id has 4 bytes, not 8"
    if kind == JSON:
        assert answer.json() == {"partialSuccess": {"rejectedSpans": "1", "errorMessage": reason}}
        assert len(stored) == 1
    else:
        assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse(
            partial_success=ExportTracePartialSuccess(rejected_spans=1, error_message=reason)
        )
        assert [row["name"] for row in stored] == ["b", "a"]


async def test_a_request_with_only_invalid_spans_is_200_with_a_partial_success() -> None:
    async with traced_server() as backend:
        answer = await post(backend.http, encode_json(SPAN | {"traceId": "00"}))

        assert answer.status_code == 200
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "status"),
    [
        (b"\xff\xff", PROTOBUF, "identity", 400),
        (b"{", JSON, "identity", 400),
        (b"no gzip", JSON, "gzip", 400),
        (gzip.compress(b"{}")[:-4], JSON, "gzip", 400),
        (b"{}", JSON, "br", 415),
        (b"x" * 2_001, PROTOBUF, "identity", 413),
        (gzip.compress(b"\0" * 3_000_000), PROTOBUF, "gzip", 413),
    ],
)
async def test_an_unreadable_body_is_rejected_in_the_senders_encoding(
    body: bytes, kind: str, encoding: str, status: int
) -> None:
    async with traced_server(otlp_max_body=4_000 if encoding == "gzip" else 2_000, otlp_max_unpacked=1_000) as backend:
        answer = await post(backend.http, body, kind, content_encoding=encoding)

        assert (answer.status_code, answer.headers["content-type"]) == (status, kind)
        if kind == JSON:
            assert answer.json()["code"] == 3
            assert answer.json()["message"]
        else:
            assert answer.content.startswith(b"\x08\x03\x12")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_other_media_types_are_rejected_with_415(kind: str) -> None:
    async with traced_server() as backend:
        answer = await post(backend.http, b"{}", kind)

        assert (answer.status_code, answer.headers["content-type"], answer.json()["code"]) == (415, JSON, 3)


@pytest.mark.parametrize("path", ["/v1/metrics", "/echo/v1/traces", "/v1/traces/x"])
async def test_metrics_and_other_trace_paths_are_not_found(path: str) -> None:
    async with traced_server() as backend:
        assert (await backend.http.post(path, content=b"{}", headers={"content-type": JSON})).status_code == 404


PATHS = ["/v1/traces", "/api/public/otel/v1/traces", "/api/otlp/v1/traces"]


@pytest.mark.parametrize("path", [*PATHS, *(f"/{path}" for path in PATHS)])
async def test_spans_are_accepted_on_the_paths_of_other_servers_and_after_a_second_slash(path: str) -> None:
    async with keyed_server() as backend:
        _, reader = await backend.create_key("read")
        _, sender = await backend.create_key("invoke", project="mine")
        headers = {"content-type": JSON}
        url = f"http://localhost{path}"  # A client would take //v1 for a host.
        anonymous, forbidden, accepted = [
            await backend.http.post(url, content=encode_json(SPAN), headers=headers | key)
            for key in ({}, reader, sender)
        ]
        rows = (await backend.http.get("/api/traces", headers=(await backend.create_key(project="mine"))[1])).json()

    assert [answer.status_code for answer in (anonymous, forbidden, accepted)] == [401, 403, 200]
    assert [row["name"] for row in rows["data"]] == ["chat"]


@pytest.mark.parametrize("path", ["//v1/chat/completions", "///v1/traces", "/v1//traces", "//%761/traces"])
async def test_other_paths_with_two_slashes_are_rejected(path: str) -> None:
    async with traced_server() as backend:
        answer = await backend.http.post(f"http://localhost{path}", content=b"{}", headers={"content-type": JSON})

    assert answer.status_code == 400


@pytest.mark.parametrize("halves", ["{key}:sk-lf-1", "pk-lf-1:{key}", "{key}:{key}"])
async def test_either_half_of_basic_authentication_may_be_the_key(halves: str) -> None:
    async with keyed_server() as backend:
        _, header = await backend.create_key("invoke")
        key = header["authorization"].removeprefix("Bearer ")
        basic = {"authorization": "Basic " + base64.b64encode(halves.format(key=key).encode()).decode()}
        body, url = encode_json(SPAN), "/api/public/otel/v1/traces"
        spans = await backend.http.post(url, content=body, headers={"content-type": JSON} | basic)
        call = await backend.http.post("/echo/invoke", json={"messages": []}, headers=basic)

    assert (spans.status_code, call.status_code) == (200, 401)


@pytest.mark.parametrize("credential", ["Basic", "Basic ???", "Basic cGstbGY6c2stbGY=", "Basic /w==", "Basic Og=="])
async def test_basic_authentication_without_a_key_is_401(credential: str) -> None:
    async with keyed_server() as backend:
        await backend.create_key("invoke")
        answer = await post(backend.http, b"{}", authorization=credential)

    assert answer.status_code == 401


async def test_basic_authentication_with_two_keys_is_rejected() -> None:
    async with keyed_server() as backend:
        keys = [(await backend.create_key())[1]["authorization"].removeprefix("Bearer ") for _ in range(2)]
        basic = base64.b64encode(":".join(keys).encode()).decode()
        answer = await post(backend.http, b"{}", authorization=f"Basic {basic}")

    assert (answer.status_code, answer.json()["code"]) == (400, 3)


async def test_a_get_is_405_with_an_allow_header() -> None:
    async with traced_server() as backend:
        answer = await backend.http.get("/v1/traces")

        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json() == {"code": 12, "message": "GET is not allowed on /v1/traces. Use POST."}


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
async def test_a_sender_needs_a_key_with_the_scope_invoke(kind: str) -> None:
    async with keyed_server() as backend:
        _, reader = await backend.create_key("read")
        _, sender = await backend.create_key("invoke")
        body = request() if kind == PROTOBUF else b"{}"
        anonymous, forbidden, accepted = [
            await post(backend.http, body, kind, **header) for header in ({}, reader, sender)
        ]

    assert [answer.status_code for answer in (anonymous, forbidden, accepted)] == [401, 403, 200]
    assert {answer.headers["content-type"] for answer in (anonymous, forbidden, accepted)} == {kind}
    assert anonymous.headers["www-authenticate"] == "Bearer"
    codes = [16, 7]
    if kind == JSON:
        assert [answer.json()["code"] for answer in (anonymous, forbidden)] == codes
    else:
        assert [answer.content[1] for answer in (anonymous, forbidden)] == codes


async def test_a_rate_limited_sender_gets_a_retry_after_header() -> None:
    async with keyed_server(rate_per_minute=1) as backend:
        _, header = await backend.create_key()
        first, second = [await post(backend.http, b"{}", **header) for _ in range(2)]

        assert (first.status_code, second.status_code, second.json()["code"]) == (200, 429, 8)
        assert int(second.headers["retry-after"]) > 0


async def test_the_project_comes_from_the_key_and_not_from_span_attributes() -> None:
    async with keyed_server() as backend:
        _, mine = await backend.create_key(project="mine")
        _, theirs = await backend.create_key(project="theirs")
        sent = span("a", palaver__project="theirs", palaver__run__id="run_1", palaver__key="abcd1234")
        await send_spans(backend.http, sent, header=mine | {"x-palaver-project": "theirs"})
        record = (await backend.http.get(f"/api/spans/{trace_id('t')}/{span_id('a')}", headers=mine)).json()

        assert (record["project"], record["run_id"]) == ("mine", None)
        assert (await backend.http.get("/api/traces", headers=theirs)).json()["data"] == []


async def test_a_secret_is_not_stored() -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    async with traced_server(
        chat_span("a", f"my key is {secret}", "Hello.", http__request__header__authorization="Bearer x")
    ) as backend:
        record = await backend.http.get(f"/api/spans/{trace_id('t')}/{span_id('a')}")
        found = await backend.http.post("/api/spans/query", json={"search": secret})

        assert secret not in record.text
        assert "Bearer x" not in record.text
        assert found.json()["data"] == []


@pytest.mark.parametrize("error", [Overloaded("Away."), DiskFull("Full.")])
async def test_a_temporary_storage_error_is_503_with_retry_after(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with traced_server() as backend:

        async def failing(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(backend.server.runtime.telemetry.writer, "_add_rows", failing)
        answer = await post(backend.http, encode_json(SPAN))

        assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "1", 14)


async def test_a_writer_without_capacity_rejects_requests_with_503(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced_server() as backend:
        monkeypatch.setattr(backend.server.runtime.telemetry.writer, "_max_request_bytes", 1)
        with backend.server.runtime.telemetry.writer.reserve(1):
            behind = await post(backend.http, request(span("a")), PROTOBUF)
        await send_spans(backend.http, span("a"))

        assert (behind.status_code, behind.headers["retry-after"], behind.content[:2]) == (503, "1", b"\x08\x0e")


async def test_an_internal_storage_error_is_reported_as_rejected_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced_server() as backend:

        async def failing(*_: Any, **__: Any) -> None:
            raise ValueError("odd")

        monkeypatch.setattr(backend.server.runtime.telemetry.writer, "_add_rows", failing)
        answer = await post(backend.http, encode_json(SPAN))

        assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"


async def test_an_internal_error_is_500_in_the_senders_encoding_without_details(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with traced_server() as backend:

        def broken() -> None:
            raise ValueError("secret")

        monkeypatch.setattr(backend.server.runtime.telemetry.writer, "check_capacity", broken)
        answer = await post(backend.http, encode_json(SPAN))

        assert (answer.status_code, answer.json()["code"]) == (500, 13)
        assert "secret" not in answer.text


async def test_spans_of_many_concurrent_senders_are_all_stored(tmp_path: Path) -> None:
    async with traced_server(url=str(tmp_path / "spans.db")) as backend:
        await asyncio.gather(
            *(send_spans(backend.http, *(span(f"{n}-{i}", trace=f"t{n}") for i in range(20))) for n in range(10))
        )
        listed = (await backend.http.get("/api/traces")).json()["data"]

        assert [row["spans"] for row in listed] == [20] * 10


async def test_a_repeated_span_is_stored_once_with_its_latest_end() -> None:
    async with traced_server(span("a"), span("a", seconds=3), span("a", seconds=2)) as backend:
        await send_spans(backend.http, span("a", seconds=1))
        stored = (await backend.http.post("/api/spans/query", json={})).json()["data"]

        assert [row["duration_ms"] for row in stored] == [3_000.0]


async def test_too_many_attributes_are_dropped_and_other_spans_are_unaffected() -> None:
    names: dict[str, Any] = {f"a.{number}": 1 for number in range(5_000)} | {"__proto__": "x", ".".join("a" * 200): 1}
    async with traced_server() as backend:
        flood = span("flood", **names)
        await send_spans(backend.http, flood, span("other", 1))
        record = (await backend.http.get(f"/api/spans/{trace_id('t')}/{span_id('flood')}")).json()

        assert (len(record["attributes"]), record["dropped"]) == (2_000, {"attributes": 3_002})
        assert (await backend.http.get("/api/traces")).json()["data"][0]["spans"] == 2
