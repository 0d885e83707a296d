"""Every known attribute alone fills its field, and of several the first by precedence is used.

test_message_sources.py tests messages, inputs and outputs.
"""

from typing import Any

import pytest

from tests.traces.mapped_span import field_of, text

# Fields with a single value. For attributes that hold JSON, the name ends with the key of the value in it.

MLFLOW_USAGE, MLFLOW_COST = "mlflow.chat.tokenUsage", "mlflow.llm.cost"
SOURCES: dict[str, list[str]] = {
    "model": [
        "gen_ai.response.model",
        "gen_ai.request.model",
        "llm.response.model_name",
        "llm.model_name",
        "llm.request.model_name",
        "embedding.model_name",
        "reranker.model_name",
        "ai.response.model",
        "ai.model.id",
        "ag.meta.response.model",
        "ag.meta.request.model",
        "mlflow.llm.model",
    ],
    "provider": [
        "gen_ai.provider.name",
        "gen_ai.system",
        "llm.provider",
        "llm.system",
        "ai.model.provider",
        "ag.meta.provider.name",
        "ag.meta.system",
        "mlflow.llm.provider",
    ],
    "session": [
        "gen_ai.conversation.id",
        "session.id",
        "ai.telemetry.metadata.sessionId",
        "ai.settings.context.sessionId",
        "ag.session.id",
        "mlflow.trace.session",
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.thread_id",
        "traceloop.association.properties.chat_id",
        "langfuse.session.id",
    ],
    "user": [
        "user.id",
        "enduser.id",
        "gen_ai.user",
        "ai.telemetry.metadata.userId",
        "ai.settings.context.userId",
        "ag.user.id",
        "mlflow.trace.user",
        "traceloop.association.properties.user_id",
        "langfuse.user.id",
        "llm.user",
    ],
    "usage.input_tokens": [
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
        "ai.usage.tokens",
        "ag.metrics.unit.tokens.prompt",
        "ag.metrics.tokens.incremental.prompt",
        f"{MLFLOW_USAGE}.input_tokens",
        "gen_ai.aggregated_usage.input_tokens",
    ],
    "usage.output_tokens": [
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
        "ag.metrics.unit.tokens.completion",
        "ag.metrics.tokens.incremental.completion",
        f"{MLFLOW_USAGE}.output_tokens",
        "gen_ai.aggregated_usage.output_tokens",
    ],
    "usage.cached_input_tokens": [
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
        "ai.usage.inputTokenDetails.cacheReadTokens",
    ],
    "usage.cache_creation_input_tokens": [
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
        "ai.usage.inputTokenDetails.cacheWriteTokens",
    ],
    "usage.reasoning_tokens": [
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
        "ai.usage.reasoningTokens",
    ],
    "cost": [
        "palaver.cost",
        "gen_ai.usage.cost",
        "operation.cost",
        "llm.cost.total",
        "ag.metrics.unit.costs.total",
        "ag.metrics.costs.incremental.total",
        f"{MLFLOW_COST}.total_cost",
    ],
}


def attributes_for(values: dict[str, Any]) -> dict[str, Any]:
    """Return span attributes that set these values."""
    attributes: dict[str, Any] = {}
    for name, value in values.items():
        prefix, _, key = name.rpartition(".")
        if prefix in (MLFLOW_USAGE, MLFLOW_COST):
            attributes[prefix] = text({key: value})
        else:
            attributes[name] = text(value) if name.startswith("mlflow.") else value
    return attributes


def value_of(field: str, index: int) -> Any:
    match field:
        case "cost":
            return index + 0.5
        case _ if field.startswith("usage."):
            return index + 1
        case _:
            return f"{field}-{index}"


@pytest.mark.parametrize(("field", "name"), [(field, name) for field, names in SOURCES.items() for name in names])
def test_each_attribute_alone_fills_its_field(field: str, name: str) -> None:
    assert field_of(attributes_for({name: value_of(field, 0)}), field) == value_of(field, 0)


@pytest.mark.parametrize("field", SOURCES)
def test_the_attribute_with_the_highest_precedence_fills_the_field(field: str) -> None:
    values = {name: value_of(field, index) for index, name in enumerate(SOURCES[field])}

    for index, name in enumerate(SOURCES[field]):
        assert field_of(attributes_for(values), field) == value_of(field, index), name
        del values[name]
    assert field_of(attributes_for(values), field) is None


# Span kinds and finish reasons

