"""GET and POST /{w}/inspect: what a workflow says about itself, in the document that Agenta's clients read."""

from collections.abc import Mapping
from typing import Any

from palaver.core.descriptions import Description
from palaver.protocols.agenta.request import parse_object
from palaver.protocols.agenta.response import VERSION, json_response
from palaver.protocols.base import HttpRequest, HttpResponse


def check_inspect_body(request: HttpRequest) -> None:
    """A body may come and has no effect; it must be empty or a JSON object all the same."""
    if request.body:
        parse_object(request)


def inspect_response(description: Description, *, routes: Mapping[str, str], version: str) -> HttpResponse:
    """The document, with the headers of all such answers."""
    return json_response(200, inspect_document(description, routes=routes, version=version))


def inspect_document(description: Description, *, routes: Mapping[str, str], version: str) -> dict[str, Any]:
    """What it is, and under `request` a call that works as it stands if `messages` is all that is required."""
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
                "streams": True,  # Whatever stands behind us: all our forms can be asked for without a risk.
                "routes": dict(routes),
            }
        },
    }
