"""Log records of OTLP, of which those named `gen_ai.…` are events of a span: decoded in both formats, within limits.

Instrumentations put messages there instead of into attributes. The name is a field of the record or, from older SDKs,
the attribute `event.name`. A body that is an object has the same fields as the attributes of a span event.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from palaver.core.json import is_object
from palaver.errors import InvalidBody, TooLarge
from palaver.traces.model import SpanEvent
from palaver.traces.otlp import common, json, protobuf
from palaver.traces.otlp.common import InvalidSpan, RejectedSpan
from palaver.traces.otlp.limits import Losses, ValueBudget, truncate_name

_EVENT_PREFIX = "gen_ai."
_BODY_ATTRIBUTE = "gen_ai.event.content"


class LogEvent(msgspec.Struct, frozen=True):
    """An event and the span that it belongs to."""

    trace_id: str
    span_id: str
    event: SpanEvent


class LogBatch(msgspec.Struct, frozen=True):
    events: list[LogEvent]
    rejected: list[RejectedSpan]
    """Events without a valid trace id or span id; other log records are ignored."""


_Decoder = Callable[[], LogEvent | None]


def decode_logs(body: bytes, *, is_json: bool, received_at: datetime, max_records: int) -> LogBatch:
    """Decode up to `max_records` records. Raises InvalidBody or TooLarge."""
    events: list[LogEvent] = []
    rejected: list[RejectedSpan] = []
    budget = ValueBudget()
    decoders = _json_records(body, budget, received_at) if is_json else _protobuf_records(body, budget, received_at)
    try:
        for index, decode in enumerate(decoders):
            if index >= max_records:
                raise TooLarge(
                    f"The request has more than {max_records:,} log records. Configure the exporter to send smaller"
                    " batches."
                )
            try:
                event = decode()
            except (InvalidSpan, protobuf.MalformedMessage, DecodeError, *json.DECODE_ERRORS) as error:
                rejected.append(RejectedSpan(index, _reason(error), "logRecords"))
                continue
            if event is not None:
                events.append(event)
    except (protobuf.MalformedMessage, DecodeError) as error:
        raise InvalidBody(f"The body is not a valid ExportLogsServiceRequest: {_reason(error)}.") from None
    return LogBatch(events, rejected)


def _reason(error: Exception) -> str:
    return "malformed Protobuf" if isinstance(error, DecodeError) else json.error_reason(error)


def _log_event(
    name: str, trace_id: bytes, span_id: bytes, nanoseconds: int, attributes: dict[str, Any], body: Any
) -> LogEvent:
    fields = body if is_object(body) else {} if body is None else {_BODY_ATTRIBUTE: body}
    at = common.to_datetime(nanoseconds) if nanoseconds else None
    event = SpanEvent(truncate_name(name, "event", Losses()), at, {**attributes, **fields})
    return LogEvent(common.parse_trace_id(trace_id), common.parse_span_id(span_id), event)


# Protobuf


def _protobuf_records(body: bytes, budget: ValueBudget, received_at: datetime) -> Iterator[_Decoder]:
    reader = protobuf.WireReader(body)
    for group in reader.messages(1, 0, len(body)):
        for scope in reader.messages(2, group.start, group.stop):
            for field in reader.messages(2, scope.start, scope.stop):
                yield lambda field=field: _protobuf_event(reader, field, budget, received_at)


def _protobuf_event(
    reader: protobuf.WireReader, field: protobuf.Field, budget: ValueBudget, received_at: datetime
) -> LogEvent | None:
    losses = Losses(budget)
    record = LogRecord.FromString(protobuf.message_bytes(reader, field, "log", losses))
    name = record.event_name or next(
        (pair.value.string_value for pair in record.attributes if pair.key == "event.name"), ""
    )
    if not name.startswith(_EVENT_PREFIX):
        return None
    attributes = protobuf.decode_attributes(record.attributes, losses)
    body = protobuf.decode_value(record.body, name, losses)
    time = record.time_unix_nano or record.observed_time_unix_nano or common.to_nanoseconds(received_at)
    return _log_event(name, record.trace_id, record.span_id, time, attributes, body)


# JSON


class _JsonRecord(json.OtlpStruct):
    trace_id: str | None = None
    span_id: str | None = None
    time_unix_nano: json.Int64 = None
    observed_time_unix_nano: json.Int64 = None
    event_name: str | None = None
    attributes: list[json.KeyValue] | None = None
    body: json.AnyValue | None = None


class _ScopeLogs(json.OtlpStruct):
    log_records: list[msgspec.Raw] | None = None


class _ResourceLogs(json.OtlpStruct):
    scope_logs: list[_ScopeLogs] | None = None


class _LogsRequest(json.OtlpStruct):
    resource_logs: list[_ResourceLogs] | None = None


_request_decoder = msgspec.json.Decoder(_LogsRequest)
_decode_record = msgspec.json.Decoder(_JsonRecord).decode


def _json_records(body: bytes, budget: ValueBudget, received_at: datetime) -> Iterator[_Decoder]:
    request = json.decode_request(body, _request_decoder, "ExportLogsServiceRequest")
    for group in request.resource_logs or ():
        for scope in group.scope_logs or ():
            for data in scope.log_records or ():
                yield lambda data=data: _json_event(data, budget, received_at)


def _json_event(data: msgspec.Raw, budget: ValueBudget, received_at: datetime) -> LogEvent | None:
    json.check_objects(data)
    record, losses = _decode_record(data), Losses(budget)
    attributes = json.decode_attributes(record.attributes, losses)
    name = record.event_name or attributes.get("event.name")
    if not isinstance(name, str) or not name.startswith(_EVENT_PREFIX):
        return None
    body = json.decode_value(record.body, name, losses)
    times = (json.unsigned(record.time_unix_nano), json.unsigned(record.observed_time_unix_nano))
    trace_id, span_id = json.hex_id(record.trace_id, "trace id"), json.hex_id(record.span_id, "span id")
    time = next(filter(None, times), common.to_nanoseconds(received_at))
    return _log_event(name, trace_id, span_id, time, attributes, body)
