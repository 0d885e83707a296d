"""MLflow's spans. Every `mlflow.*` value is JSON text, plain strings too (`"\\"LLM\\""`): it is decoded once."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.json import is_object
from palaver.traces.conventions.base import Found
from palaver.traces.conventions.definitions import defined
from palaver.traces.conventions.meanings import MLFLOW, kind_of
from palaver.traces.conventions.reading import Attributes, Reader, label, parsed
from palaver.traces.record import Convention, Kind, Raw, Tool

NAME: Convention = "mlflow"
ROOTS: frozenset[str] = frozenset(("mlflow",))

_USAGE, _COST = "mlflow.chat.tokenUsage", "mlflow.llm.cost"


def read(raw: Raw) -> Found:
    """What the attributes of a span say."""
    attributes = raw.attributes
    reader = Reader({**_inside(attributes, _USAGE), **_inside(attributes, _COST)})
    tools = parsed(attributes.get("mlflow.chat.tools"))
    kind = kind_of(parsed(attributes.get("mlflow.spanType")), MLFLOW)
    return Found(
        kind=kind,
        inputs=_value(attributes, "mlflow.spanInputs"),
        outputs=_value(attributes, "mlflow.spanOutputs"),
        tools=() if tools is None else defined(tools),
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


def _inside(attributes: Attributes, name: str) -> dict[str, Any]:
    """What an object holds, each under the name it would have as an attribute."""
    told = parsed(attributes.get(name))
    return {f"{name}.{key}": value for key, value in told.items()} if is_object(told) else {}


def _value(attributes: Attributes, name: str) -> Any:
    value = attributes.get(name)
    return UNSET if value is None else parsed(value)


def _tool(raw: Raw, kind: Kind | UnsetType) -> Tool | UnsetType:
    """Its function, or what its span is called: it has no name of its own."""
    name = _label(raw.attributes, "mlflow.spanFunctionName") or label(raw.name)
    return Tool(name=name) if kind == "tool" and name else UNSET


def _label(attributes: Attributes, name: str) -> str | UnsetType:
    """`"s-1"` with its quotes or without; a session that is called `1.5` is no number."""
    given = attributes.get(name)
    told = parsed(given)
    if told is None:
        return UNSET
    return label(told if isinstance(told, str) else given) or UNSET