KINDS: dict[str, dict[str, str]] = {
    "gen_ai.operation.name": {
        **dict.fromkeys(("chat", "generate_content", "text_completion"), "llm"),
        "embeddings": "embedding",
        **dict.fromkeys(("retrieval", "search_memory"), "retrieval"),
        **dict.fromkeys(("create_agent", "invoke_agent"), "agent"),
        "execute_tool": "tool",
        "invoke_workflow": "workflow",
        "rerank": "rerank",
        **dict.fromkeys(("plan", "update_memory", "execute_task"), "task"),
    },
    "openinference.span.kind": {
        "LLM": "llm",
        **dict.fromkeys(("CHAIN", "PROMPT", "DECISION"), "task"),
        "RETRIEVER": "retrieval",
        "EMBEDDING": "embedding",
        "RERANKER": "rerank",
        "AGENT": "agent",
        "TOOL": "tool",
        "GUARDRAIL": "guardrail",
        "EVALUATOR": "evaluator",
        "UNKNOWN": "unknown",
    },
    "ai.operationId": {
        **{f"ai.{name}": "agent" for name in ("generateText", "streamText", "generateObject", "streamObject")},
        **{f"ai.{name}.doGenerate": "llm" for name in ("generateText", "generateObject")},
        **{f"ai.{name}.doStream": "llm" for name in ("streamText", "streamObject")},
        "ai.toolCall": "tool",
        **dict.fromkeys(("ai.embed", "ai.embed.doEmbed", "ai.embedMany", "ai.embedMany.doEmbed"), "embedding"),
        **dict.fromkeys(("ai.rerank", "ai.rerank.doRerank"), "rerank"),
    },
    "ag.type.node": {
        **dict.fromkeys(("chat", "completion", "llm"), "llm"),
        **{name: name for name in ("agent", "workflow", "task", "tool", "embedding", "rerank")},
        "chain": "task",
        "query": "retrieval",
    },
    "ag.type.span": {"chat": "llm", "query": "retrieval"},
    "mlflow.spanType": {
        **dict.fromkeys(("LLM", "CHAT_MODEL"), "llm"),
        **{name: name.lower() for name in ("AGENT", "TOOL", "WORKFLOW", "EMBEDDING", "GUARDRAIL", "EVALUATOR")},
        "RETRIEVER": "retrieval",
        "RERANKER": "rerank",
        **dict.fromkeys(("CHAIN", "PARSER", "MEMORY", "TASK"), "task"),
    },
    "traceloop.span.kind": {name: name for name in ("workflow", "task", "agent", "tool")},
    "llm.request.type": {"chat": "llm", "completion": "llm", "embedding": "embedding", "rerank": "rerank"},
}


@pytest.mark.parametrize(
    ("name", "attribute_value", "kind"),
    [
        (name, attribute_value, kind)
        for name, kind_by_value in KINDS.items()
        for attribute_value, kind in kind_by_value.items()
    ],
)
def test_each_attribute_value_maps_to_its_span_kind(name: str, attribute_value: str, kind: str) -> None:
    assert field_of(attributes_for({name: attribute_value}), "kind") == kind


def test_the_kind_attribute_with_the_highest_precedence_is_used() -> None:
    kind_attributes = {
        "gen_ai.operation.name": "plan",
        "openinference.span.kind": "EVALUATOR",
        "ai.operationId": "ai.generateText",
        "ag.type.node": "query",
        "ag.type.span": "chat",
        "mlflow.spanType": "GUARDRAIL",
        "traceloop.span.kind": "workflow",
        "llm.request.type": "rerank",
    }
    kinds = ["task", "evaluator", "agent", "retrieval", "llm", "guardrail", "workflow", "rerank"]

    for kind, name in zip(kinds, list(kind_attributes), strict=True):
        assert field_of(attributes_for(kind_attributes), "kind") == kind
        del kind_attributes[name]
    assert field_of(attributes_for(kind_attributes), "kind") == "unknown"


FINISH_REASONS = {
    **dict.fromkeys(("tool_call", "tool_calls", "tool_use", "tool-calls", "function_call"), "tool-calls"),
    **dict.fromkeys(("stop", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens"), "length"),
    **dict.fromkeys(("content-filter", "content_filter", "refusal", "safety"), "content-filter"),
    "otherwise": None,
}


@pytest.mark.parametrize(("attribute_value", "finish"), FINISH_REASONS.items())
@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.response.finish_reasons",
        "ai.response.finishReason",
        "llm.finish_reason",
        "gen_ai.completion.0.finish_reason",
    ],
)
def test_each_finish_reason_is_mapped(name: str, attribute_value: str, finish: str | None) -> None:
    assert (
        field_of({name: [attribute_value, "stop"] if name.endswith("reasons") else attribute_value}, "finish") == finish
    )


