"""From a request body to rows, with failures limited to single spans."""

import gzip
from typing import Any

import pytest

from palaver.errors import InvalidBody
from palaver.storage.spans.writes import decompress_body
from palaver.traces.ingest import TraceRequest, build_rows, ingest_request
from palaver.traces.model import Span
from palaver.traces.otlp import RejectedSpan
from tests.traces.otlp.otlp_requests import NOW, PROTOBUF, SPAN_ID, request, span


def trace_request(body: bytes, **more: Any) -> TraceRequest:
    return TraceRequest(project="mine", body=body, media_type=PROTOBUF, received_at=NOW, **more)


def skip_redaction(record: Span) -> Span:
    return record


def test_every_span_becomes_a_row_of_the_senders_project() -> None:
    body = request(span({"palaver.project": "theirs", "palaver.run.id": "run_1"}))

    [row] = ingest_request(trace_request(gzip.compress(body), encoding="gzip"), skip_redaction).rows

    assert (row.project, row.run_id, row.name, row.service) == ("mine", None, "chat gpt-4o", "shop")
    assert b'"palaver.run.id":"run_1"' in decompress_body(row.body)


def test_pending_spans_are_counted_but_not_turned_into_rows() -> None:
    result = ingest_request(trace_request(request(span({"logfire.span_type": "pending_span"}))), skip_redaction)

    assert (result.rows, result.rejected, result.pending) == ([], [], 1)


def test_a_span_whose_redaction_fails_is_rejected_without_losing_the_others() -> None:
    def broken(record: Span) -> Span:
        if record.name == "odd":
            raise ValueError("a mistake of ours")
        return record

    bad = span(span_id=b"abcd")
    result = ingest_request(
        trace_request(request(span(name="odd"), bad, span(name="even", span_id=b"12345678"))), broken
    )

    assert [row.name for row in result.rows] == ["even"]
    assert result.rejected == [
        RejectedSpan(1, "span id has 4 bytes, not 8"),
        RejectedSpan(0, f"span {SPAN_ID.hex()} could not be processed"),
    ]


def test_an_invalid_request_body_is_rejected() -> None:
    with pytest.raises(InvalidBody):
        ingest_request(trace_request(b"\xff\xff"), skip_redaction)


def test_spans_recorded_by_the_server_become_rows_with_their_run_id() -> None:
    record = Span(trace_id="1" * 32, span_id="2" * 16, project="mine", name="run", start=NOW, run_id="run_1")

    [row] = build_rows([record], skip_redaction)

    assert (row.project, row.run_id, row.name) == ("mine", "run_1", "run")
