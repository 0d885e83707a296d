"""Schemas: what a workflow takes and gives, as JSON Schema documents (draft 2020-12, references local only)."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from palaver.core import json
from palaver.core.descriptions import Schemas
from palaver.workflows.annotations import Defs, Misfits, ValueSchema
from palaver.workflows.config_models import NO_DEFAULT
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
    parameters = _object(signature.settings.values(), is_open=False, messages=False)
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


def _alone(shape: ValueSchema) -> dict[str, Any]:
    defs: Defs = {}
    schema = _merged(shape, defs)
    return {"$schema": _DRAFT, **schema, **({"$defs": defs} if defs else {})} if schema else {}


def _default(argument: Argument) -> list[Any]:
    """A list of one; of none where there is no default, or only one that no caller may send (`x: int = None`)."""
    if argument.default is NO_DEFAULT:
        return []
    try:
        default = json.to_builtins(argument.default)
        argument.shape.read(default)
    except (json.NotJson, Misfits):
        return []
    return [default]


def _merged(shape: ValueSchema, defs: Defs) -> dict[str, Any]:
    """The shape's schema, its definitions moved into `defs`; two of one name that differ are told apart by a number."""
    schema, own = shape.schema()
    number = 0
    while True:
        number += 1
        tail = f"_{number}" if number > 1 else ""
        renamed = {f"#/$defs/{name}": f"#/$defs/{name}{tail}" for name in own}
        moved = {f"{name}{tail}": _pointed(definition, renamed) for name, definition in own.items()}
        if all(defs.get(name, definition) == definition for name, definition in moved.items()):
            defs |= moved
            return _pointed(schema, renamed)


def _pointed(schema: Any, renamed: Mapping[str, str]) -> Any:
    """The schema with its references, and a discriminator's mapping, under their new names."""
    match schema:
        case str():
            return renamed.get(schema, schema)
        case dict():
            return {key: _pointed(value, renamed) for key, value in cast("dict[str, Any]", schema).items()}
        case list():
            return [_pointed(item, renamed) for item in cast("list[Any]", schema)]
        case _:
            return schema
