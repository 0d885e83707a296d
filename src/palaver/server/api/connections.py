"""/api/connections: connect and disconnect remote services. Needs an admin of the project `default`.

URLs are checked by the SSRF guard (outbound/ssrf.py) when connecting and on every call. Headers are not accepted, so
that no secrets have to be stored: services that need credentials are declared in the settings.
"""

from typing import Annotated, Literal

import msgspec
from litestar import Response, delete, get, post
from litestar.params import PathParameter
from sqlalchemy import Connection

from palaver.core.descriptions import check_workflow_name
from palaver.core.runs import DEFAULT_PROJECT
from palaver.discovery.config import TimeoutSeconds, toml_lines
from palaver.discovery.connections import (
    ConnectionConfig,
    default_name,
    discover_service,
    remote_workflow,
    to_remote_service,
)
from palaver.discovery.evidence import Dialect, Discovery
from palaver.discovery.registry import Registry
from palaver.errors import (
    DeclarationError,
    DiscoveryRefused,
    InvalidValue,
    MethodNotAllowed,
    NameTaken,
    NotFound,
    UrlRefused,
)
from palaver.frameworks.remote import RemoteState, RemoteWorkflow
from palaver.outbound import check_url
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    encode_object,
    find_replay,
    format_timestamp,
    new_id,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.projects import require_default_project
from palaver.server.api.workflows import WorkflowView, base_url, requires_key, workflow_view
from palaver.server.auth import Authenticator
from palaver.server.connection_sync import ConnectionSync, SyncedConnection
from palaver.server.settings import Settings
from palaver.storage import background_runs, variants
from palaver.storage import connections as connection_store
from palaver.storage.connections import ConnectionOptions, StoredConnection
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window, paginate_by_name

_MAX_URL_CHARS = 2_000
_ALL_VARIANTS = Window(limit=200)


class ConnectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A connection; GET /api/workflows/{name} describes the workflow it serves."""

    name: str
    url: str
    fixed: bool
    """Whether the connection is declared in code or settings; if so, it can only be changed there."""
    declared_in: Literal["code", "settings"] | None
    state: RemoteState | Literal["failed"]
    message: str | None
    """Why the connection is unavailable or, if its state is `failed`, not served."""
    is_chat: bool
    created_at: Timestamp | None
    checked_at: Timestamp | None
    """When discovery was last attempted."""


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A remote service to connect. The fields override or supplement what the service reports about itself."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_URL_CHARS)]
    """URL of the service."""
    name: str | None = None
    """Name of the connection (default: derived from its URL, or the name that the service reports)."""
    is_chat: bool | None = None
    """Whether the service is a chat."""
    dialect: Dialect | None = None
    """Protocol of the service."""
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Model to request."""
    timeout_seconds: TimeoutSeconds = 60
    """Timeout for the first byte of a response and between bytes, in seconds."""
    dry_run: bool = False
    """Return what would be connected, without connecting it."""


ConnectionName = Annotated[str, PathParameter(description="Name of the connection.")]


