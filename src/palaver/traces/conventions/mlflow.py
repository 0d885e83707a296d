"""MLflow's spans. Every `mlflow.*` value is JSON text, plain strings too (`"\\"LLM\\""`), and is decoded once."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.json import is_object
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Attributes,
    SpanFields,
    parse_json,
    parse_label,
    parse_tools,
)
from palaver.traces.conventions.vocabulary import MLFLOW_KINDS, lookup_kind
from palaver.traces.model import ConventionName, RawSpan, SpanKind, Tool

NAME: ConventionName = "mlflow"
ROOTS: frozenset[str] = frozenset(("mlflow",))

_USAGE, _COST = "mlflow.chat.tokenUsage", "mlflow.llm.cost"


def read_fields(raw: RawSpan) -> SpanFields:
    attributes = raw.attributes
    reader = AttributeReader({**_flatten(attributes, _USAGE), **_flatten(attributes, _COST)})
    tools = parse_json(attributes.get("mlflow.chat.tools"))
    kind = lookup_kind(parse_json(attributes.get("mlflow.spanType")), MLFLOW_KINDS)
    return SpanFields(
        kind=kind,
        inputs=_value(attributes, "mlflow.spanInputs"),
        outputs=_value(attributes, "mlflow.spanOutputs"),
        tools=() if tools is None else parse_tools(tools),
        tool=_tool(raw, kind),
        input_tokens=reader.count(f"{_USAGE}.input_tokens"),
        output_tokens=reader.count(f"{_USAGE}.output_tokens"),
        cached_input_tokens=reader.count(f"{_USAGE}.cache_read_input_tokens"),
        cache_creation_input_tokens=reader.count(f"{_USAGE}.cache_creation_input_tokens"),
        cost=reader.amount(f"{_COST}.total_cost"),
        model=_label(attributes, "mlflow.llm.model"),
        provider=_label(attributes, "mlflow.llm.provider"),
        session=_label(attributes, "mlflow.trace.session"),
        user=_label(attributes, "mlflow.trace.user"),
        notes=tuple(reader.notes),
    )


def _flatten(attributes: Attributes, name: str) -> dict[str, Any]:
    """Return the items of an object under the names they would have as attributes."""
    value = parse_json(attributes.get(name))
    return {f"{name}.{key}": item for key, item in value.items()} if is_object(value) else {}


def _value(attributes: Attributes, name: str) -> Any:
    value = attributes.get(name)
    return UNSET if value is None else parse_json(value)


def _tool(raw: RawSpan, kind: SpanKind | UnsetType) -> Tool | UnsetType:
    """Return the tool by its function's name or the span's name."""
    name = _label(raw.attributes, "mlflow.spanFunctionName") or parse_label(raw.name)
    return Tool(name=name) if kind == "tool" and name else UNSET


def _label(attributes: Attributes, name: str) -> str | UnsetType:
    """Return a label with or without JSON quotes; a session named `1.5` stays text."""
    value = attributes.get(name)
    parsed = parse_json(value)
    if parsed is None:
        return UNSET
    return parse_label(parsed if isinstance(parsed, str) else value) or UNSET
