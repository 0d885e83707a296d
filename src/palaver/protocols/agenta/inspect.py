"""GET and POST /{w}/inspect: describe a workflow for Agenta's clients."""

from collections.abc import Mapping
from typing import Any

from palaver.core.descriptions import Description
from palaver.protocols.agenta.request import parse_object
from palaver.protocols.agenta.response import VERSION, json_response
from palaver.protocols.base import HttpRequest, HttpResponse


def check_inspect_body(request: HttpRequest) -> None:
    """Validate the body, which has no effect: it must be empty or a JSON object."""
    if request.body:
        parse_object(request)


def inspect_response(description: Description, *, routes: Mapping[str, str], version: str) -> HttpResponse:
    return json_response(200, inspect_document(description, routes=routes, version=version))


def inspect_document(description: Description, *, routes: Mapping[str, str], version: str) -> dict[str, Any]:
    """Describe a workflow. `request` is a call that works as it is, if only `messages` is required."""
    inputs: dict[str, Any] = {"messages": [], **description.inputs} if description.is_chat else {**description.inputs}
    revision = {
        "slug": description.name,
        "name": description.name,
        "description": description.description,
        "data": {
            "uri": f"user:custom:{description.name}:latest",
            "schemas": description.schemas,
            "parameters": description.parameters,
        },
    }
    return {
        "version": VERSION,
        "flags": description.flags,
        "revision": revision,
        "request": {
            "version": VERSION,
            "flags": description.flags,
            "data": {"revision": revision, "inputs": inputs, "parameters": description.parameters},
        },
        "meta": {
            "palaver": {
                "version": version,
                "workflow": description.name,
                "is_chat_source": description.is_chat_source,
                "streams": True,  # All our formats can be requested, even if a remote workflow does not stream.
                "routes": dict(routes),
            }
        },
    }
