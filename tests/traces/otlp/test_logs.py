"""Log records of OTLP: whatever arrives, events are decoded, or a request or record is rejected."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from palaver.errors import InvalidBody, TooLarge
from palaver.traces.otlp.logs import LogBatch, decode_logs
from tests.traces.otlp.otlp_requests import NOW

RECORD = {"traceId": "ab" * 16, "spanId": "cd" * 8, "eventName": "gen_ai.user.message"}


def decode(body: bytes, *, is_json: bool = False, max_records: int = 100) -> LogBatch:
    return decode_logs(body, is_json=is_json, received_at=NOW, max_records=max_records)


def encode_json(*records: Any) -> bytes:
    return msgspec.json.encode({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})


def encode(*records: LogRecord) -> bytes:
    scope = ScopeLogs(log_records=records)
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[scope])]).SerializeToString()


@pytest.mark.parametrize("is_json", [True, False])
def test_a_record_without_a_time_has_the_time_of_its_arrival(*, is_json: bool) -> None:
    record = LogRecord(trace_id=b"\xab" * 16, span_id=b"\xcd" * 8, event_name="gen_ai.user.message")
    [item] = decode(encode_json(RECORD) if is_json else encode(record), is_json=is_json).events

    assert (item.trace_id, item.span_id, item.event.at) == ("ab" * 16, "cd" * 8, NOW)


@pytest.mark.parametrize("is_json", [True, False])
def test_too_many_records_are_rejected_together(*, is_json: bool) -> None:
    body = encode_json({}, {}, {}) if is_json else encode(LogRecord(), LogRecord(), LogRecord())

    assert decode(body, is_json=is_json, max_records=3).events == []
    with pytest.raises(TooLarge, match="more than 2 log records"):
        decode(body, is_json=is_json, max_records=2)


def test_a_deeply_nested_body_is_cut() -> None:
    value = AnyValue(string_value="x")
    for _ in range(40):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    record = LogRecord(trace_id=b"a" * 16, span_id=b"b" * 8, event_name="gen_ai.choice", body=value)

    [item] = decode(encode(record)).events
    assert msgspec.json.encode(item.event.attributes).count(b"[") == 32


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_rejected(body: bytes) -> None:
    for is_json in (True, False):
        with contextlib.suppress(InvalidBody, TooLarge):
            decode(body, is_json=is_json)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from([*RECORD, "body", "attributes", "timeUnixNano"]), _VALUES))
def test_any_fields_of_a_record_reject_only_that_record(fields: dict[str, Any]) -> None:
    batch = decode(encode_json({**RECORD, **fields}, RECORD), is_json=True)

    assert len(batch.events) + len(batch.rejected) in (1, 2)
    assert batch.events[-1].event.name == "gen_ai.user.message"
