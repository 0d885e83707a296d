"""OpenLLMetry, Traceloop's instrumentations, up to version 0.54; since then they send gen_ai's names."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.extraction import Prefer
from palaver.core.json import is_object
from palaver.core.messages import Message
from palaver.traces.conventions.attributes import AttributeReader, Entry, collect_indexed, group_by_prefix, parse_tools
from palaver.traces.conventions.base import SpanFields
from palaver.traces.conventions.messages import FieldNames, build_elements, parse_messages, parse_parts
from palaver.traces.conventions.vocabulary import REQUEST_TYPE_KINDS, TRACELOOP_KINDS, lookup_kind, parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanKind, Tool

NAME: ConventionName = "openllmetry"
ROOTS: frozenset[str] = frozenset(("traceloop", "gen_ai", "llm"))

_FUNCTIONS = "llm.request.functions"
_PROMPTS, _COMPLETIONS = ("gen_ai.prompt", "llm.prompts"), ("gen_ai.completion", "llm.completions")
"""Under which messages are counted; the second names are those of the first versions."""
_PREFIXES = (*(f"{name}." for name in (*_PROMPTS, *_COMPLETIONS, _FUNCTIONS)), "traceloop.", "llm.request.type")
"""Of all that it knows. Every span with gen_ai's names is shown to it, and most have none of these."""
_NO_FIELDS = SpanFields()
_ENTITY, _ASSOCIATION = "traceloop.entity.", "traceloop.association.properties."
_SESSIONS = tuple(_ASSOCIATION + name for name in ("session_id", "conversation_id", "thread_id", "chat_id"))
_FIELD_NAMES = FieldNames()


def read(raw: RawSpan) -> SpanFields:
    """What the attributes of a span say."""
    attributes = raw.attributes
    told = group_by_prefix(attributes, _PREFIXES)
    if not told:
        return _NO_FIELDS
    reader = AttributeReader(attributes)
    kind = lookup_kind(attributes.get("traceloop.span.kind"), TRACELOOP_KINDS)
    return SpanFields(
        kind=lookup_kind(attributes.get("llm.request.type"), REQUEST_TYPE_KINDS) if kind is UNSET else kind,
        messages_in=_messages(told, _PROMPTS, "input"),
        messages_out=_messages(told, _COMPLETIONS, "output"),
        inputs=_inputs(reader.json(_ENTITY + "input")),
        outputs=_outputs(reader.json(_ENTITY + "output")),
        tools=parse_tools(_entries(told, _FUNCTIONS)),
        tool=_tool(reader, kind),
        finish=parse_finish(attributes.get("gen_ai.completion.0.finish_reason")),
        session=reader.label(*_SESSIONS),
        user=reader.label(_ASSOCIATION + "user_id"),
        workflow=reader.label("traceloop.workflow.name"),
    )


def _entries(told: dict[str, Entry], name: str) -> list[Entry]:
    family = told.get(f"{name}.")
    return collect_indexed(family, name) if family else []


def _messages(told: dict[str, Entry], names: tuple[str, ...], side: Prefer) -> tuple[Message, ...]:
    for name in names:
        entries = [said for entry in _entries(told, name) if (said := _message_entry(entry))]
        if name.startswith("llm."):  # OpenInference counts its prompts under the same name.
            entries = [entry for entry in entries if "role" in entry or "content" in entry]
        messages = parse_messages(build_elements(entries, _FIELD_NAMES), side)
        if messages:
            return messages
    return ()


def _message_entry(entry: Entry) -> Entry:
    """Without how the answer ended, which nobody said; parts that were written down as text are parts again."""
    said = {name: value for name, value in entry.items() if name != "finish_reason" and value is not None}
    content = said.get("content")
    if content is not None and said.get("role") != "tool":
        said["content"] = parse_parts(content)
    return said


def _inputs(given: Any) -> Any:
    """What an entity was given, out of what its framework, or the call of a Python function, puts around it."""
    if not is_object(given):
        return given
    if "inputs" in given:
        return given["inputs"]
    return given["kwargs"] if given.keys() == {"args", "kwargs"} and given["args"] == [] else given


def _outputs(given: Any) -> Any:
    return given["outputs"] if is_object(given) and "outputs" in given else given


def _tool(reader: AttributeReader, kind: SpanKind | UnsetType) -> Tool | UnsetType:
    name = reader.label(_ENTITY + "name") if kind == "tool" else UNSET
    return UNSET if name is UNSET else Tool(name=name)
