"""/api/workflows: the workflows that are served, with code snippets that call them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter

from palaver.core.descriptions import IsChatSource, Schemas
from palaver.discovery.registry import Registry
from palaver.errors import InvalidValue
from palaver.frameworks.remote import RemoteState, RemoteWorkflow
from palaver.server import routing
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Search,
    Timestamp,
    caller_of,
    format_timestamp,
    make_view,
    object_response,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.auth import Authenticator
from palaver.server.connection_sync import ConnectionSync
from palaver.server.settings import Settings
from palaver.server.snippets import Snippet, snippets
from palaver.server.variant_resolver import store_default_variant
from palaver.storage import variants
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window, paginate_by_name
from palaver.storage.variants import Variant
from palaver.workflows.workflow import OnDisconnect, TurnPolicy, Workflow

WorkflowOrigin = Literal["served", "connected"]
_ALL_VARIANTS = Window(limit=200)
NO_FILTER: Mapping[str, Any] = {"search": None}
"""The filters that cursors of the unfiltered list are bound to."""


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    name: str
    description: str
    origin: WorkflowOrigin
    state: RemoteState
    problem: str | None
    """Why a connected workflow is unavailable; null if it is not."""
    default: bool
    is_chat: bool
    is_chat_source: IsChatSource
    flags: Mapping[str, bool]
    streams: bool
    turns: TurnPolicy
    on_disconnect: OnDisconnect | None
    """What happens to a run when its client disconnects; null for the protocol's default."""
    checked_at: Timestamp | None
    """When discovery of a connected workflow was last attempted."""


class WorkflowVariant(msgspec.Struct, frozen=True):
    """A variant, with the number of its latest version."""

    id: str
    name: str
    head: int


class WorkflowView(WorkflowRow, frozen=True, kw_only=True):
    """A workflow with its schemas, variants and routes."""

    schemas: Schemas
    parameters: Mapping[str, Any]
    variants: list[WorkflowVariant]
    routes: Mapping[str, str]
    """URLs of the workflow, by protocol."""
    snippets: list[Snippet]
    evidence: Any
    """How a connected workflow was discovered."""


def workflow_row(workflow: Workflow, *, default: str | None) -> WorkflowRow:
    return make_view(WorkflowRow, workflow.description, **_row_fields(workflow, default))


def workflow_view(
    workflow: Workflow, *, default: str | None, base: str, keyed: bool, stored_variants: list[Variant] | None = None
) -> WorkflowView:
    """`base` is the URL of this server; `keyed` says whether calls need an API key."""
    description = workflow.description
    return make_view(
        WorkflowView,
        description,
        **_row_fields(workflow, default),
        variants=[WorkflowVariant(variant.id, variant.name, variant.head) for variant in stored_variants or ()],
        routes={name: base + path for name, path in routing.workflow_paths(description.name).items()},
        snippets=snippets(description, base, keyed=keyed),
        evidence=workflow.evidence if isinstance(workflow, RemoteWorkflow) else None,
    )


Origin = Annotated[WorkflowOrigin | None, QueryParameter(description="`served` by this server, or `connected` by URL.")]
IsChat = Annotated[bool | None, QueryParameter(description="Only chats (true), or only single-turn workflows (false).")]
InState = Annotated[str | None, QueryParameter(name="state", description="`ready`, `unreachable` or `unavailable`.")]
"""Validated by the handler: Litestar reserves the parameter name `state`."""


def base_url(request: ApiRequest, settings: Settings) -> str:
    return f"{request.scope['scheme']}://{request.headers['host']}{settings.root_path}"


async def requires_key(settings: Settings, authenticator: Authenticator) -> bool:
    return not settings.is_loopback or await authenticator.has_keys()


class WorkflowController(ApiController):
    path = "/api/workflows"

    database: Database
    settings: Settings
    registry: Registry
    authenticator: Authenticator
    connection_sync: ConnectionSync

    @get(operation_id="list_workflows", summary="List workflows by name")
    async def list_workflows(
        self,
        request: ApiRequest,
        search: Search = None,
        origin: Origin = None,
        is_chat: IsChat = None,
        in_state: InState = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[WorkflowRow]:
        if in_state not in (None, *get_args(RemoteState)):
            raise InvalidValue("state must be ready, unreachable or unavailable.", pointer="?state")
        filters = {"origin": origin, "is_chat": is_chat, "state": in_state}
        exact = {name: value for name, value in filters.items() if value is not None}
        rows = [workflow_row(workflow, default=self.registry.default) for workflow in self.registry]
        return paginate_by_name(
            [row for row in rows if _matches(row, search) and all(getattr(row, name) == exact[name] for name in exact)],
            lambda row: row.name,
            project=caller_of(request).project,
            window=Window(limit, after),
            filters={**NO_FILTER, "search": search, **exact},
        )

    @get("/{name:str}", operation_id="get_workflow", summary="Get a workflow, with code snippets that call it")
    async def get_workflow(self, request: ApiRequest, name: FromPath[str]) -> Response[WorkflowView]:
        return object_response(request, await self._load_view(request, self.registry.workflow(name)))

    @post(
        "/{name:str}/refresh",
        operation_id="refresh_workflow",
        summary="Rediscover a connected workflow and check whether it is reachable",
        status_code=200,
    )
    async def refresh_workflow(self, request: ApiRequest, name: FromPath[str]) -> Response[WorkflowView]:
        workflow = self.registry.workflow(name)
        if isinstance(workflow, RemoteWorkflow):
            await self.connection_sync.refresh(workflow)
        return object_response(request, await self._load_view(request, workflow))

    async def _load_view(self, request: ApiRequest, workflow: Workflow) -> WorkflowView:
        project, name = caller_of(request).project, workflow.description.name
        await store_default_variant(self.database, project, workflow)
        page = await self.database.read(variants.list_variants, project, workflow=name, window=_ALL_VARIANTS)
        keyed, base = await requires_key(self.settings, self.authenticator), base_url(request, self.settings)
        return workflow_view(workflow, default=self.registry.default, base=base, keyed=keyed, stored_variants=page.data)


def _matches(row: WorkflowRow, search: str | None) -> bool:
    needle = (search or "").casefold()
    return needle in row.name.casefold() or needle in row.description.casefold()


def _row_fields(workflow: Workflow, default: str | None) -> dict[str, Any]:
    """Return the fields of WorkflowRow that are not part of its description."""
    description, options = workflow.description, workflow.options
    remote = workflow if isinstance(workflow, RemoteWorkflow) else None
    return {
        "origin": "connected" if description.remote else "served",
        "state": "ready" if remote is None else remote.state,
        "problem": None if remote is None else remote.problem,
        "default": description.name == default,
        "is_chat": description.is_chat,
        "turns": options.turns,
        "on_disconnect": options.on_disconnect,
        "checked_at": None if remote is None or remote.checked_at is None else format_timestamp(remote.checked_at),
    }
