"""OpenInference: the attributes of Phoenix and its instrumentations.

Messages, tools and documents come in one attribute per field, `llm.input_messages.0.message.role`. `input.value` and
`output.value` hold input and output as the application had them, and are always kept.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.extraction import Prefer, read_conversation
from palaver.core.json import is_list, is_object
from palaver.core.messages import Message, ToolResult
from palaver.traces.conventions.agent_frameworks import complete_fields
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Attributes,
    Entry,
    SpanFields,
    collect_group,
    group_by_prefix,
    parse_container,
    parse_json,
    parse_tools,
    unwrap_arguments,
)
from palaver.traces.conventions.messages import FieldNames, build_elements, parse_messages, tidy_conversation
from palaver.traces.conventions.vocabulary import OPENINFERENCE_KINDS, lookup_kind, parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanKind, Tool

NAME: ConventionName = "openinference"
ROOTS: frozenset[str] = frozenset("openinference llm input output agent tool embedding reranker retrieval".split())

_FIELD_NAMES = FieldNames(message="message.", contents="contents", content="message_content.", call="tool_call.")
_IN, _OUT, _TOOLS = "llm.input_messages", "llm.output_messages", "llm.tools"
_PROMPTS, _CHOICES = "llm.prompts", "llm.choices"
_RETRIEVED, _TO_RANK, _RANKED = "retrieval.documents", "reranker.input_documents", "reranker.output_documents"
_INDEXED_PREFIXES = tuple(f"{name}." for name in (_IN, _OUT, _TOOLS, _PROMPTS, _CHOICES, _RETRIEVED, _TO_RANK, _RANKED))
_TOKENS = "llm.token_count."
_DOCUMENT_FIELDS = ("id", "content", "score", "metadata")
_EXCLUDED_PARAMETERS = frozenset(("model", "model_name", "messages", "tools", "functions", "_type"))
"""Parameters with their own field, and LangChain's name for the calling class."""

_Groups = Mapping[str, Entry]


def read_fields(raw: RawSpan) -> SpanFields:
    attributes = raw.attributes
    reader, groups = AttributeReader(attributes), group_by_prefix(attributes, _INDEXED_PREFIXES)
    kind = lookup_kind(attributes.get("openinference.span.kind"), OPENINFERENCE_KINDS)
    inputs, outputs = _inputs(attributes, groups), _outputs(attributes, groups)
    inputs = unwrap_arguments(inputs) if kind == "tool" else inputs
    result = _tool_result(outputs) if kind == "tool" else None
    fields = SpanFields(
        kind=kind,
        messages_in=_complete_messages(_messages(groups, _IN, "input"), inputs, kind)
        or _completion_messages(attributes, groups, _PROMPTS, "input"),
        messages_out=_messages(groups, _OUT, "output") or _completion_messages(attributes, groups, _CHOICES, "output"),
        inputs=inputs,
        outputs=outputs if result is None else result.output,
        parameters=_parameters(reader),
        tools=parse_tools([entry.get("tool.json_schema") for entry in collect_group(groups, _TOOLS)]),
        tool=_tool(reader, kind, result),
        input_tokens=reader.count(_TOKENS + "prompt"),
        output_tokens=reader.count(_TOKENS + "completion"),
        cached_input_tokens=reader.count(_TOKENS + "prompt_details.cache_read"),
        cache_creation_input_tokens=reader.count(_TOKENS + "prompt_details.cache_write"),
        reasoning_tokens=reader.count(_TOKENS + "completion_details.reasoning"),
        cost=reader.amount("llm.cost.total"),
        model=reader.label(
            "llm.response.model_name",
            "llm.model_name",
            "llm.request.model_name",
            "embedding.model_name",
            "reranker.model_name",
        ),
        provider=reader.label("llm.provider", "llm.system"),
        finish=parse_finish(attributes.get("llm.finish_reason")),
        workflow=reader.label("agent.name") if kind == "agent" else UNSET,
        notes=tuple(reader.notes),
    )
    return complete_fields(raw.scope, attributes, fields)


