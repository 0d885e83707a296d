"""Translate span kinds and finish reasons of the conventions. Case does not matter."""

from collections.abc import Mapping
from typing import Any, get_args

from msgspec import UNSET, UnsetType

from palaver.core.events import FinishReason
from palaver.traces.model import SpanKind

Kinds = Mapping[str, SpanKind]

GEN_AI_KINDS: Kinds = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "embeddings": "embedding",
    "retrieval": "retrieval",
    "search_memory": "retrieval",
    "create_agent": "agent",
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "invoke_workflow": "workflow",
    "rerank": "rerank",
    "plan": "task",
    "execute_task": "task",
    "agent_step": "task",  # The AI SDK, since version 7.
    "execute_event_loop_cycle": "task",  # Strands: a model call and its tools.
    "invoke_swarm": "workflow",
    "invoke_graph": "workflow",
}

OPENINFERENCE_KINDS: Kinds = {
    "llm": "llm",
    "chain": "task",
    "prompt": "task",
    "decision": "task",
    "retriever": "retrieval",
    "embedding": "embedding",
    "reranker": "rerank",
    "agent": "agent",
    "tool": "tool",
    "guardrail": "guardrail",
    "evaluator": "evaluator",
    "unknown": "unknown",
}

AGENTA_KINDS: Kinds = {
    "chat": "llm",
    "completion": "llm",
    "llm": "llm",
    "agent": "agent",
    "workflow": "workflow",
    "chain": "task",
    "task": "task",
    "tool": "tool",
    "embedding": "embedding",
    "query": "retrieval",
    "rerank": "rerank",
}

LANGFUSE_KINDS: Kinds = {
    "generation": "llm",
    "agent": "agent",
    "tool": "tool",
    "chain": "task",
    "span": "task",
    "event": "task",
    "retriever": "retrieval",
    "embedding": "embedding",
    "evaluator": "evaluator",
    "guardrail": "guardrail",
}

MLFLOW_KINDS: Kinds = {
    "llm": "llm",
    "chat_model": "llm",
    "agent": "agent",
    "tool": "tool",
    "workflow": "workflow",
    "embedding": "embedding",
    "guardrail": "guardrail",
    "evaluator": "evaluator",
    "retriever": "retrieval",
    "reranker": "rerank",
    "chain": "task",
    "parser": "task",
    "memory": "task",
    "task": "task",
}

TRACELOOP_KINDS: Kinds = {"workflow": "workflow", "task": "task", "agent": "agent", "tool": "tool"}
"""`traceloop.span.kind`."""

REQUEST_TYPE_KINDS: Kinds = {"chat": "llm", "completion": "llm", "embedding": "embedding", "rerank": "rerank"}
"""`llm.request.type`."""

_AI_SDK_LOOPS = ("generatetext", "streamtext", "generateobject", "streamobject")

_FINISHES: Mapping[str, str] = {
    **{finish: finish for finish in get_args(FinishReason)},
    **dict.fromkeys(("tool_call", "tool_calls", "tool_use", "function_call"), "tool-calls"),
    **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
    "max_tokens": "length",
    **dict.fromkeys(("content_filter", "refusal", "safety"), "content-filter"),
}


def lookup_kind(value: Any, kinds: Kinds) -> SpanKind | UnsetType:
    """Return the kind; UNSET if the value is unknown or not a string."""
    if not isinstance(value, str):
        return UNSET
    kind = kinds.get(value)
    return kind if kind is not None else kinds.get(value.strip().lower(), UNSET)


def operation_kind(value: Any) -> SpanKind | UnsetType:
    """Read `gen_ai.operation.name`: memory operations other than a search are tasks."""
    kind = lookup_kind(value, GEN_AI_KINDS)
    if kind is UNSET and isinstance(value, str) and len(value) <= 64 and "memory" in value.lower():
        return "task"
    return kind


def ai_sdk_kind(value: Any) -> SpanKind | UnsetType:
    """Read `ai.operationId`: `ai.streamText` is a loop with sums, `ai.streamText.doStream` one model call."""
    segments = value.strip().lower().split(".", 3) if isinstance(value, str) else []
    match segments:
        case ["ai", "toolcall"]:
            return "tool"
        case ["ai", name, *_] if name.startswith("embed"):
            return "embedding"
        case ["ai", name, *_] if name.startswith("rerank"):
            return "rerank"
        case ["ai", name] if name in _AI_SDK_LOOPS:
            return "agent"
        case ["ai", name, "dogenerate" | "dostream"] if name in _AI_SDK_LOOPS:
            return "llm"
        case _:
            return UNSET


def parse_finish(value: Any) -> str | UnsetType:
    """Return the finish reason, given one or a list; UNSET if it is unknown."""
    if isinstance(value, list | tuple):
        value = next(iter(value), None)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON
    return _FINISHES.get(value.strip().lower(), UNSET) if isinstance(value, str) else UNSET
