"""The trace benchmark: generated spans, the baseline insert, retries while sending, and the report."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.context import MeasurementError
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.servers import Server
from benchmarks.traces import chats, driver_baseline, ingestion, run_overhead, span_database
from benchmarks.traces.chats import SpanTimes
from benchmarks.traces.ingestion import IngestRound, SpanStore
from benchmarks.traces.otlp_sender import JSON, PROTOBUF, send_spans
from benchmarks.traces.run_overhead import RunCost
from palaver.storage.database import open_database
from palaver.storage.spans import writes as spans
from palaver.traces.ingest import TraceRequest, ingest_request
from palaver.traces.otlp import decode_request
from palaver.traces.otlp.decompression import DEFAULT_LIMITS

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TIMES = SpanTimes(NOW - timedelta(hours=1), timedelta(milliseconds=10))


# The load


def test_a_span_does_not_depend_on_the_range_it_is_generated_with() -> None:
    assert chats.make_chats(40, 3, TIMES) == chats.make_chats(0, 43, TIMES)[40:]


def test_spans_have_2_kib_and_come_20_to_a_trace_and_500_to_a_request() -> None:
    requests = list(chats.chat_requests(0, 1_200, TIMES))

    assert [len(some) for some in requests] == [500, 500, 200]
    assert 1_900 < len(chats.encode_protobuf(requests[0])) / 500 < 2_200
    assert set(Counter(chat.trace_id for some in requests for chat in some).values()) == {20}
    assert len({chat.span_id for some in requests for chat in some}) == 1_200
    assert [chat.parent_id == b"" for chat in requests[0][:21]] == [True, *[False] * 19, True]
    assert {chat.parent_id for chat in requests[0][1:20]} == {requests[0][0].span_id}


def test_protobuf_and_json_are_decoded_to_the_same_spans() -> None:
    some = chats.make_chats(0, 60, TIMES)

    decoded = [
        decode_request(body, form, NOW, DEFAULT_LIMITS)
        for body, form in ((chats.encode_protobuf(some), PROTOBUF), (chats.encode_json(some), JSON))
    ]

    assert decoded[0] == decoded[1]
    assert [span.span_id for span in decoded[0].spans] == [chat.span_id.hex() for chat in some]


def test_the_long_trace_is_one_tree() -> None:
    trace_spans = [chat for some in chats.long_trace(1_000, TIMES) for chat in some]
    children = Counter(chat.parent_id for chat in trace_spans)

    assert {chat.trace_id for chat in trace_spans} == {chats.LONG_TRACE_ID}
    assert set(children) <= {b"", *(chat.span_id for chat in trace_spans)}
    assert (children[b""], children[trace_spans[0].span_id]) == (1, chats.ROOT_CHILDREN)


# Baseline


async def _store_chats(path: Path, count: int) -> None:
    sent = TraceRequest(
        project="default",
        body=chats.encode_protobuf(chats.make_chats(0, count, TIMES)),
        media_type=PROTOBUF,
        received_at=NOW,
    )
    database = open_database(str(path))
    await database.write(spans.insert_spans, ingest_request(sent, lambda span: span).rows, today=NOW.date())
    await database.close()


@pytest.mark.parametrize("count", [40])
async def test_the_baseline_writes_the_same_rows(tmp_path: Path, count: int) -> None:
    await _store_chats(tmp_path / "ours.db", count)
    stored = driver_baseline.read_sqlite(tmp_path / "ours.db")

    await driver_baseline.create_tables(tmp_path / "bare.db", stored)
    seconds = driver_baseline.write_rows(stored, tmp_path / "bare.db")

    assert seconds > 0
    assert len(stored.rows) == count
    assert driver_baseline.read_sqlite(tmp_path / "bare.db") == stored


async def test_spans_are_copied_unchanged_to_another_database(tmp_path: Path) -> None:
    await _store_chats(tmp_path / "ours.db", 40)

    await span_database.copy_spans(tmp_path / "ours.db", str(tmp_path / "copy.db"), today=NOW.date())

    assert driver_baseline.read_sqlite(tmp_path / "copy.db") == driver_baseline.read_sqlite(tmp_path / "ours.db")


# Sending


@pytest.fixture
def statuses() -> list[int]:
    """Statuses of the next responses, last one first; 200 when none is left."""
    return []


@pytest.fixture
def server(statuses: list[int]) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(statuses.pop() if statuses else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # silent
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield Server(name="deaf", pid=0, port=listening.server_address[1], seconds=0)
        listening.shutdown()
        thread.join()


def test_the_sender_retries_after_503_and_429(server: Server, statuses: list[int]) -> None:
    statuses += [503, 429]

    sent = send_spans(server, [b"a", b"b", b"c"], connections=2)

    assert (len(sent.waits), sent.refused) == (3, 2)


def test_the_first_connection_calls_on_sent_after_each_accepted_request(server: Server, statuses: list[int]) -> None:
    statuses += [503]
    calls: list[bool] = []

    send_spans(server, [b"a", b"b", b"c"], connections=1, on_sent=lambda: calls.append(True))

    assert len(calls) == 3


def test_a_permanent_error_ends_the_measurement(server: Server, statuses: list[int]) -> None:
    statuses += [400]

    with pytest.raises(MeasurementError, match="deaf responded to spans with 400"):
        send_spans(server, [b"a"], connections=1)


# Figures


def test_ingest_ratios_compare_rates_of_the_same_round() -> None:
    rounds = [
        IngestRound(protobuf=3_000, json=2_400, bare=6_000, microseconds=300),
        IngestRound(protobuf=1_000, json=900, bare=4_000, microseconds=320),
        IngestRound(protobuf=2_000, json=1_000, bare=5_000, microseconds=310),
    ]

    measured = list(
        ingestion.ingest_figures(
            SpanStore(name="SQLite", create=Path, read_rows=lambda _: driver_baseline.StoredRows([], [])), rounds
        )
    )

    assert [(figure.name, figure.value, figure.spread, figure.goal) for figure in measured] == [
        ("spans/s into SQLite relative to bare inserts", 0.4, 0.125, at_least(0.35)),
        ("spans/s into SQLite", 2_000, 1_000, at_least(2_000)),
        ("spans/s into SQLite: JSON relative to Protobuf", 0.8, 0.2, at_least(0.6)),
    ]


def test_overhead_figures_compare_runs_with_and_without_tracing() -> None:
    measured = list(
        run_overhead.overhead_figures(
            [(RunCost(say=500, look=600, tokens=2_000, first=2), RunCost(700, 1_000, 2_300, 2.1))]
        )
    )

    assert [_summary(figure) for figure in measured] == [
        ("CPU time for tracing a run: one-word output", 200, at_most(300), "met"),
        ("CPU time for tracing a run: one tool call, two spans", 400, at_most(300), "missed"),
        ("CPU time for tracing a run: each delta", 0.5, at_most(2), "met"),
        ("time to the first delta with tracing, relative to without", 1.05, at_most(1.1), "met"),
    ]


def _summary(figure: Figure) -> tuple[object, ...]:
    return figure.name, figure.value, figure.goal, figure.verdict