def _messages(groups: _Groups, name: str, side: Prefer) -> tuple[Message, ...]:
    entries = collect_group(groups, name)
    return parse_messages(build_elements(entries, _FIELD_NAMES), side) if entries else ()


def _complete_messages(messages: tuple[Message, ...], inputs: Any, kind: SpanKind | UnsetType) -> tuple[Message, ...]:
    """Complete the input messages of a step: LangChain's instrumentation records only the first, at times without text.

    So for spans other than model calls, the conversation in the input value is used if it is longer.
    """
    if not messages or kind is UNSET or kind == "llm" or not (is_object(inputs) or is_list(inputs)):
        return messages
    conversation = read_conversation(inputs, "input")
    if conversation is None or len(conversation.messages) < len(messages):
        return messages
    return tidy_conversation(conversation.messages, inputs)


def _tool_result(outputs: Any) -> ToolResult | None:
    """Return the result of a tool that LangChain wrapped in a message."""
    if not is_object(outputs) or not (
        outputs.get("type") == "tool" or outputs.get("role") == "tool" or "lc" in outputs
    ):
        return None
    messages = parse_messages([outputs], "output")
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    return results[0] if len(results) == 1 and results[0].output is not None else None


def _completion_messages(attributes: Attributes, groups: _Groups, name: str, side: Prefer) -> tuple[Message, ...]:
    """Read the prompts and texts of completions, which older versions put in one list."""
    field = "prompt.text" if side == "input" else "completion.text"
    texts = [entry[field] for entry in collect_group(groups, name) if entry.get(field) is not None]
    return parse_messages(texts or attributes.get(name), side)


def _inputs(attributes: Attributes, groups: _Groups) -> Any:
    value = _value(attributes, "input")
    if value is not UNSET:
        return value
    query, documents = attributes.get("reranker.query"), _documents(groups, _TO_RANK)
    if query is None:
        return {"documents": documents} if documents else UNSET
    return {"query": query, "documents": documents} if documents else {"query": query}


def _outputs(attributes: Attributes, groups: _Groups) -> Any:
    value, documents = _value(attributes, "output"), _documents(groups, _RETRIEVED) or _documents(groups, _RANKED)
    if not documents:
        return value
    if value is UNSET:
        return {"documents": documents}
    # Indexed documents have the same form for all retrievers.
    return {**value, "documents": documents} if is_object(value) else value


def _value(attributes: Attributes, side: Prefer) -> Any:
    """Parse the value as JSON if its type says so, else only objects and lists."""
    value = attributes.get(f"{side}.value")
    if value is None:
        return UNSET
    mime_type = attributes.get(f"{side}.mime_type")
    return parse_json(value) if isinstance(mime_type, str) and "json" in mime_type.lower() else parse_container(value)


def _documents(groups: _Groups, name: str) -> list[dict[str, Any]]:
    documents = [
        {field: entry[f"document.{field}"] for field in _DOCUMENT_FIELDS if entry.get(f"document.{field}") is not None}
        for entry in collect_group(groups, name)
    ]
    for document in documents:
        if "metadata" in document:
            document["metadata"] = parse_container(document["metadata"])
    return [document for document in documents if document]


def _parameters(reader: AttributeReader) -> dict[str, Any]:
    parameters = parse_container(reader.value("llm.invocation_parameters"))
    if not is_object(parameters):
        return {}
    return {name: value for name, value in parameters.items() if value is not None and name not in _EXCLUDED_PARAMETERS}


def _tool(reader: AttributeReader, kind: SpanKind | UnsetType, result: ToolResult | None) -> Tool | UnsetType:
    name, call_id = reader.label("tool.name"), reader.label("tool.id")
    if name is UNSET or not (kind is UNSET or kind == "tool"):
        return UNSET
    result_call_id = result.call_id if result is not None else None
    return Tool(name=name, call_id=result_call_id or None if call_id is UNSET else call_id)
