"""Agenta's SDK, `ag.*`. Values are prefixed with their type: `@ag.type=json:{…}`, `@ag.type=none:`."""

from typing import Any

from msgspec import UNSET

from palaver.core.extraction import Prefer
from palaver.core.json import is_object
from palaver.core.messages import Message
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Attributes,
    Entry,
    SpanFields,
    collect_indexed,
    group_by_prefix,
    parse_container,
    parse_json,
    parse_label,
)
from palaver.traces.conventions.messages import FieldNames, build_elements, parse_messages
from palaver.traces.conventions.vocabulary import AGENTA_KINDS, lookup_kind
from palaver.traces.model import ConventionName, RawSpan, Tool

NAME: ConventionName = "agenta"
ROOTS: frozenset[str] = frozenset(("ag",))

_JSON, _NONE = "@ag.type=json:", "@ag.type=none:"
_INPUTS, _OUTPUTS, _PARAMETERS = "ag.data.inputs", "ag.data.outputs", "ag.data.parameters"
_DATA_PREFIXES = tuple(f"{name}." for name in (_INPUTS, _OUTPUTS, _PARAMETERS))
_PROMPT, _COMPLETION = "prompt", "completion"
"""Names under which messages are indexed, in inputs and in outputs."""
_DEFAULT_KEY_ONLY = {"__default__"}
"""The keys of an object that wraps a value of another type."""
_FIELD_NAMES = FieldNames()
_METRICS = "ag.metrics."


def read_fields(raw: RawSpan) -> SpanFields:
    attributes = raw.attributes
    reader, below = AttributeReader(attributes), group_by_prefix(attributes, _DATA_PREFIXES)
    inputs, outputs = _strip_prefix(below, _INPUTS), _strip_prefix(below, _OUTPUTS)
    kind = lookup_kind(attributes.get("ag.type.node"), AGENTA_KINDS)
    kind = lookup_kind(attributes.get("ag.type.span"), AGENTA_KINDS) if kind is UNSET else kind
    tool_name = parse_label(raw.name) if kind == "tool" else None
    return SpanFields(
        kind=kind,
        tool=UNSET if tool_name is None else Tool(tool_name),
        messages_in=_messages(inputs, _PROMPT, "input"),
        messages_out=_messages(outputs, _COMPLETION, "output"),
        inputs=_merge_value(attributes.get(_INPUTS), inputs, _PROMPT),
        outputs=_merge_value(attributes.get(_OUTPUTS), outputs, _COMPLETION),
        parameters=_parameters(attributes, _strip_prefix(below, _PARAMETERS)),
        input_tokens=reader.count(_METRICS + "unit.tokens.prompt", _METRICS + "tokens.incremental.prompt"),
        output_tokens=reader.count(_METRICS + "unit.tokens.completion", _METRICS + "tokens.incremental.completion"),
        cost=reader.amount(_METRICS + "unit.costs.total", _METRICS + "costs.incremental.total"),
        model=reader.label("ag.meta.response.model", "ag.meta.request.model"),
        provider=reader.label("ag.meta.provider.name", "ag.meta.system"),
        session=reader.label("ag.session.id"),
        user=reader.label("ag.user.id"),
        notes=tuple(reader.notes),
    )


def _strip_prefix(below: dict[str, Entry], name: str) -> Entry:
    start = len(name) + 1
    return {key[start:]: value for key, value in below.get(f"{name}.", {}).items() if value is not None}


def _merge_value(attribute: Any, keys: Entry, messages_key: str) -> Any:
    """Merge an attribute's value with those below it, each of which is one key, without indexed messages."""
    value = UNSET if attribute is None else _parse_value(attribute)
    below = {key: _parse_value(item) for key, item in keys.items() if key and not _is_message_key(key, messages_key)}
    if below:
        value = below if value is UNSET else {**value, **below} if is_object(value) else value
    return value["__default__"] if is_object(value) and value.keys() == _DEFAULT_KEY_ONLY else value


def _is_message_key(key: str, root: str) -> bool:
    first, dot, suffix = key.partition(".")
    return first == root and bool(dot) and suffix.partition(".")[0].isdecimal()


def _parse_value(value: Any) -> Any:
    typed = _parse_typed(value)
    return parse_container(typed) if typed is value else typed


def _parse_typed(value: Any) -> Any:
    """Parse a value with a type prefix; return any other unchanged."""
    if type(value) is not str or not value.startswith("@ag.type="):
        return value
    if value.startswith(_JSON):
        return parse_json(value[len(_JSON) :])
    return None if value.startswith(_NONE) else value


def _messages(keys: Entry, name: str, side: Prefer) -> tuple[Message, ...]:
    entries = collect_indexed(keys, name)
    typed_entries = [{field: _parse_typed(value) for field, value in entry.items()} for entry in entries]
    return parse_messages(build_elements(typed_entries, _FIELD_NAMES), side) if typed_entries else ()


def _parameters(attributes: Attributes, keys: Entry) -> dict[str, Any]:
    parameters = _merge_value(attributes.get(_PARAMETERS), keys, "")
    return {name: value for name, value in parameters.items() if name != "model"} if is_object(parameters) else {}
