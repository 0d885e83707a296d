"""Export of Palaver's own spans over OTLP: to a failing receiver, and to a real Palaver server."""

import asyncio
import gzip
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from palaver.errors import SettingsError
from palaver.server.otlp_exporter import (
    ExportTiming,
    OtlpEndpoint,
    OtlpExporter,
    combine_sinks,
    configured_endpoint,
    parse_headers,
)
from palaver.server.settings import Settings
from palaver.traces.model import Span
from tests.server.keyed_server import keyed_server
from tests.server.traced_server import chat_span, send_spans
from tests.server_process import WORKFLOWS, free_port, server_process

FAST_TIMING = ExportTiming(batch_delay_s=0.0, first_retry_s=0.01, max_retry_s=0.02, give_up_s=20, close_timeout_s=10)
Answer = tuple[int, dict[str, str], bytes]
ACCEPTED: Answer = (200, {}, b"")


class Receiver:
    """Receives OTLP over HTTP and sends the scripted answers, then 200 to every further request."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            headers = {"": line.decode()}
            while (line := await reader.readline()).strip():
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = await reader.readexactly(int(headers["content-length"]))
            status, more, answer = self.answers.pop(0) if self.answers else ACCEPTED
            self.requests.append((headers, gzip.decompress(body)))
            head = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(answer)}\r\n{head}\r\n".encode() + answer)
            await writer.drain()
        writer.close()

    @property
    def names(self) -> list[str]:
        """Names of all received spans, including those of rejected requests."""
        return [
            span.name
            for headers, body in self.requests
            for group in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]


@asynccontextmanager
async def running_receiver(*answers: Answer) -> AsyncIterator[Receiver]:
    receiver = Receiver(*answers)
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces"
    try:
        yield receiver
    finally:
        server.close()


async def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- no event to wait for
            await asyncio.sleep(0.01)


def span(name: str = "a", **fields: Any) -> Span:
    defaults = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": name, "start": datetime(2026, 11, 15, tzinfo=UTC)}
    return Span(**(defaults | fields))


def no_redaction(original: Span) -> Span:
    return original


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_temporary_errors_are_retried_until_the_spans_are_accepted(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palaver.traces")
    async with running_receiver((status, {"retry-after": "0"}, b"no"), (status, {}, b"")) as receiver:
        sender = OtlpExporter(OtlpEndpoint(url=receiver.url), redact=no_redaction, timing=FAST_TIMING)
        sender.put([span("a"), span("b")])
        await wait_until(lambda: sender.sent == 2)
        await sender.close()

    assert (receiver.names, sender.dropped) == (["a", "b"] * 3, 0)
    assert [record.message for record in caplog.records if record.name == "palaver.traces"] == [
        f"Failed to export spans to the OTLP endpoint: it returned HTTP {status}.",
        "The OTLP endpoint accepts spans again.",
    ]


@pytest.mark.parametrize("seconds", ["1", "date"])
async def test_the_exporter_waits_for_the_retry_after_delay(seconds: str) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2)
    retry_after = seconds if seconds != "date" else format_datetime(soon, usegmt=True)
    async with running_receiver((503, {"retry-after": retry_after}, b"")) as receiver:
        sender = OtlpExporter(OtlpEndpoint(url=receiver.url), redact=no_redaction, timing=FAST_TIMING)
        loop = asyncio.get_running_loop()
        started = loop.time()
        sender.put([span()])
        await wait_until(lambda: sender.sent == 1)
        took = loop.time() - started
        await sender.close()

    assert took >= 0.9


@pytest.mark.parametrize("status", [301, 400, 401, 404, 413, 500])
async def test_spans_are_dropped_and_counted_after_a_permanent_error(status: int) -> None:
    async with running_receiver((status, {"location": "http://127.0.0.1:1/"}, b"")) as receiver:
        sender = OtlpExporter(OtlpEndpoint(url=receiver.url), redact=no_redaction, timing=FAST_TIMING)
        sender.put([span("a")])
        await wait_until(lambda: sender.dropped == 1)
        sender.put([span("b")])
        await wait_until(lambda: sender.sent == 1)
        await sender.close()

    assert receiver.names == ["a", "b"]


@pytest.mark.parametrize("form", ["protobuf", "json"])
async def test_partially_rejected_spans_are_counted_as_dropped(form: Any) -> None:
    bodies: dict[str, bytes] = {
        "protobuf": ExportTraceServiceResponse(
            partial_success=ExportTracePartialSuccess(rejected_spans=1, error_message="spans[0]: bad")
        ).SerializeToString(),
        "json": b'{"partialSuccess": {"rejectedSpans": "1"}}',
    }
    answers: list[Answer] = [(200, {}, bodies[form]), (200, {}, b"\xff{"), (200, {"content-encoding": "br"}, b"x")]
    async with running_receiver(*answers) as receiver:
        sender = OtlpExporter(OtlpEndpoint(url=receiver.url, wire_format=form), redact=no_redaction, timing=FAST_TIMING)
        for number in range(1, 4):
            sender.put([span("a"), span("b")])
            await wait_until(lambda number=number: sender.sent + sender.dropped == 2 * number)
        await sender.close()

    assert (sender.sent, sender.dropped) == (5, 1)
    assert {headers["content-type"] for headers, _ in receiver.requests} == {
        {"protobuf": "application/x-protobuf", "json": "application/json"}[form]
    }


async def test_at_most_max_pending_bytes_wait_for_an_unreachable_endpoint() -> None:
    timing = ExportTiming(batch_delay_s=0.0, first_retry_s=0.01, max_retry_s=0.02, give_up_s=60, close_timeout_s=0.05)
    sender = OtlpExporter(
        OtlpEndpoint(url="http://127.0.0.1:1/v1/traces"), redact=no_redaction, timing=timing, max_pending_bytes=4_000
    )
    for _ in range(50):
        sender.put([span(attributes={"text": "x" * 500})])
    assert sender.dropped == 47  # Only three spans of about 1,000 bytes fit.

    await asyncio.sleep(0.1)
    await sender.close()
    sender.put([span()])

    assert (sender.sent, sender.dropped) == (0, 51)


async def test_spans_are_dropped_when_retries_exceed_the_time_limit() -> None:
    timing = ExportTiming(batch_delay_s=0.0, first_retry_s=0.01, max_retry_s=0.02, give_up_s=0.1, close_timeout_s=1)
    async with running_receiver(*[(503, {}, b"")] * 1000) as receiver:
        sender = OtlpExporter(OtlpEndpoint(url=receiver.url), redact=no_redaction, timing=timing)
        sender.put([span()])
        await wait_until(lambda: sender.dropped == 1)
        await sender.close()

    assert len(receiver.requests) > 1


async def test_closing_the_exporter_sends_the_pending_spans() -> None:
    async with running_receiver() as receiver:
        sender = OtlpExporter(
            OtlpEndpoint(url=receiver.url),
            redact=no_redaction,
            timing=ExportTiming(batch_delay_s=3600, close_timeout_s=20),
        )
        sender.put([span("a")])
        await asyncio.sleep(0)
        sender.put([span("b")])
        await sender.close()

    assert (receiver.names, sender.sent, sender.dropped) == (["a", "b"], 2, 0)


async def test_a_span_that_cannot_be_redacted_or_encoded_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "palaver.traces")

    def redact(original: Span) -> Span:
        if original.name == "secret":
            raise ValueError("no")
        return original

    async with running_receiver() as receiver:
        sender = OtlpExporter(OtlpEndpoint(url=receiver.url), redact=redact, timing=FAST_TIMING)
        sender.put([span("secret"), span("a")])
        await wait_until(lambda: sender.sent == 1)
        sender.put([span("odd", trace_id="no hex")])
        await wait_until(lambda: sender.dropped == 2)
        sender.put([span("b")])
        await wait_until(lambda: sender.sent == 2)
        await sender.close()

    assert receiver.names == ["a", "b"]


async def test_spans_are_sent_in_requests_of_at_most_a_hundred() -> None:
    async with running_receiver() as receiver:
        sender = OtlpExporter(
            OtlpEndpoint(url=receiver.url),
            redact=no_redaction,
            timing=ExportTiming(batch_delay_s=0.2, close_timeout_s=20),
        )
        sender.put([span(str(number)) for number in range(250)])
        await wait_until(lambda: sender.sent == 250)
        await sender.close()

    assert len(receiver.requests) == 3
    assert receiver.names == [str(number) for number in range(250)]


def test_an_exporter_without_an_endpoint_does_nothing() -> None:
    stored: list[Any] = []
    sender = OtlpExporter(configured_endpoint(Settings()), redact=no_redaction)

    assert combine_sinks(stored.append, sender) == stored.append
    sender.put([span()])
    assert (sender.sent, sender.dropped) == (0, 0)


# Settings


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://c.example/otlp/v1/traces?x=1", "https://c.example/otlp/v1/traces?x=1"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_path_v1_traces(endpoint: str, url: str) -> None:
    configured = configured_endpoint(
        Settings(otlp_endpoint=endpoint, otlp_headers="Authorization=Bearer%20x, b = c ", otlp_protocol="http/json")
    )

    assert configured == OtlpEndpoint(url=url, headers={"authorization": "Bearer x", "b": "c"}, wire_format="json")


@pytest.mark.parametrize(
    "endpoint", ["collector:4318", "grpc://collector:4317", "http://user:pass@collector", "http://"]
)
def test_an_invalid_endpoint_is_a_settings_error_without_its_password(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="Invalid otlp_endpoint") as raised:
        configured_endpoint(Settings(otlp_endpoint=endpoint))
    assert "pass" not in raised.value.message


@pytest.mark.parametrize("headers", ["secret", "a=secret%0D%0Ab", "b c=secret"])
def test_the_error_for_invalid_headers_does_not_contain_them(headers: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_headers(headers)
    assert "secret" not in raised.value.message


async def test_the_settings_route_masks_the_otlp_headers() -> None:
    async with keyed_server(otlp_endpoint="http://127.0.0.1:1", otlp_headers="authorization=hush") as backend:
        response = await backend.http.get("/api/settings")

    assert "hush" not in response.text
    assert {"name": "otlp_headers", "value": "***", "source": "default"} in response.json()["data"]


# A server


async def records(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    lines = (await http.get("/api/traces/export")).text.splitlines()
    return sorted((msgspec.json.decode(line) for line in lines), key=lambda record: record["span_id"])


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
async def test_a_receiving_server_stores_equal_records_of_our_runs(protocol: Any, tmp_path: Path) -> None:
    secret = "sk-proj-" + "a1B2" * 8
    with server_process(tmp_path, db=str(tmp_path / "other.db")) as other:
        async with (
            keyed_server(otlp_endpoint=other.url, otlp_protocol=protocol) as backend,
            httpx.AsyncClient(base_url=other.url, trust_env=False) as there,
        ):
            body = {"messages": [{"role": "user", "content": f"Hi, my key is {secret}"}]}
            assert (await backend.http.post("/echo/invoke", json=body)).status_code == 200
            failed = {"messages": [{"role": "user", "content": "fail: no"}]}
            (await backend.http.post("/scripted/invoke", json=failed)).raise_for_status()
            await send_spans(backend.http, chat_span("foreign", "Hi", "Ho"))
            await backend.server.runtime.telemetry.flush()
            await wait_until(lambda: backend.server.runtime.telemetry.exporter.sent >= 2)
            metrics = (await backend.http.get("/metrics")).text
            ours, theirs = await records(backend.http), await records(there)

    # Received spans are not forwarded; the other server ignores run ids; protobuf has no field for some values.
    ours = [record | {"run_id": None} for record in ours if record["name"] != "foreign"]
    lost = {"redactions", "notes"} if protocol == "http/protobuf" else set[str]()
    assert [without_fields(record, lost) for record in theirs] == [without_fields(record, lost) for record in ours]
    assert len(ours) >= 2
    assert secret not in str(theirs)
    assert re.search(r"^palaver_spans_sent_total [2-9]", metrics, re.MULTILINE), metrics
    assert "palaver_spans_unsent_total 0.0" in metrics


def without_fields(record: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def sent_span_count(http: httpx.Client) -> int:
    match = re.search(r"^palaver_spans_sent_total (\d+)", http.get("/metrics").text, re.MULTILINE)
    return int(match[1]) if match else 0


def test_a_server_that_exports_to_itself_stores_each_span_once(tmp_path: Path) -> None:
    port = str(free_port())
    settings = {"otlp_endpoint": f"http://127.0.0.1:{port}", "db": str(tmp_path / "one.db")}
    with (
        server_process(tmp_path, WORKFLOWS, "--port", port, **settings) as one,
        httpx.Client(base_url=one.url, trust_env=False, timeout=30) as http,
    ):
        http.post("/echo/invoke", json={"messages": [{"role": "user", "content": "Hi"}]}).raise_for_status()
        deadline = time.monotonic() + 30
        while not sent_span_count(http) and time.monotonic() < deadline:
            time.sleep(0.05)
        first = sent_span_count(http)
        time.sleep(1.5)  # Longer than the batch delay: no further span may follow.
        lines = http.get("/api/traces/export").text.splitlines()

        assert first == sent_span_count(http) == len(lines) == 1