# Structured fields and workflow names

FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
TOOL_DEFINITIONS = [{"name": "f", "description": "d", "parameters": {"type": "object"}}]
TOOL = {"name": "f", "call_id": "c"}
FORMS: list[tuple[dict[str, Any], str, Any]] = [
    (
        {"palaver.parameters": '{"temperature": 0.5, "model": "mine"}'},
        "parameters",
        {"temperature": 0.5, "model": "mine"},
    ),
    ({"gen_ai.request.temperature": 0.5, "gen_ai.request.model": "m"}, "parameters", {"temperature": 0.5}),
    ({"gen_ai.request.stop_sequences": ["x"]}, "parameters", {"stop": ["x"]}),
    ({"gen_ai.request.choice.count": 2}, "parameters", {"n": 2}),
    ({"llm.invocation_parameters": '{"seed": 1, "model": "m", "messages": []}'}, "parameters", {"seed": 1}),
    ({"ai.settings.maxOutputTokens": 9}, "parameters", {"max_tokens": 9}),
    ({"ai.settings.maxTokens": 9}, "parameters", {"max_tokens": 9}),
    ({"ai.settings.topP": 0.1, "ai.settings.topK": 3}, "parameters", {"top_p": 0.1, "top_k": 3}),
    ({"ai.settings.stopSequences": ["x"]}, "parameters", {"stop": ["x"]}),
    ({"ai.settings.frequencyPenalty": 1, "ai.settings.model": "m"}, "parameters", {"frequency_penalty": 1}),
    ({"ai.settings.context.topP": 1}, "parameters", {}),
    ({"ag.data.parameters": '@ag.type=json:{"seed": 1, "model": "m"}'}, "parameters", {"seed": 1}),
    ({"gen_ai.tool.definitions": text([FUNCTION])}, "tools", TOOL_DEFINITIONS),
    (
        {
            "gen_ai.tool.definitions.0.name": "f",
            "gen_ai.tool.definitions.0.description": "d",
            "gen_ai.tool.definitions.0.parameters": '{"type": "object"}',
        },
        "tools",
        TOOL_DEFINITIONS,
    ),
    ({"llm.tools.0.tool.json_schema": text(FUNCTION)}, "tools", TOOL_DEFINITIONS),
    ({"ai.prompt.tools": [text(TOOL_DEFINITIONS[0])]}, "tools", TOOL_DEFINITIONS),
    ({"mlflow.chat.tools": text([FUNCTION])}, "tools", TOOL_DEFINITIONS),
    (
        {
            "llm.request.functions.0.name": "f",
            "llm.request.functions.0.description": "d",
            "llm.request.functions.0.parameters": '{"type": "object"}',
        },
        "tools",
        TOOL_DEFINITIONS,
    ),
    ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c"}, "tool", TOOL),
    ({"openinference.span.kind": "TOOL", "tool.name": "f", "tool.id": "c"}, "tool", TOOL),
    ({"ai.operationId": "ai.toolCall", "ai.toolCall.name": "f", "ai.toolCall.id": "c"}, "tool", TOOL),
    ({"traceloop.span.kind": "tool", "traceloop.entity.name": "f"}, "tool", {"name": "f"}),
    ({"gen_ai.tool.call.arguments": '{"a": 1}'}, "inputs", {"a": 1}),
    ({"gen_ai.tool.call.result": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"ai.toolCall.args": '{"a": 1}'}, "inputs", {"a": 1}),
    ({"ai.toolCall.result": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"input.value": '{"a": 1}'}, "inputs", {"a": 1}),
    ({"output.value": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"tool_arguments": '{"a": 1}'}, "inputs", {"a": 1}),
    ({"tool_response": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"traceloop.entity.input": '{"a": 1}'}, "inputs", {"a": 1}),
    ({"traceloop.entity.output": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"gen_ai.workflow.name": "w"}, "workflow", "w"),
    ({"traceloop.workflow.name": "w"}, "workflow", "w"),
    ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "w"}, "workflow", "w"),
    ({"gen_ai.operation.name": "chat", "gen_ai.agent.name": "w"}, "workflow", None),
    ({"openinference.span.kind": "AGENT", "agent.name": "w"}, "workflow", "w"),
    ({"openinference.span.kind": "LLM", "agent.name": "w"}, "workflow", None),
]


@pytest.mark.parametrize(("attributes", "field", "value"), FORMS, ids=repr)
def test_each_form_of_parameters_tools_inputs_outputs_and_workflow_is_read(
    attributes: dict[str, Any], field: str, value: Any
) -> None:
    assert field_of(attributes, field) == value
