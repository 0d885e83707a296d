"""Span kinds and finish reasons of all vendors."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.traces.conventions import vocabulary
from palaver.traces.conventions.vocabulary import ai_sdk_kind, lookup_kind, operation_kind, parse_finish

OPERATIONS = {
    "llm": "chat generate_content text_completion Chat",
    "embedding": "embeddings",
    "retrieval": "retrieval search_memory",
    "agent": "create_agent invoke_agent",
    "tool": "execute_tool",
    "workflow": "invoke_workflow",
    "rerank": "rerank",
    "task": "plan create_memory update_memory delete_memory_store execute_task agent_step",
}
VENDOR_KINDS: list[tuple[vocabulary.Kinds, dict[str, str]]] = [
    (
        vocabulary.OPENINFERENCE_KINDS,
        {
            "llm": "LLM",
            "task": "CHAIN PROMPT DECISION",
            "retrieval": "RETRIEVER",
            "embedding": "EMBEDDING",
            "rerank": "RERANKER",
            "agent": "AGENT agent",
            "tool": "TOOL",
            "guardrail": "GUARDRAIL",
            "evaluator": "EVALUATOR",
            "unknown": "UNKNOWN",
        },
    ),
    (
        vocabulary.AGENTA_KINDS,
        {
            "llm": "chat completion llm",
            "agent": "agent",
            "workflow": "workflow",
            "task": "chain task",
            "tool": "tool",
            "embedding": "embedding",
            "retrieval": "query",
            "rerank": "rerank",
        },
    ),
    (
        vocabulary.MLFLOW_KINDS,
        {
            "llm": "LLM CHAT_MODEL",
            "agent": "AGENT",
            "tool": "TOOL",
            "workflow": "WORKFLOW",
            "embedding": "EMBEDDING",
            "guardrail": "GUARDRAIL",
            "evaluator": "EVALUATOR",
            "retrieval": "RETRIEVER",
            "rerank": "RERANKER",
            "task": "CHAIN PARSER MEMORY TASK",
        },
    ),
    (vocabulary.TRACELOOP_KINDS, {kind: kind for kind in ("workflow", "task", "agent", "tool")}),
    (vocabulary.REQUEST_TYPE_KINDS, {"llm": "chat completion", "embedding": "embedding", "rerank": "rerank"}),
]
AI_SDK_OPERATIONS = {
    "agent": "ai.generateText ai.streamText ai.generateObject ai.streamObject",
    "llm": "ai.generateText.doGenerate ai.streamText.doStream ai.generateObject.doGenerate ai.streamObject.doStream",
    "tool": "ai.toolCall",
    "embedding": "ai.embed ai.embed.doEmbed ai.embedMany ai.embedMany.doEmbed",
    "rerank": "ai.rerank ai.rerank.doRerank",
}
UNKNOWN_VALUES: list[Any] = [
    "",
    "unheard",
    "ai",
    "ai.",
    "ai.other",
    "ai.generateText.other",
    None,
    7,
    ["chat"],
    {"chat": 1},
]
FINISH_REASONS = {
    "stop": "stop end_turn stop_sequence STOP",
    "length": "length max_tokens MAX_TOKENS",
    "tool-calls": "tool_call tool_calls tool_use tool-calls function_call",
    "content-filter": "content_filter refusal safety content-filter SAFETY",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "error": "error",
}


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(value, kind) for kind, values in table.items() for value in values.split()]


@pytest.mark.parametrize(("value", "kind"), pairs(OPERATIONS))
def test_each_gen_ai_operation_maps_to_a_kind(value: str, kind: str) -> None:
    assert operation_kind(value) == kind


@pytest.mark.parametrize(("table", "rows"), VENDOR_KINDS)
def test_each_kind_name_of_a_vendor_maps_to_a_kind(table: vocabulary.Kinds, rows: dict[str, str]) -> None:
    assert {value: lookup_kind(value, table) for value, _ in pairs(rows)} == dict(pairs(rows))


@pytest.mark.parametrize(("value", "kind"), pairs(AI_SDK_OPERATIONS))
def test_each_ai_sdk_operation_maps_to_a_kind(value: str, kind: str) -> None:
    assert ai_sdk_kind(value) == kind


@pytest.mark.parametrize("value", UNKNOWN_VALUES)
def test_unknown_values_map_to_no_kind(value: Any) -> None:
    assert [operation_kind(value), ai_sdk_kind(value), lookup_kind(value, vocabulary.MLFLOW_KINDS)] == [UNSET] * 3


@pytest.mark.parametrize(("value", "finish"), pairs(FINISH_REASONS))
def test_each_finish_reason_of_a_vendor_is_normalized(value: str, finish: str) -> None:
    assert parse_finish(value) == parse_finish([value, "other"]) == parse_finish((value,)) == finish


@pytest.mark.parametrize("value", ["other", "unknown", "", None, 7, [], [None], {}])
def test_an_unknown_finish_reason_is_unset(value: Any) -> None:
    assert parse_finish(value) is UNSET
