"""/openapi.json: the REST API and the operations of every workflow (OpenAPI 3.1)."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from palaver.core.descriptions import Description

_JSON: dict[str, Any] = {"application/json": {}}
_STREAM: dict[str, Any] = {"text/event-stream": {}}
_ERROR: dict[str, Any] = {"description": "An error with a code and a message.", "content": _JSON}
_RESULTS: dict[str, Any] = {"200": {"description": "The response.", "content": _JSON}, "4XX": _ERROR, "5XX": _ERROR}

_INPUTS: dict[str, Any] = {"custom_inputs": {"type": "object"}, "parameters": {"type": "object"}}
_TEXT_OR_ITEMS: dict[str, Any] = {"type": ["string", "array"]}
_MESSAGES: dict[str, Any] = {"type": "array", "items": {"type": "object"}}


def _object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_FLAG = {"type": "boolean"}
_RESPONSES_BODY = _object_schema(input=_TEXT_OR_ITEMS, model={"type": "string"}, stream=_FLAG, **_INPUTS)
_PROTOCOL_OPERATIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "v1/responses": ("OpenAI Responses", _RESPONSES_BODY),
    "invocations": ("OpenAI Responses, for MLflow clients", _RESPONSES_BODY),
    "v1/chat/completions": (
        "Chat Completions",
        _object_schema(messages=_MESSAGES, model={"type": "string"}, stream=_FLAG, **_INPUTS),
    ),
    "api/chat": ("AI SDK UI message stream", _object_schema(id={"type": "string"}, messages=_MESSAGES)),
}
"""Operations of every workflow in the protocols of other projects, which document the details."""
_SERVICE_FIELDS: dict[str, Any] = {
    "api_key": {"type": ["string", "null"]},
    "stream": {"type": ["boolean", "null"]},
    "metrics_opt_in": {"type": ["boolean", "null"]},
    "meta": {},
}
_CHAT_SERVICE_FIELDS: dict[str, Any] = {
    "content": {"type": "string"},
    "history": {"type": ["array", "null"], "items": {"type": "object"}},
    "messages": _MESSAGES,
    "parameters": {"type": ["object", "null"]},
}
"""Fields of a payload besides the workflow's inputs."""
_PATH_PARAMETERS: Mapping[str, str] = {
    "board": "Id of the board.",
    "cell": "Id of the result.",
    "evaluation": "Id of the evaluation.",
    "file_id": "Id of the file.",
    "item": "Id of the review item.",
    "key": "Key of the evaluator.",
    "key_id": "Id of the API key.",
    "message": "Id of the message.",
    "name": "Name of the workflow.",
    "number": "Number of the version.",
    "review": "Id of the review.",
    "revision": "A revision number, a digest or digest prefix, or `head`.",
    "row": "Id of the row.",
    "rule": "Id of the live evaluator.",
    "run": "Id of the run.",
    "session": "Name of the session.",
    "span": "Id of the span.",
    "testset": "Id of the test set.",
    "thread": "Id of the thread.",
    "trace": "Id of the trace.",
    "variant": "Id of the variant.",
    "view": "Id of the saved view.",
    "workflow": "Name of the workflow.",
}
_QUERY_PARAMETERS: Mapping[str, str] = {
    "archived": "Whether to include archived items.",
    "below": "What happens to the messages below: `delete` deletes them too, `keep` moves them up to the parent.",
    "board": "Id of a board.",
    "branches": "Which branches to export.",
    "by": "Length of each bucket.",
    "description": "Description of the test set.",
    "dry_run": "Only report what would be imported.",
    "evaluation": "Id of an evaluation.",
    "evaluator": "Name of an evaluator's scores.",
    "format": "The file format.",
    "from": "The older version: a number, or a reference such as `other:1`.",
    "group": "Field to group by.",
    "ids": "Whether to include the ids of rows.",
    "key": "Id of an API key.",
    "message": "The commit message of the new revision.",
    "meta": "Whether to return metadata instead of the content.",
    "origin": "Where the thread comes from, such as `playground`, `copy` or `import`.",
    "pinned": "Whether the thread is pinned.",
    "protocol": "Protocol of the call, such as `responses`.",
    "purge": "Whether to delete permanently (admin only).",
    "rating": "The rating.",
    "row": "Id of a row.",
    "run": "Id of an evaluation.",
    "testset": "Id of a test set.",
    "thread": "Id of a thread.",
    "to": "The newer version: a number, or a reference such as `other:1`.",
    "traces": "Whether to also delete the traces of the thread's runs.",
    "user": "Label of an end user.",
    "variant": "Name of a variant. When filtering runs, also `name:version`.",
    "whole": "Whether to return long text in full.",
    "workflow": "Name of a workflow.",
}
"""Descriptions of parameters that mean the same in every operation and that the controllers therefore leave out."""


