"""JSON Schema documents of a workflow's inputs, parameters and outputs (draft 2020-12, local references only)."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from palaver.core import json
from palaver.core.descriptions import Schemas
from palaver.workflows.annotations import Defs, SchemaErrors, ValueSchema
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
    """Return the three documents. Only a chat's have the marker `x-ag-type-ref`, from which clients derive "chat"."""
    inputs = _object(signature.by_use("input"), is_open=signature.accepts_extra, messages=is_chat)
    parameters = _object(signature.settings.values(), is_open=False, messages=False)
    return Schemas(
        inputs=inputs, parameters=parameters, outputs=dict(_REPLY) if is_chat else _single_schema(signature.returns)
    )


def defaults_of(arguments: Iterable[Argument]) -> dict[str, Any]:
    """Return the Python defaults that are JSON."""
    return {argument.name: default for argument in arguments for default in _default(argument)}


def _object(arguments: Iterable[Argument], *, is_open: bool, messages: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {"messages": dict(_MESSAGES)} if messages else {}
    required = ["messages"] if messages else []
    defs: Defs = {}
    for argument in arguments:
        schema = _merge_definitions(argument.schema, defs)
        if argument.description and "description" not in schema:
            schema["description"] = argument.description
        for default in _default(argument):
            schema["default"] = default
        if argument.required:
            required.append(argument.name)
        properties[argument.name] = schema
    document = {"$schema": _DRAFT, "type": "object", "properties": properties, "additionalProperties": is_open}
    return document | ({"required": required} if required else {}) | ({"$defs": defs} if defs else {})


def _single_schema(shape: ValueSchema) -> dict[str, Any]:
    defs: Defs = {}
    schema = _merge_definitions(shape, defs)
    return {"$schema": _DRAFT, **schema, **({"$defs": defs} if defs else {})} if schema else {}


def _default(argument: Argument) -> list[Any]:
    """Return the default in a list, empty if there is none or its type is not allowed (`x: int = None`)."""
    if argument.default is NO_DEFAULT:
        return []
    try:
        default = json.to_builtins(argument.default)
        argument.schema.read(default)
    except (json.NotJson, SchemaErrors):
        return []
    return [default]


def _merge_definitions(shape: ValueSchema, defs: Defs) -> dict[str, Any]:
    """Return the schema with its definitions moved into `defs`; conflicting names get a number."""
    schema, definitions = shape.schema()
    number = 0
    while True:
        number += 1
        tail = f"_{number}" if number > 1 else ""
        renamed = {f"#/$defs/{name}": f"#/$defs/{name}{tail}" for name in definitions}
        moved = {f"{name}{tail}": _rename_references(definition, renamed) for name, definition in definitions.items()}
        if all(defs.get(name, definition) == definition for name, definition in moved.items()):
            defs |= moved
            return _rename_references(schema, renamed)


def _rename_references(schema: Any, renamed: Mapping[str, str]) -> Any:
    match schema:
        case str():
            return renamed.get(schema, schema)
        case dict():
            return {key: _rename_references(value, renamed) for key, value in cast("dict[str, Any]", schema).items()}
        case list():
            return [_rename_references(item, renamed) for item in cast("list[Any]", schema)]
        case _:
            return schema