class ConnectionController(ApiController):
    path = "/api/connections"

    database: Database
    settings: Settings
    registry: Registry
    authenticator: Authenticator
    connection_sync: ConnectionSync

    @get(operation_id="list_connections", summary="List connections by name")
    async def list_connections(
        self, request: ApiRequest, after: After = None, limit: Limit = 50
    ) -> Page[ConnectionRow]:
        await self.connection_sync.sync()
        added = [_row(connection) for connection in self.connection_sync.list_synced()]
        names = {row.name for row in added if row.state != "failed"}
        remotes = [workflow for workflow in self.registry if isinstance(workflow, RemoteWorkflow)]
        fixed = [_fixed_row(remote, self.settings) for remote in remotes if remote.description.name not in names]
        window, project = Window(limit, after), caller_of(request).project
        return paginate_by_name([*fixed, *added], _sort_key, project=project, window=window)

    @post(
        operation_id="connect",
        summary="Discover a remote service and connect it; with dry_run, only discover it",
        operation_class=operation_with_body(ConnectRequest),
    )
    async def connect(self, request: ApiRequest) -> Response[WorkflowView]:
        require_default_project(request)
        raw, body = await read_body(request, self.settings, ConnectRequest)
        if (replay := await find_replay(request, self.database, raw)) is not None:
            return replay
        options = ConnectionOptions(
            is_chat=body.is_chat, dialect=body.dialect, model=body.model, timeout_seconds=body.timeout_seconds
        )
        config = self.connection_sync.connection_config(_normalize_url(body.url), options)
        requested_name = None if body.name is None else _check_free_name(body.name, self.registry)
        discovery = await _discover(config, requested_name)
        name = requested_name or _check_free_name(default_name(config.url, discovery.name), self.registry)
        workflow, now = remote_workflow(config, name, to_remote_service(name, discovery)), utc_now()
        base, keyed = base_url(request, self.settings), await requires_key(self.settings, self.authenticator)
        variant_id = new_id("var")

        def view(stored_variants: list[variants.Variant]) -> WorkflowView:
            return workflow_view(
                workflow, default=self.registry.default, base=base, keyed=keyed, stored_variants=stored_variants
            )

        def work(db: Connection) -> HttpResponse:
            if body.dry_run:
                return encode_object(view([]))
            _check_free_name(name, self.registry)  # May have been taken during discovery.
            connection = StoredConnection(
                name=name,
                url=config.place,
                created_at=now,
                checked_at=workflow.checked_at,
                options=options,
                evidence=workflow.service,
            )
            connection_store.insert_connection(db, DEFAULT_PROJECT, connection)
            parameters = workflow.description.parameters
            variants.sync_default(db, DEFAULT_PROJECT, name, parameters, id=variant_id, at=now)
            stored = variants.list_variants(db, DEFAULT_PROJECT, workflow=name, window=_ALL_VARIANTS).data
            return encode_object(view(stored), status=201, location=f"{self.settings.root_path}/api/workflows/{name}")

        return await self.connection_sync.apply_change(lambda: run_idempotent(request, self.database, raw, work))

    @delete("/{name:str}", operation_id="disconnect", summary="Remove a connection; its threads are kept")
    async def disconnect(self, request: ApiRequest, name: ConnectionName) -> None:
        require_default_project(request)
        if not await self.connection_sync.apply_change(
            lambda: self.database.write(connection_store.delete_connection, DEFAULT_PROJECT, name)
        ):
            raise _removal_error(request, name, self.registry, self.settings)
        if name not in self.registry:
            reason = ("workflow_not_found", f"The connection {name!r} was removed before the run started.")
            while await self.database.write(background_runs.fail_queued_runs, name, reason, utc_now()):
                pass


def _normalize_url(url: str) -> str:
    """Return the normalized URL. All refusals have the same message, so that nothing about the network is revealed."""
    try:
        check_url(url)
        return ConnectionConfig(url=url).place
    except (UrlRefused, ValueError):
        raise _url_refused() from None


def _url_refused() -> UrlRefused:
    from palaver.outbound.ssrf import url_refused

    return url_refused()


async def _discover(config: ConnectionConfig, name: str | None) -> Discovery:
    try:
        return await discover_service(config)
    except DiscoveryRefused as error:
        settings_lines = toml_lines(name or default_name(config.url) or "service", config.url)
        message = (
            "The service requires credentials, which can't be sent over this API."
            " Add the lines in details.settings to palaver.toml and restart the server."
        )
        raise DiscoveryRefused(message, details={**error.details, "settings": settings_lines}) from None


def _check_free_name(name: str, registry: Registry) -> str:
    try:
        check_workflow_name(name)
    except DeclarationError as error:
        raise InvalidValue(error.message, pointer="/name") from None
    if name in registry:
        raise NameTaken(f"The workflow name {name!r} is already in use.", pointer="/name")
    return name


def _removal_error(request: ApiRequest, name: str, registry: Registry, settings: Settings) -> Exception:
    if name not in registry or not isinstance(registry.workflow(name), RemoteWorkflow):
        return NotFound(f"Connection {name[:80]!r} not found.")
    place = f"[connections.{name}] in palaver.toml" if name in settings.connections else "code"
    reason = f"The connection is declared in {place}. Remove it there."
    return MethodNotAllowed("DELETE", request.scope["path"][:200], allowed=(), reason=reason)


def _sort_key(row: ConnectionRow) -> str:
    """Sort a failed connection after a served workflow of the same name."""
    return f"{row.name} " if row.state == "failed" else row.name


def _row(connection: SyncedConnection) -> ConnectionRow:
    workflow, version = connection.workflow, connection.version
    checked_at = version.checked_at if workflow is None else workflow.checked_at
    return ConnectionRow(
        name=version.name,
        url=version.url,
        fixed=False,
        declared_in=None,
        state="failed" if workflow is None else workflow.state,
        message=connection.problem if workflow is None else workflow.problem,
        is_chat=workflow is not None and workflow.description.is_chat,
        created_at=format_timestamp(version.created_at),
        checked_at=None if checked_at is None else format_timestamp(checked_at),
    )


def _fixed_row(workflow: RemoteWorkflow, settings: Settings) -> ConnectionRow:
    name = workflow.description.name
    return ConnectionRow(
        name=name,
        url=workflow.url,
        fixed=True,
        declared_in="settings" if name in settings.connections else "code",
        state=workflow.state,
        message=workflow.problem,
        is_chat=workflow.description.is_chat,
        created_at=None,
        checked_at=None if workflow.checked_at is None else format_timestamp(workflow.checked_at),
    )