def openapi_document(
    descriptions: Iterable[Description], default: str | None, api: Any, version: str
) -> dict[str, Any]:
    """Build the whole document. Each operation has `is_chat`; only chats have `messages` in the body of /run."""
    document: dict[str, Any] = api.openapi_schema.to_schema()
    paths: dict[str, Any] = _describe_parameters(document.get("paths", {}))
    components: dict[str, Any] = dict(document.get("components", {}))
    schemas = components["schemas"] = dict(components.get("schemas", {}))
    for description in descriptions:
        bodies = _RequestBodies(description)
        schemas |= bodies.definitions
        for prefix in [f"/{description.name}", *([""] if description.name == default else [])]:
            paths |= _operations(description, bodies, prefix)
        paths |= _service_operations(description, bodies.service)
    info = {"title": "Palaver", "version": version}
    return {**document, "openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _describe_parameters(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paths with a description of every parameter."""
    return {
        path: {
            method: {**operation, "parameters": [_described(parameter) for parameter in operation["parameters"]]}
            if "parameters" in operation
            else operation
            for method, operation in operations.items()
        }
        for path, operations in paths.items()
    }


def _described(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    descriptions = _PATH_PARAMETERS if parameter["in"] == "path" else _QUERY_PARAMETERS
    text = parameter.get("description") or descriptions.get(parameter["name"])
    return {**parameter, "description": text} if text else parameter


class _RequestBodies:
    """The request bodies of a workflow. Definitions of its schemas go to the document's components."""

    def __init__(self, description: Description) -> None:
        self.definitions: dict[str, Any] = {}
        inputs = self._relocate(description.name, description.schemas.inputs)
        parameters = self._relocate(description.name, description.schemas.parameters)
        properties: dict[str, Any] = dict(inputs.get("properties", {}))
        data = {"type": "object", "properties": {"inputs": inputs, "parameters": parameters}}
        run_fields: dict[str, Any] = {"inputs": inputs, "ag_config": parameters}
        if description.is_chat:
            history = properties.pop("messages", {"type": "array", "items": {"type": "object"}})
            required = [name for name in inputs.get("required", []) if name != "messages"]
            chat_inputs = {**inputs, "properties": properties, "required": required}
            run_fields = {"messages": history, **run_fields, "inputs": chat_inputs}
        self.run = {"type": "object", "properties": run_fields}
        self.invoke = {"type": "object", "properties": {**run_fields, "parameters": parameters, "data": data}}
        extra_fields = _CHAT_SERVICE_FIELDS if description.is_chat else {}
        self.service = {"type": "object", "properties": {**_SERVICE_FIELDS, **extra_fields, **properties}}

    def _relocate(self, workflow: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        for name, definition in schema.get("$defs", {}).items():
            self.definitions[f"{workflow}.{name}"] = _relocate_references(definition, workflow)
        return _relocate_references(
            {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}, workflow
        )


def _relocate_references(schema: Any, workflow: str) -> Any:
    """Point local references of a schema at the document's components."""
    if isinstance(schema, list):
        return [_relocate_references(item, workflow) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    relocated = {key: _relocate_references(value, workflow) for key, value in cast("dict[str, Any]", schema).items()}
    reference = relocated.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        relocated["$ref"] = f"#/components/schemas/{workflow}.{reference.removeprefix('#/$defs/')}"
    return relocated


def _operations(description: Description, bodies: _RequestBodies, prefix: str) -> dict[str, Any]:
    tag = prefix.strip("/") or "default"
    text = {"description": description.description} if description.description else {}

    def operation(name: str, summary: str, body: dict[str, Any] | None, *, flags: bool = True) -> dict[str, Any]:
        extension = {"x-agenta": {"flags": dict(description.flags)}} if flags else {}
        return _operation(f"{tag}_{name}", summary, body, **text) | extension

    return {
        f"{prefix}/inspect": {
            "get": operation("inspect", "Describe the workflow, its inputs and parameters", None, flags=False),
            "post": operation("inspect_post", "Same as GET; the body is ignored", {"type": "object"}, flags=False),
        },
        f"{prefix}/invoke": {"post": operation("invoke", "Call the workflow", bodies.invoke)},
        f"{prefix}/run": {"post": operation("run", "Call the workflow, for older Agenta clients", bodies.run)},
        f"{prefix}/test": {"post": operation("test", "Same as /run", bodies.run)},
    } | {
        f"{prefix}/{path}": {
            "post": operation(path.replace("/", "_"), f"Call the workflow ({name})", body, flags=False)
        }
        for path, (name, body) in _PROTOCOL_OPERATIONS.items()
    }


def _operation(operation_id: str, summary: str, body: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    operation = {"operationId": operation_id, "summary": summary, "responses": _RESULTS, **fields}
    return (
        operation if body is None else {**operation, "requestBody": {"content": {"application/json": {"schema": body}}}}
    )


def _service_operations(description: Description, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the operations of a workflow as a service, always at the root."""
    name = description.name

    def operation(suffix: str, summary: str, body: dict[str, Any] | None, content: dict[str, Any]) -> dict[str, Any]:
        responses = {**_RESULTS, "200": {"description": "The response.", "content": content}}
        return _operation(f"services_{name}{suffix}", summary, body, responses=responses)

    return {
        f"/services/{name}": {
            "get": operation("_entry", "Describe the service and its inputs", None, _JSON),
            "post": operation("", "Call the service", payload, _JSON),
        },
        f"/services/{name}/stream": {
            "post": operation("_stream", "Call the service and stream its events", payload, _STREAM)
        },
        f"/services/{name}/README.md": {
            "get": operation("_readme", "Get the README of the service", None, {"text/markdown": {}})
        },
    }
