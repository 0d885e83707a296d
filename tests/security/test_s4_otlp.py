"""S4.5: hostile spans sent to a real server are answered correctly and cheaply, and no other span is lost."""

import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.server.traced_server import span, span_id, trace_id
from tests.server_process import ServerProcess, server_process
from tests.traces.otlp.otlp_requests import JSON, PROTOBUF, field, pairs, request

MIB = 1024 * 1024


class HarmfulRequest(NamedTuple):
    """A body and the expected status."""

    body: bytes
    status: int
    headers: Mapping[str, str] = MappingProxyType({})


def hostile_request(**attributes: Any) -> bytes:
    """A hostile span and a harmless one."""
    return request(span("bad", **attributes), span("good", 1))


def nested_lists(levels: int) -> bytes:
    """Nested lists, encoded by hand: libraries refuse to."""
    deep = field(1, b"x")
    for _ in range(levels):
        deep = field(5, field(1, deep))
    attribute = field(9, field(1, b"deep") + field(2, deep))
    spans = field(2, span("bad").SerializeToString() + attribute) + field(2, span("good", 1).SerializeToString())
    return field(1, field(2, spans))


def compressed_zeros(gigabytes: int) -> bytes:
    """Return that many gigabytes of zeros, compressed."""
    return gzip.compress(bytes(64 * MIB)) * (gigabytes * 16)


def span_with_many_attributes() -> bytes:
    hostile_span = span("bad")
    hostile_span.attributes.extend(pairs({f"a.{number}": number for number in range(100_000)}))
    return request(hostile_span, span("good", 1))


def cyclic_parents() -> bytes:
    """Two spans that are each other's parent, and one that is its own."""
    return request(span("a", parent="b"), span("b", 1, parent="a"), span("self", 2, parent="self"), span("good", 3))


GZIP = {"content-encoding": "gzip"}
HARMFUL_REQUESTS: dict[str, Callable[[], HarmfulRequest]] = {
    "a hundred thousand attributes": lambda: HarmfulRequest(span_with_many_attributes(), 200),
    "a name of a thousand names": lambda: HarmfulRequest(
        hostile_request(**{"a__" * 1000 + "a": "x", "a__" * 120 + "a": "x"}), 200
    ),
    "names that mean something elsewhere": lambda: HarmfulRequest(
        hostile_request(
            **{"__proto__": '{"a": 1}', "constructor": "x", "__class__": "x", "gen_ai.prompt.999999999.role": "x"}
        ),
        200,
    ),
    "a value of ten megabytes": lambda: HarmfulRequest(hostile_request(large="x" * 10 * MIB), 200),
    "ten values of a megabyte each": lambda: HarmfulRequest(
        hostile_request(**{f"v{number}": "x" * MIB for number in range(10)}), 200
    ),
    "values in values without end": lambda: HarmfulRequest(nested_lists(90), 200),
    "values in values beyond what protobuf takes": lambda: HarmfulRequest(nested_lists(3_000), 200),
    "a number where a message should be": lambda: HarmfulRequest(
        field(1, b"\x08\x96\x01") + request(span("good", 1)), 200
    ),
    "another wire type": lambda: HarmfulRequest(b"\x08\x96\x01" + request(span("good", 1)), 200),
    "a length beyond the end": lambda: HarmfulRequest(b"\x0a\xff\xff\xff\xff\x0f" + b"x" * 100, 400),
    "half a request": lambda: HarmfulRequest(request(span("good", 1))[:-20], 400),
    "no protobuf at all": lambda: HarmfulRequest(b"GET / HTTP/1.1\r\n\r\n" * 1000, 400),
    "ten gigabytes of nothing, packed": lambda: HarmfulRequest(compressed_zeros(10), 413, GZIP),
    "what is no gzip": lambda: HarmfulRequest(b"\x1f\x8b" + b"x" * 1000, 400, GZIP),
    "half a gzip": lambda: HarmfulRequest(gzip.compress(os.urandom(MIB))[: MIB // 2], 400, GZIP),
    "more than is taken": lambda: HarmfulRequest(bytes(17 * MIB), 413),
    "parents in a circle": lambda: HarmfulRequest(cyclic_parents(), 200),
    "the same span a thousand times": lambda: HarmfulRequest(request(*[span("bad")] * 1000, span("good", 1)), 200),
    "ids that are none": lambda: HarmfulRequest(
        request(Span(name="bad"), Span(trace_id=b"x", span_id=b"y"), span("good", 1)), 200
    ),
    "JSON that goes down": lambda: HarmfulRequest(b'{"resourceSpans":' + b"[" * 100_000, 400, {"content-type": JSON}),
    "JSON of many names": lambda: HarmfulRequest(
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 1, "spanId": [], "name": {}}]}]}]}',
        200,
        {"content-type": JSON},
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("otlp")
    with server_process(folder, db=str(folder / "palaver.db"), rate_per_minute="0") as started:
        yield started


def cpu_seconds_of(server: ServerProcess) -> float:
    """Return the CPU seconds of the server process."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_bytes(server: ServerProcess) -> int:
    """Return the peak memory in bytes."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("name", HARMFUL_REQUESTS)
def test_hostile_request_is_answered_cheaply_and_other_spans_are_stored(
    server: ServerProcess, name: str
) -> None:  # S4.5
    case = HARMFUL_REQUESTS[name]()
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        http.post("/v1/traces", content=request(span("warm")), headers={"content-type": PROTOBUF}).raise_for_status()
        before = cpu_seconds_of(server)
        answer = http.post("/v1/traces", content=case.body, headers={"content-type": PROTOBUF, **case.headers})
        cpu_seconds = cpu_seconds_of(server) - before
        good = http.get(f"/api/spans/{trace_id('t')}/{span_id('good')}")
        response = http.get("/api/traces")
        tree = http.get(f"/api/traces/{trace_id('t')}/tree")

    assert answer.status_code == case.status, answer.content[:300]
    assert cpu_seconds < 10  # A watchdog: usually tenths of a second; without limits, minutes.
    assert peak_memory_bytes(server) < 700 * MIB  # Since the server started; bodies have up to 17 MiB.
    assert response.status_code == 200
    if case.status == 200 and b"good" in case.body:
        assert (good.status_code, good.json()["name"]) == (200, "good")
        assert tree.status_code == 200


def test_spans_with_cyclic_parents_are_each_listed_once(server: ServerProcess) -> None:  # S4.5
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        http.post("/v1/traces", content=cyclic_parents(), headers={"content-type": PROTOBUF}).raise_for_status()
        rows: list[str] = []
        after: str | None = None
        while True:
            query = {} if after is None else {"after": after}
            page = http.get(f"/api/traces/{trace_id('t')}/skeleton", params=query).json()
            rows += [row["span_id"] for row in page["data"]]
            if (after := page["next"]) is None:
                break

    assert {span_id(name) for name in ("a", "b", "self", "good")} <= set(rows)
    assert len(rows) == len(set(rows))
