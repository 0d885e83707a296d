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
from palaver.traces.conventions.base import Found
from palaver.traces.conventions.definitions import defined
from palaver.traces.conventions.loose import Words, elements
from palaver.traces.conventions.meanings import OPENINFERENCE, finish_of, kind_of
from palaver.traces.conventions.messages import conversation_messages, messages_of
from palaver.traces.conventions.reading import Attributes, Entry, Reader, families, indexed, opened, parsed
from palaver.traces.record import Convention, Kind, Raw, Tool

NAME: Convention = "openinference"
ROOTS: frozenset[str] = frozenset("openinference llm input output agent tool embedding reranker retrieval".split())

_WORDS = Words(message="message.", contents="contents", content="message_content.", call="tool_call.")
_IN, _OUT, _TOOLS = "llm.input_messages", "llm.output_messages", "llm.tools"
_PROMPTS, _CHOICES = "llm.prompts", "llm.choices"
_RETRIEVED, _TO_RANK, _RANKED = "retrieval.documents", "reranker.input_documents", "reranker.output_documents"
_COUNTED = tuple(f"{name}." for name in (_IN, _OUT, _TOOLS, _PROMPTS, _CHOICES, _RETRIEVED, _TO_RANK, _RANKED))
_TOKENS = "llm.token_count."
_ABOUT_DOCUMENTS = ("id", "content", "score", "metadata")
_NO_PARAMETERS = frozenset(("model", "model_name", "messages", "tools", "functions", "_type"))
"""What has a field of its own, and LangChain's name for the class that called."""

_Told = Mapping[str, Entry]


def read(raw: Raw) -> Found:
    """What the attributes of a span say."""
    attributes = raw.attributes
    reader, told = Reader(attributes), families(attributes, _COUNTED)
    kind = kind_of(attributes.get("openinference.span.kind"), OPENINFERENCE)
    inputs, outputs = _inputs(attributes, told), _outputs(attributes, told)
    result = _result(outputs) if kind == "tool" else None
    return Found(
        kind=kind,
        messages_in=_whole(_messages(told, _IN, "input"), inputs, kind) or _texts(attributes, told, _PROMPTS, "input"),
        messages_out=_messages(told, _OUT, "output") or _texts(attributes, told, _CHOICES, "output"),
        inputs=inputs,
        outputs=outputs if result is None else result.output,
        parameters=_parameters(reader),
        tools=defined([entry.get("tool.json_schema") for entry in _entries(told, _TOOLS)]),
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
        finish=finish_of(attributes.get("llm.finish_reason")),
        workflow=reader.label("agent.name") if kind == "agent" else UNSET,
        notes=tuple(reader.notes),
    )


def _entries(told: _Told, name: str) -> list[Entry]:
    family = told.get(f"{name}.")
    return indexed(family, name) if family else []


def _messages(told: _Told, name: str, side: Prefer) -> tuple[Message, ...]:
    entries = _entries(told, name)
    return messages_of(elements(entries, _WORDS), side) if entries else ()


def _whole(counted: tuple[Message, ...], inputs: Any, kind: Kind | UnsetType) -> tuple[Message, ...]:
    """The messages that a step was given. LangChain's instrumentation counts the first only, at times without its text.

    So whatever is no call of a model is asked for the conversation in its value as well, and for its first message.
    """
    if not counted or kind is UNSET or kind == "llm" or not (is_object(inputs) or is_list(inputs)):
        return counted
    found = read_conversation(inputs, "input")
    if found is None or len(found.messages) < len(counted):
        return counted
    return conversation_messages(found.messages, inputs)


def _result(outputs: Any) -> ToolResult | None:
    """What a tool said, where LangChain has put a message around it."""
    if not is_object(outputs) or not (
        outputs.get("type") == "tool" or outputs.get("role") == "tool" or "lc" in outputs
    ):
        return None
    messages = messages_of([outputs], "output")
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    return results[0] if len(results) == 1 and results[0].output is not None else None


def _texts(attributes: Attributes, told: _Told, name: str, side: Prefer) -> tuple[Message, ...]:
    """What completions were asked and said; at first all of it stood in one list."""
    field = "prompt.text" if side == "input" else "completion.text"
    texts = [entry[field] for entry in _entries(told, name) if entry.get(field) is not None]
    return messages_of(texts or attributes.get(name), side)


def _inputs(attributes: Attributes, told: _Told) -> Any:
    value = _value(attributes, "input")
    if value is not UNSET:
        return value
    query, documents = attributes.get("reranker.query"), _documents(told, _TO_RANK)
    if query is None:
        return {"documents": documents} if documents else UNSET
    return {"query": query, "documents": documents} if documents else {"query": query}


def _outputs(attributes: Attributes, told: _Told) -> Any:
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
    return parsed(value) if isinstance(form, str) and "json" in form.lower() else opened(value)


def _documents(told: _Told, name: str) -> list[dict[str, Any]]:
    documents = [
        {field: entry[f"document.{field}"] for field in _ABOUT_DOCUMENTS if entry.get(f"document.{field}") is not None}
        for entry in _entries(told, name)
    ]
    for document in documents:
        if "metadata" in document:
            document["metadata"] = opened(document["metadata"])
    return [document for document in documents if document]


def _parameters(reader: Reader) -> dict[str, Any]:
    given = opened(reader.value("llm.invocation_parameters"))
    if not is_object(given):
        return {}
    return {name: value for name, value in given.items() if value is not None and name not in _NO_PARAMETERS}


def _tool(reader: Reader, kind: Kind | UnsetType, result: ToolResult | None) -> Tool | UnsetType:
    name, call_id = reader.label("tool.name"), reader.label("tool.id")
    if name is UNSET or not (kind is UNSET or kind == "tool"):
        return UNSET
    answers = result.call_id if result is not None else None
    return Tool(name=name, call_id=answers or None if call_id is UNSET else call_id)
