"""OpenInference: what Phoenix and the instrumentations around it put on spans.

Messages, tools and documents come one field a name, `llm.input_messages.0.message.role`. Beside them `input.value` and
`output.value` hold what went in and came out as its author had it, and are always kept.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.extraction import Prefer, read_conversation
from palaver.core.json import is_list, is_object
from palaver.core.messages import Message, ToolResult
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Attributes,
    Entry,
    collect_indexed,
    group_by_prefix,
    parse_container,
    parse_json,
    parse_tools,
)
from palaver.traces.conventions.base import SpanFields
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
"""What has a field of its own, and LangChain's name for the class that called."""

_Groups = Mapping[str, Entry]


def read(raw: RawSpan) -> SpanFields:
    """What the attributes of a span say."""
    attributes = raw.attributes
    reader, told = AttributeReader(attributes), group_by_prefix(attributes, _INDEXED_PREFIXES)
    kind = lookup_kind(attributes.get("openinference.span.kind"), OPENINFERENCE_KINDS)
    inputs, outputs = _inputs(attributes, told), _outputs(attributes, told)
    result = _tool_result(outputs) if kind == "tool" else None
    return SpanFields(
        kind=kind,
        messages_in=_complete_messages(_messages(told, _IN, "input"), inputs, kind)
        or _completion_messages(attributes, told, _PROMPTS, "input"),
        messages_out=_messages(told, _OUT, "output") or _completion_messages(attributes, told, _CHOICES, "output"),
        inputs=inputs,
        outputs=outputs if result is None else result.output,
        parameters=_parameters(reader),
        tools=parse_tools([entry.get("tool.json_schema") for entry in _entries(told, _TOOLS)]),
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


def _entries(told: _Groups, name: str) -> list[Entry]:
    family = told.get(f"{name}.")
    return collect_indexed(family, name) if family else []


def _messages(told: _Groups, name: str, side: Prefer) -> tuple[Message, ...]:
    entries = _entries(told, name)
    return parse_messages(build_elements(entries, _FIELD_NAMES), side) if entries else ()


def _complete_messages(counted: tuple[Message, ...], inputs: Any, kind: SpanKind | UnsetType) -> tuple[Message, ...]:
    """The messages that a step was given. LangChain's instrumentation counts the first only, at times without its text.

    So whatever is no call of a model is asked for the conversation in its value as well, and for its first message.
    """
    if not counted or kind is UNSET or kind == "llm" or not (is_object(inputs) or is_list(inputs)):
        return counted
    found = read_conversation(inputs, "input")
    if found is None or len(found.messages) < len(counted):
        return counted
    return tidy_conversation(found.messages, inputs)


def _tool_result(outputs: Any) -> ToolResult | None:
    """What a tool said, where LangChain has put a message around it."""
    if not is_object(outputs) or not (
        outputs.get("type") == "tool" or outputs.get("role") == "tool" or "lc" in outputs
    ):
        return None
    messages = parse_messages([outputs], "output")
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    return results[0] if len(results) == 1 and results[0].output is not None else None


def _completion_messages(attributes: Attributes, told: _Groups, name: str, side: Prefer) -> tuple[Message, ...]:
    """What completions were asked and said; at first all of it stood in one list."""
    field = "prompt.text" if side == "input" else "completion.text"
    texts = [entry[field] for entry in _entries(told, name) if entry.get(field) is not None]
    return parse_messages(texts or attributes.get(name), side)


def _inputs(attributes: Attributes, told: _Groups) -> Any:
    value = _value(attributes, "input")
    if value is not UNSET:
        return value
    query, documents = attributes.get("reranker.query"), _documents(told, _TO_RANK)
    if query is None:
        return {"documents": documents} if documents else UNSET
    return {"query": query, "documents": documents} if documents else {"query": query}


def _outputs(attributes: Attributes, told: _Groups) -> Any:
    value, documents = _value(attributes, "output"), _documents(told, _RETRIEVED) or _documents(told, _RANKED)
    if not documents:
        return value
    if value is UNSET:
        return {"documents": documents}
    # Where both tell of documents, those that were counted have the same form whoever found them.
    return {**value, "documents": documents} if is_object(value) else value


def _value(attributes: Attributes, side: Prefer) -> Any:
    """`4` is a number where it is said to be JSON; else just what somebody wrote."""
    value = attributes.get(f"{side}.value")
    if value is None:
        return UNSET
    form = attributes.get(f"{side}.mime_type")
    return parse_json(value) if isinstance(form, str) and "json" in form.lower() else parse_container(value)


def _documents(told: _Groups, name: str) -> list[dict[str, Any]]:
    documents = [
        {field: entry[f"document.{field}"] for field in _DOCUMENT_FIELDS if entry.get(f"document.{field}") is not None}
        for entry in _entries(told, name)
    ]
    for document in documents:
        if "metadata" in document:
            document["metadata"] = parse_container(document["metadata"])
    return [document for document in documents if document]


def _parameters(reader: AttributeReader) -> dict[str, Any]:
    given = parse_container(reader.value("llm.invocation_parameters"))
    if not is_object(given):
        return {}
    return {name: value for name, value in given.items() if value is not None and name not in _EXCLUDED_PARAMETERS}


def _tool(reader: AttributeReader, kind: SpanKind | UnsetType, result: ToolResult | None) -> Tool | UnsetType:
    name, call_id = reader.label("tool.name"), reader.label("tool.id")
    if name is UNSET or not (kind is UNSET or kind == "tool"):
        return UNSET
    answers = result.call_id if result is not None else None
    return Tool(name=name, call_id=answers or None if call_id is UNSET else call_id)
