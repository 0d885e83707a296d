"""OpenLLMetry, Traceloop's instrumentations, up to version 0.54. Later versions send gen_ai's names."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.extraction import Prefer
from palaver.core.json import is_object
from palaver.core.messages import Message
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Entry,
    SpanFields,
    collect_group,
    group_by_prefix,
    parse_tools,
    unwrap_arguments,
)
from palaver.traces.conventions.messages import FieldNames, build_elements, parse_messages, parse_parts
from palaver.traces.conventions.vocabulary import REQUEST_TYPE_KINDS, TRACELOOP_KINDS, lookup_kind, parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanKind, Tool

NAME: ConventionName = "openllmetry"
ROOTS: frozenset[str] = frozenset(("traceloop", "gen_ai", "llm"))

_FUNCTIONS = "llm.request.functions"
_PROMPTS, _COMPLETIONS = ("gen_ai.prompt", "llm.prompts"), ("gen_ai.completion", "llm.completions")
"""Prefixes of indexed messages. The first versions used `llm.prompts` and `llm.completions`."""
_PREFIXES = (*(f"{name}." for name in (*_PROMPTS, *_COMPLETIONS, _FUNCTIONS)), "traceloop.", "llm.request.type")
"""Prefixes of all attributes that are read here. Most gen_ai spans have none of them and are skipped early."""
_NO_FIELDS = SpanFields()
_ENTITY, _ASSOCIATION = "traceloop.entity.", "traceloop.association.properties."
_SESSIONS = tuple(_ASSOCIATION + name for name in ("session_id", "conversation_id", "thread_id", "chat_id"))
_FIELD_NAMES = FieldNames()


def read_fields(raw: RawSpan) -> SpanFields:
    attributes = raw.attributes
    groups = group_by_prefix(attributes, _PREFIXES)
    if not groups:
        return _NO_FIELDS
    reader = AttributeReader(attributes)
    kind = lookup_kind(attributes.get("traceloop.span.kind"), TRACELOOP_KINDS)
    return SpanFields(
        kind=lookup_kind(attributes.get("llm.request.type"), REQUEST_TYPE_KINDS) if kind is UNSET else kind,
        messages_in=_messages(groups, _PROMPTS, "input"),
        messages_out=_messages(groups, _COMPLETIONS, "output"),
        inputs=_inputs(reader.json(_ENTITY + "input")),
        outputs=_outputs(reader.json(_ENTITY + "output")),
        tools=parse_tools(collect_group(groups, _FUNCTIONS)),
        tool=_tool(reader, kind),
        finish=parse_finish(attributes.get("gen_ai.completion.0.finish_reason")),
        session=reader.label(*_SESSIONS),
        user=reader.label(_ASSOCIATION + "user_id"),
        workflow=reader.label("traceloop.workflow.name"),
    )


def _messages(groups: dict[str, Entry], names: tuple[str, ...], side: Prefer) -> tuple[Message, ...]:
    for name in names:
        entries = [message for entry in collect_group(groups, name) if (message := _message_entry(entry))]
        if name.startswith("llm."):  # OpenInference uses the same prefix for its prompts.
            entries = [entry for entry in entries if "role" in entry or "content" in entry]
        messages = parse_messages(build_elements(entries, _FIELD_NAMES), side)
        if messages:
            return messages
    return ()


def _message_entry(entry: Entry) -> Entry:
    """Remove the finish reason, and parse content parts that were sent as text."""
    message = {name: value for name, value in entry.items() if name != "finish_reason" and value is not None}
    content = message.get("content")
    if content is not None and message.get("role") != "tool":
        message["content"] = parse_parts(content)
    return message


def _inputs(value: Any) -> Any:
    """Unwrap the input from the envelope of a framework or a Python call."""
    if not is_object(value):
        return value
    return value["inputs"] if "inputs" in value else unwrap_arguments(value)


def _outputs(value: Any) -> Any:
    return value["outputs"] if is_object(value) and "outputs" in value else value


def _tool(reader: AttributeReader, kind: SpanKind | UnsetType) -> Tool | UnsetType:
    name = reader.label(_ENTITY + "name") if kind == "tool" else UNSET
    return UNSET if name is UNSET else Tool(name=name)
