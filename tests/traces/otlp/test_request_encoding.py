"""Exported spans that are imported again give the same records, mapped and redacted."""

from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from palaver.traces.model import Span
from palaver.traces.otlp import decode_request, encode_lines
from palaver.traces.redaction import Redactor, parse_rules
from palaver.traces.span_mapper import to_span
from tests.traces.otlp.otlp_requests import JSON, NOW, PROTOBUF, START, pairs, request, span

RULES = parse_rules(
    [{"detector": ["email", "card"]}, {"path": "messages_in.*.arguments"}, {"path": "user", "action": "hash"}]
)
REDACTOR = Redactor(RULES, b"the key of a project")

REDACTED_TEXTS = ("ann@example.com", "bob@example.com", "4111 1111", "hunter2", "Ann Lee", "sk-abcdefgh", "'u-1'")

SPANS: dict[str, dict[str, Any]] = {
    "gen_ai": {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 31,
        "gen_ai.usage.output_tokens": -1,
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"I am ann@example.com"}]},'
        '{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"find","arguments":{"who":"Ann Lee"}}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"sk-abcdefgh12345678"}]}]',
    },
    "openinference": {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.invocation_parameters": '{"temperature": 0, "model": "gpt-4o"}',
        "session.id": "s9",
        "user.id": "u-1",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "4111 1111 1111 1111?",
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 7,
        "input.value": '{"card": "4111 1111 1111 1111"}',
        "input.mime_type": "application/json",
    },
    "tool": {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "calc",
        "ai.toolCall.id": "t1",
        "ai.toolCall.args": '{"e":"2+2","password":"hunter2"}',
        "ai.toolCall.result": "4",
    },
    "nothing": {"http.route": "/x", "service.name": "of the span", "deep": {"a": [1, None, {"b": 0.5}]}},
}


def import_spans(body: bytes, media_type: str) -> list[Span]:
    batch = decode_request(body, media_type, NOW)
    assert batch.rejected == []
    return [REDACTOR.redact_span(to_span(raw, project="default")) for raw in batch.spans]


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize(
    "resource", [{}, {"service.name": "shop", "session.id": "s-res", "user.id": "bob@example.com"}]
)
def test_an_export_that_is_imported_again_gives_the_same_records(name: str, resource: dict[str, Any]) -> None:
    failed = Status(code=Status.STATUS_CODE_ERROR, message="to ann@example.com")
    raised = Sent.Event(
        name="exception", time_unix_nano=START, attributes=pairs({"exception.message": "ann@example.com"})
    )
    records = import_spans(
        request(span(SPANS[name]), span(SPANS[name], status=failed, events=[raised]), resource=resource), PROTOBUF
    )

    imported = [record for line in encode_lines(records) for record in import_spans(line, JSON)]

    assert imported == records
    assert [
        removed_text for removed_text in REDACTED_TEXTS if removed_text in str(records) or removed_text in str(imported)
    ] == []
