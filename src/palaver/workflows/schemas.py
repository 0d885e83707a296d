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
    inputs = _object_schema(signature.by_use("input"), allows_extra=signature.accepts_extra, has_messages=is_chat)
    parameters = _object_schema(signature.settings.values(), allows_extra=False, has_messages=False)
    return Schemas(
        inputs=inputs, parameters=parameters, outputs=dict(_REPLY) if is_chat else _single_schema(signature.returns)
    )


def defaults_of(arguments: Iterable[Argument]) -> dict[str, Any]:
    """Return the Python defaults that are JSON."""
    return {argument.name: default for argument in arguments for default in _json_default(argument)}


def _object_schema(arguments: Iterable[Argument], *, allows_extra: bool, has_messages: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {"messages": dict(_MESSAGES)} if has_messages else {}
    required = ["messages"] if has_messages else []
    defs: Defs = {}
    for argument in arguments:
        schema = _merge_definitions(argument.schema, defs)
        if argument.description and "description" not in schema:
            schema["description"] = argument.description
        for default in _json_default(argument):
            schema["default"] = default
        if argument.required:
            required.append(argument.name)
        properties[argument.name] = schema
    document = {"$schema": _DRAFT, "type": "object", "properties": properties, "additionalProperties": allows_extra}
    return document | ({"required": required} if required else {}) | ({"$defs": defs} if defs else {})


def _single_schema(value_schema: ValueSchema) -> dict[str, Any]:
    defs: Defs = {}
    schema = _merge_definitions(value_schema, defs)
    return {"$schema": _DRAFT, **schema, **({"$defs": defs} if defs else {})} if schema else {}


def _json_default(argument: Argument) -> list[Any]:
    """Return the default in a list, empty if there is none or its type is not allowed (`x: int = None`)."""
    if argument.default is NO_DEFAULT:
        return []
    try:
        default = json.to_builtins(argument.default)
        argument.schema.read(default)
    except (json.NotJson, SchemaErrors):
        return []
    return [default]


def _merge_definitions(value_schema: ValueSchema, defs: Defs) -> dict[str, Any]:
    """Return the schema with its definitions moved into `defs`; conflicting names get a number."""
    schema, definitions = value_schema.schema()
    number = 0
    while True:
        number += 1
        suffix = f"_{number}" if number > 1 else ""
        new_refs = {f"#/$defs/{name}": f"#/$defs/{name}{suffix}" for name in definitions}
        additions = {f"{name}{suffix}": _rename_refs(definition, new_refs) for name, definition in definitions.items()}
        if all(defs.get(name, definition) == definition for name, definition in additions.items()):
            defs |= additions
            return _rename_refs(schema, new_refs)


def _rename_refs(schema: Any, new_refs: Mapping[str, str]) -> Any:
    match schema:
        case str():
            return new_refs.get(schema, schema)
        case dict():
            return {key: _rename_refs(value, new_refs) for key, value in cast("dict[str, Any]", schema).items()}
        case list():
            return [_rename_refs(item, new_refs) for item in cast("list[Any]", schema)]
        case _:
            return schema
