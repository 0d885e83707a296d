"""Schemas: what a workflow takes and gives, as JSON Schema documents (draft 2020-12, references local only)."""

from collections.abc import Iterable, Mapping
from typing import Any

from palaver.core import jsons
from palaver.core.descriptions import Schemas
from palaver.workflows.shapes import Defs, Shape
from palaver.workflows.signature import Argument, Signature

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MESSAGES: dict[str, Any] = {"type": "array", "items": {"type": "object"}, "x-ag-type-ref": "messages"}
_REPLY: dict[str, Any] = {
    "$schema": _DRAFT,
    "x-ag-type-ref": "message",
    "anyOf": [
        {"type": "object", "required": ["role"]},
        {"type": "array", "items": {"type": "object", "required": ["role"]}, "x-ag-type-ref": "messages"},
    ],
}


def schemas_of(signature: Signature, *, is_chat: bool) -> Schemas:
    """The three documents; only a chat's carry the marker `x-ag-type-ref`, from which others derive "chat"."""
    inputs = _object(signature.of("input"), is_open=signature.open, messages=is_chat)
    parameters = _object(signature.fields.values(), is_open=False, messages=False)
    return Schemas(inputs=inputs, parameters=parameters, outputs=dict(_REPLY) if is_chat else _alone(signature.returns))


def defaults_of(arguments: Iterable[Argument]) -> dict[str, Any]:
    """The Python defaults that are JSON."""
    return {argument.name: default for argument in arguments for default in _default(argument)}


def _object(arguments: Iterable[Argument], *, is_open: bool, messages: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {"messages": dict(_MESSAGES)} if messages else {}
    required = ["messages"] if messages else []
    defs: Defs = {}
    for argument in arguments:
        schema = _merged(argument.shape, defs)
        if argument.description and "description" not in schema:
            schema["description"] = argument.description
        for default in _default(argument):
            schema["default"] = default
        if argument.required:
            required.append(argument.name)
        properties[argument.name] = schema
    document = {"$schema": _DRAFT, "type": "object", "properties": properties, "additionalProperties": is_open}
    return document | ({"required": required} if required else {}) | ({"$defs": defs} if defs else {})


def _alone(shape: Shape) -> dict[str, Any]:
    defs: Defs = {}
    schema = _merged(shape, defs)
    return {"$schema": _DRAFT, **schema, **({"$defs": defs} if defs else {})} if schema else {}


def _default(argument: Argument) -> list[Any]:
    """A list of one, or of none where there is no default or it is not JSON."""
    if argument.required:
        return []
    try:
        return [jsons.plain(argument.default)]
    except jsons.NotJson:
        return []


def _merged(shape: Shape, defs: Defs) -> dict[str, Any]:
    """The shape's schema, its definitions moved into `defs`; two of one name that differ are told apart by a number."""
    schema, own = shape.schema()
    renamed: dict[str, str] = {}
    for name, definition in own.items():
        free, number = name, 2
        while free in defs and defs[free] != definition:
            free, number = f"{name}_{number}", number + 1
        renamed[f"#/$defs/{name}"] = f"#/$defs/{free}"
        defs[free] = definition
    if all(old == new for old, new in renamed.items()):
        return schema
    for new in renamed.values():
        name = new.removeprefix("#/$defs/")
        defs[name] = _pointed(defs[name], renamed)
    return _pointed(schema, renamed)


def _pointed(schema: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(schema, dict):
        return {
            key: renamed.get(value, value) if key == "$ref" else _pointed(value, renamed)
            for key, value in schema.items()  # pyright: ignore[reportUnknownVariableType]  # JSON
        }
    return [_pointed(item, renamed) for item in schema] if isinstance(schema, list) else schema  # pyright: ignore[reportUnknownVariableType]
