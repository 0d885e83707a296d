"""/openapi.json: the REST API's document and every workflow's operations in one (OpenAPI 3.1)."""

from collections.abc import Iterable
from typing import Any

from palaver.core.descriptions import Description

_ERRORS: dict[str, Any] = {"description": "An error: see docs/errors.md.", "content": {"application/json": {}}}


def document(descriptions: Iterable[Description], default: str | None, api: Any, version: str) -> dict[str, Any]:
    """The joined document. The flag `is_chat` stands on each operation; `messages` is in a /run body only for a chat."""
    whole: dict[str, Any] = api.openapi_schema.to_schema()
    paths: dict[str, Any] = dict(whole.get("paths", {}))
    for description in descriptions:
        prefixes = [f"/{description.name}", *([""] if description.name == default else [])]
        for prefix in prefixes:
            paths |= _operations(description, prefix)
    return {**whole, "openapi": "3.1.0", "info": {"title": "Palaver", "version": version}, "paths": paths}


def _operations(description: Description, prefix: str) -> dict[str, Any]:
    tag = prefix.strip("/") or "default"
    return {
        f"{prefix}/inspect": {
            "get": _operation(description, f"{tag}_inspect", "What it is and what it takes", body=None, flags=False),
            "post": _operation(description, f"{tag}_inspect_post", "The same", body={"type": "object"}, flags=False),
        },
        f"{prefix}/invoke": {"post": _operation(description, f"{tag}_invoke", "Call it", body=_invoke_body(description))},
        f"{prefix}/run": {"post": _operation(description, f"{tag}_run", "Call it", body=_flat_body(description))},
        f"{prefix}/test": {"post": _operation(description, f"{tag}_test", "Call it", body=_flat_body(description))},
    }


def _operation(
    description: Description, name: str, summary: str, *, body: dict[str, Any] | None, flags: bool = True
) -> dict[str, Any]:
    answers = {"200": {"description": "The answer.", "content": {"application/json": {}}}, "4XX": _ERRORS, "5XX": _ERRORS}
    operation: dict[str, Any] = {"operationId": name, "summary": summary, "responses": answers}
    if description.description:
        operation["description"] = description.description
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if flags:
        operation["x-agenta"] = {"flags": dict(description.flags)}
    return operation


def _flat_body(description: Description) -> dict[str, Any]:
    inputs, defs = _split(description.schemas.inputs)
    parameters, more = _split(description.schemas.parameters)
    properties: dict[str, Any] = {"inputs": inputs, "ag_config": parameters}
    if description.is_chat:
        messages = inputs.get("properties", {}).get("messages", {"type": "array", "items": {"type": "object"}})
        own = {name: schema for name, schema in inputs.get("properties", {}).items() if name != "messages"}
        needed = [name for name in inputs.get("required", []) if name != "messages"]
        properties = {"messages": messages, **properties, "inputs": {**inputs, "properties": own, "required": needed}}
    document: dict[str, Any] = {"type": "object", "properties": properties}
    return document | ({"$defs": {**defs, **more}} if defs or more else {})


def _invoke_body(description: Description) -> dict[str, Any]:
    inputs, defs = _split(description.schemas.inputs)
    parameters, more = _split(description.schemas.parameters)
    data = {"type": "object", "properties": {"inputs": inputs, "parameters": parameters}}
    flat = _flat_body(description)
    document: dict[str, Any] = {"type": "object", "properties": {**flat["properties"], "data": data}}
    return document | ({"$defs": {**defs, **more}} if defs or more else {})


def _split(schema: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema and its definitions apart: local references point at the top of the body's schema."""
    rest = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    return rest, dict(schema.get("$defs", {}))
