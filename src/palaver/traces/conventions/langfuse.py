"""Langfuse's SDK, `langfuse.observation.*` and `langfuse.trace.*`. Inputs, outputs and details are JSON texts."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.json import dict_or_empty, is_object
from palaver.traces.conventions.attributes import (
    AttributeReader,
    SpanFields,
    parse_container,
    parse_label,
    parse_tools,
    unwrap_arguments,
)
from palaver.traces.conventions.vocabulary import LANGFUSE_KINDS, lookup_kind
from palaver.traces.model import ConventionName, RawSpan, SpanKind, Tool

NAME: ConventionName = "langfuse"
ROOTS: frozenset[str] = frozenset(("langfuse",))

_OBSERVATION, _TRACE = "langfuse.observation.", "langfuse.trace."
_INPUT_TOKENS = ("input", "prompt_tokens", "input_tokens")
_OUTPUT_TOKENS = ("output", "completion_tokens", "output_tokens")
_CACHED_TOKENS = (
    "input_cached_tokens",
    "cache_read_input_tokens",
    "input_cache_read",
    "prompt_tokens_details.cached_tokens",
)
_CREATION_TOKENS = ("cache_creation_input_tokens", "input_cache_creation")
_REASONING_TOKENS = ("output_reasoning_tokens", "output_reasoning", "completion_tokens_details.reasoning_tokens")


def read_fields(raw: RawSpan) -> SpanFields:
    reader = AttributeReader(raw.attributes)
    kind = lookup_kind(reader.value(_OBSERVATION + "type"), LANGFUSE_KINDS)
    inputs = parse_container(reader.value(_OBSERVATION + "input", _TRACE + "input"))
    usage, cost = _details(reader, "usage_details"), _details(reader, "cost_details")
    model_tools = dict_or_empty(inputs).get("tools") if kind == "llm" else None
    return SpanFields(
        kind=kind,
        inputs=inputs if kind == "llm" else unwrap_arguments(inputs),
        outputs=parse_container(reader.value(_OBSERVATION + "output", _TRACE + "output")),
        parameters=_parameters(reader),
        tools=parse_tools(model_tools),
        tool=_tool(raw, kind),
        input_tokens=usage.count(*_INPUT_TOKENS),
        output_tokens=usage.count(*_OUTPUT_TOKENS),
        cached_input_tokens=usage.count(*_CACHED_TOKENS),
        cache_creation_input_tokens=usage.count(*_CREATION_TOKENS),
        reasoning_tokens=usage.count(*_REASONING_TOKENS),
        cost=cost.amount("total"),
        model=reader.label(_OBSERVATION + "model.name"),
        workflow=_workflow(raw, reader, kind),
        notes=tuple(f"{note.replace(':', f':{_OBSERVATION}', 1)}" for note in (*usage.notes, *cost.notes)),
    )


def _details(reader: AttributeReader, name: str) -> AttributeReader:
    """Return a reader of the numbers in an attribute. OpenAI's details are objects of their own."""
    details = dict_or_empty(parse_container(reader.value(_OBSERVATION + name)))
    nested = {f"{key}.{name}": item for key, value in details.items() for name, item in dict_or_empty(value).items()}
    return AttributeReader({**details, **nested})


def _parameters(reader: AttributeReader) -> dict[str, Any]:
    """Read the parameters of the model; a limit that was not set is `Infinity`."""
    parameters = parse_container(reader.value(_OBSERVATION + "model.parameters"))
    if not is_object(parameters):
        return {}
    return {name: value for name, value in parameters.items() if value is not None and value != "Infinity"}


def _tool(raw: RawSpan, kind: SpanKind | UnsetType) -> Tool | UnsetType:
    name = parse_label(raw.name)
    return Tool(name) if kind == "tool" and name is not None else UNSET


def _workflow(raw: RawSpan, reader: AttributeReader, kind: SpanKind | UnsetType) -> str | UnsetType:
    name = reader.label(_TRACE + "name")
    return name if name is not UNSET or kind != "agent" else parse_label(raw.name) or UNSET
