"""Workflows as the REST API shows them."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palaver.core.descriptions import IsChatSource, Schemas
from palaver.frameworks.remote import RemoteWorkflow
from palaver.server import routes
from palaver.workflows.workflow import Workflow


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list."""

    name: str
    description: str
    origin: Literal["served", "connected"]
    state: Literal["ready", "unreachable"]
    default: bool
    is_chat: bool
    is_chat_source: IsChatSource
    flags: Mapping[str, bool]
    streams: bool


class WorkflowView(WorkflowRow, frozen=True, kw_only=True):
    """All of one workflow."""

    schemas: Schemas
    parameters: Mapping[str, Any]
    routes: Mapping[str, str]


def row(workflow: Workflow, *, default: str | None) -> WorkflowRow:
    """A workflow as a row."""
    return WorkflowRow(**_common(workflow, default))


def view(workflow: Workflow, *, default: str | None, base: str) -> WorkflowView:
    """A workflow as a whole."""
    description = workflow.description
    paths = {name: base + path for name, path in routes.of(description.name).items()}
    told = _common(workflow, default)
    return WorkflowView(**told, schemas=description.schemas, parameters=description.parameters, routes=paths)


def _common(workflow: Workflow, default: str | None) -> dict[str, Any]:
    description = workflow.description
    away = isinstance(workflow, RemoteWorkflow) and not workflow.reachable
    return {
        "name": description.name,
        "description": description.description,
        "origin": "connected" if description.remote else "served",
        "state": "unreachable" if away else "ready",
        "default": description.name == default,
        "is_chat": description.is_chat,
        "is_chat_source": description.is_chat_source,
        "flags": description.flags,
        "streams": description.streams,
    }
