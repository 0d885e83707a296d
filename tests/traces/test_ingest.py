"""From a body to rows: each span by itself."""

import gzip
from typing import Any

import pytest

from palaver.errors import InvalidBody
from palaver.storage.spans.writes import decompress_body
from palaver.traces.ingest import TraceRequest, build_rows, ingest_request
from palaver.traces.model import Span
from palaver.traces.otlp import RejectedSpan
from tests.traces.otlp.otlp_requests import NOW, PROTOBUF, SPAN_ID, request, span


def sent(body: bytes, **more: Any) -> TraceRequest:
    return TraceRequest(project="mine", body=body, media_type=PROTOBUF, received_at=NOW, **more)


def as_they_are(given: Span) -> Span:
    return given


def test_every_span_becomes_a_row_of_the_senders_project() -> None:
    body = request(span({"palaver.project": "theirs", "palaver.run.id": "run_1"}))

    [row] = ingest_request(sent(gzip.compress(body), encoding="gzip"), as_they_are).rows

    assert (row.project, row.run_id, row.name, row.service) == ("mine", None, "chat gpt-4o", "shop")
    assert b'"palaver.run.id":"run_1"' in decompress_body(row.body)


def test_notices_of_spans_that_began_are_counted_only() -> None:
    taken = ingest_request(sent(request(span({"logfire.span_type": "pending_span"}))), as_they_are)

    assert (taken.rows, taken.rejected, taken.pending) == ([], [], 1)


def test_a_span_that_cannot_be_made_ready_loses_no_other() -> None:
    def broken(given: Span) -> Span:
        if given.name == "odd":
            raise ValueError("a mistake of ours")
        return given

    bad = span(span_id=b"abcd")
    taken = ingest_request(sent(request(span(name="odd"), bad, span(name="even", span_id=b"12345678"))), broken)

    assert [row.name for row in taken.rows] == ["even"]
    assert taken.rejected == [
        RejectedSpan(1, "span id has 4 bytes"),
        RejectedSpan(0, f"the span {SPAN_ID.hex()} could not be read"),
    ]


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(InvalidBody):
        ingest_request(sent(b"\xff\xff"), as_they_are)


def test_records_that_were_made_here_become_rows() -> None:
    given = Span(trace_id="1" * 32, span_id="2" * 16, project="mine", name="run", start=NOW, run_id="run_1")

    [row] = build_rows([given], as_they_are)

    assert (row.project, row.run_id, row.name) == ("mine", "run_1", "run")
