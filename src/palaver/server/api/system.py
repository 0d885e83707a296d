"""/api/bootstrap: initial data for the web interface; /api/about, /api/settings and /api/erase."""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple

import msgspec
from litestar import Response, get, post
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import api_keys, json
from palaver.core.api_keys import Scope
from palaver.discovery.config import mask_connections
from palaver.discovery.registry import Registry
from palaver.errors import InvalidValue
from palaver.server.api import boards as board_routes
from palaver.server.api import workflows as workflow_routes
from palaver.server.api.boards import BoardView
from palaver.server.api.conventions import (
    ApiRequest,
    caller_of,
    make_view,
    object_response,
    operation_with_body,
    read_body,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.threads import ThreadSummary, thread_summary
from palaver.server.api.workflows import WorkflowRow
from palaver.server.auth import Caller
from palaver.server.otlp_exporter import mask_headers
from palaver.server.settings import KIB, Settings, Source
from palaver.storage import background_runs, boards, erasure, runs
from palaver.storage.boards import Board
from palaver.storage.database import Database
from palaver.storage.migrations import upgrade
from palaver.storage.pagination import Page, Window, paginate_by_name
from palaver.storage.paths import redact_url
from palaver.storage.spans.retention import Label
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import ThreadFilters

_EXTRAS = {"langchain": "langgraph", "openai-agents": "agents", "pydantic-ai": "pydantic_ai", "pydantic": "pydantic"}
_MASKS: Mapping[str, Callable[[Any], Any]] = {
    "db": redact_url,
    "connections": mask_connections,
    "redact": len,
    "otlp_headers": mask_headers,
}
"""How to show settings that may hold secrets or are long."""


class Setting(msgspec.Struct, frozen=True):
    """A setting and its source."""

    name: str
    value: Any
    source: Source


class SettingList(msgspec.Struct, frozen=True):
    """All settings."""

    data: list[Setting]


class ErasureRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """The user or session whose data is erased. Nothing is erased unless `dry_run` is false."""

    user: str | None = None
    """Label of the end user."""
    session: str | None = None
    """Label of the session."""
    dry_run: bool = True
    """Only count the data, without erasing it."""


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the matching data, which was erased unless this was a dry run."""

    threads: int
    runs: int
    responses: int
    files: int = 0
    spans: int = 0
    feedback: int
    running: int
    """Number of active runs, which are not erased."""
    kept: list[dict[str, str]] = []
    """Test set rows copied from the data, which are not erased."""
    dry_run: bool


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The running version, its environment and limits."""

    version: str
    python: str
    database: Literal["sqlite", "postgresql"]
    schema: str
    """The version of the database schema."""
    processes: int
    """Number of server processes that use this database, including this one."""
    workers: int
    extras: list[str]
    """Installed extras for agent frameworks."""
    uptime_seconds: float
    limits: dict[str, float]


class SystemController(ApiController):
    path = "/api"

    database: Database
    settings: Settings
    version: str
    setting_sources: Mapping[str, Source]
    started_at: float

    @get("/about", operation_id="about", summary="Get the version, database, processes and limits")
    async def about(self) -> About:
        processes = await self.database.read(background_runs.list_processes)
        limits = {
            f.name: getattr(self.settings, f.name) for f in msgspec.structs.fields(Settings) if f.type in (int, float)
        }
        return About(
            version=self.version,
            python=platform.python_version(),
            database=self.database.kind,
            schema=upgrade.SCHEMA_VERSION,
            processes=max(1, sum(process.kind == "server" for process in processes)),
            workers=sum(process.kind == "worker" for process in processes),
            extras=[name for name, module in _EXTRAS.items() if find_spec(module) is not None],
            uptime_seconds=round(time.monotonic() - self.started_at, 3),
            limits=limits,
        )

    @get("/settings", operation_id="list_settings", summary="List all settings and their sources")
    async def list_settings(self) -> SettingList:
        return SettingList(
            [_setting(self.settings, field.name, self.setting_sources) for field in msgspec.structs.fields(Settings)]
        )

    @post(
        "/erase",
        operation_id="erase",
        summary="Erase all data of a user or session; only counts the data unless dry_run is false",
        operation_class=operation_with_body(ErasureRequest),
        status_code=200,
    )
    async def erase(self, request: ApiRequest) -> Response[ErasureReport]:
        _, body = await read_body(request, self.settings, ErasureRequest)
        label, value = _label(body)
        project = caller_of(request).project
        counts = await self.database.read(erasure.count_labelled_data, project, label, value)
        copies = await self.database.read(erasure.find_copied_rows, project, label, value)
        if not body.dry_run:
            while await self.database.write(erasure.erase_labelled_data, project, label, value, utc_now()):
                pass
        return object_response(
            request, ErasureReport(**msgspec.structs.asdict(counts), kept=copies, dry_run=body.dry_run)
        )


def _label(body: ErasureRequest) -> tuple[Label, str]:
    match body.user, body.session:
        case [str(user), None] if user:
            return "user", user
        case [None, str(session)] if session:
            return "session", session
        case _:
            raise InvalidValue("Specify exactly one of user and session.", pointer="/user")


def _setting(settings: Settings, name: str, sources: Mapping[str, Source]) -> Setting:
    mask = _MASKS.get(name, lambda value: value)
    return Setting(name, mask(getattr(settings, name)), sources.get(name, "default"))


MAX_BOOTSTRAP_BYTES: Final = 64 * KIB
_WORKFLOWS_BYTES, _THREADS_BYTES, _PINNED_BYTES, _BOARD_BYTES = 16 * KIB, 16 * KIB, 8 * KIB, 16 * KIB
"""Maximum size of each part; the schemas get the remaining bytes."""
_MAX_WORKFLOWS, _MAX_SCHEMAS, _MAX_THREADS, _MAX_RUNNING = 50, 20, 20, 50
_MAX_DESCRIPTION_CHARS = 1_000


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """The credential that the web interface uses."""

    kind: Literal["nobody", "loopback", "key", "session"]
    scopes: list[Scope]
    key: str | None


class BootstrapSchemas(msgspec.Struct, frozen=True):
    """JSON Schemas of a workflow's inputs and parameters."""

    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]


class BootstrapWorkflow(WorkflowRow, frozen=True, kw_only=True):
    """A workflow; the first ones include their schemas."""

    schemas: BootstrapSchemas | UnsetType = UNSET
    """Absent if too large; GET /api/workflows/{name} returns them."""


class SizeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Size limits for requests from the web interface, in bytes."""

    file: int
    body: int
    socket: int
    """Maximum size of a message on the socket; larger bodies are sent as HTTP requests."""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Features that the web interface offers besides the playground."""

    traces: bool
    evaluation: bool
    tour: bool
    """Whether the web interface offers the demo tour."""


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """Initial data for the web interface."""

    version: str
    project: str
    credential: Credential
    workflows: Page[BootstrapWorkflow]
    board: BoardView | None
    """The most recently saved board; null if there are no boards or it is too large."""
    board_id: str | None
    """Id of that board, even if the board itself is too large to include."""
    threads: Page[ThreadSummary]
    pinned: list[ThreadSummary]
    running: list[str]
    """The ids of active runs, newest first."""
    limits: SizeLimits
    features: Features


class _Recent(NamedTuple):
    board: Board | None
    board_id: str | None
    threads: Page[ThreadSummary]
    pinned: list[ThreadSummary]
    running: list[str]


class BootstrapController(ApiController):
    path = "/api/bootstrap"

    database: Database
    settings: Settings
    registry: Registry
    version: str

    @get(operation_id="bootstrap", summary="Get the initial data for the web interface")
    async def bootstrap(self, request: ApiRequest) -> Response[Bootstrap]:
        caller = caller_of(request)
        recent = await self.database.read(_load_recent, caller.project)
        view = object_response(request, _bootstrap_view(recent, self.registry, self.settings, caller, self.version))
        view.headers["cache-control"] = "private, no-cache"
        return view


def _bootstrap_view(recent: _Recent, registry: Registry, settings: Settings, caller: Caller, version: str) -> Bootstrap:
    """Return the response, with schemas for as many workflows as fit into MAX_BOOTSTRAP_BYTES."""
    board = None if recent.board is None else board_routes.board_view(recent.board)
    schemas_by_name = {workflow.description.name: workflow.description.schemas for workflow in registry}
    view = Bootstrap(
        version=version,
        project=caller.project,
        credential=Credential(
            kind=caller.kind,
            scopes=api_keys.minimal_scopes(caller.scopes),
            key=api_keys.format_key_id(caller.key) if caller.key else None,
        ),
        workflows=_workflow_page(registry, caller.project),
        board=board if board is not None and _size(board) <= _BOARD_BYTES else None,
        board_id=recent.board_id,
        threads=recent.threads,
        pinned=recent.pinned,
        running=recent.running,
        limits=SizeLimits(file=settings.max_file, body=settings.max_body, socket=settings.ws_max),
        features=Features(traces=True, evaluation=True, tour=settings.tour),
    )
    budget = MAX_BOOTSTRAP_BYTES - _size(view)
    rows = list(view.workflows.data)
    for index, row in enumerate(rows[:_MAX_SCHEMAS]):
        schemas = BootstrapSchemas(schemas_by_name[row.name].inputs, schemas_by_name[row.name].parameters)
        size = _size(schemas) + len('"schemas":,')
        if size <= budget:
            rows[index] = msgspec.structs.replace(row, schemas=schemas)
            budget -= size
    return msgspec.structs.replace(view, workflows=Page(rows, view.workflows.next))


def _workflow_page(registry: Registry, project: str) -> Page[BootstrapWorkflow]:
    """Return as many rows as fit; the cursor continues the list of /api/workflows."""
    rows = [_first_workflow(workflow_routes.workflow_row(workflow, default=registry.default)) for workflow in registry]
    rows.sort(key=lambda row: row.name)
    limit = max(_count_fitting(rows[:_MAX_WORKFLOWS], _WORKFLOWS_BYTES), 1)
    return paginate_by_name(
        rows, lambda row: row.name, project=project, window=Window(limit), filters=workflow_routes.NO_FILTER
    )


def _first_workflow(row: WorkflowRow) -> BootstrapWorkflow:
    text = row.description
    if len(text) > _MAX_DESCRIPTION_CHARS:
        text = text[: _MAX_DESCRIPTION_CHARS - 1] + "…"
    return make_view(BootstrapWorkflow, row, description=text)


def _load_recent(db: Connection, project: str) -> _Recent:
    last_saved = boards.get_last_saved(db, project, max_bytes=_BOARD_BYTES)
    pinned = threads.list_threads(db, project, ThreadFilters(pinned=True), Window(_MAX_THREADS)).map(thread_summary)
    view = _drop_previews(pinned.data, _PINNED_BYTES)
    return _Recent(
        board=last_saved.board,
        board_id=last_saved.id,
        threads=_newest_threads(db, project),
        pinned=view[: _count_fitting(view, _PINNED_BYTES)],
        running=runs.list_active_ids(db, project, _MAX_RUNNING),
    )


def _newest_threads(db: Connection, project: str) -> Page[ThreadSummary]:
    page = threads.list_threads(db, project, window=Window(_MAX_THREADS)).map(thread_summary)
    view = _drop_previews(page.data, _THREADS_BYTES)
    count = _count_fitting(view, _THREADS_BYTES)
    if count == len(view):
        return Page(view, page.next)
    shorter_page = threads.list_threads(db, project, window=Window(max(count, 1))).map(thread_summary)
    return Page(view[: len(shorter_page.data)], shorter_page.next)


def _drop_previews(rows: Sequence[ThreadSummary], budget: int) -> list[ThreadSummary]:
    """Drop the message previews of rows where they exceed `budget` bytes."""
    shortened = [msgspec.structs.replace(row, asked=None, answered=None) for row in rows]
    budget -= sum(map(_size, shortened)) + len(shortened)
    result: list[ThreadSummary] = []
    for row, short in zip(rows, shortened, strict=True):
        extra = _size(row) - _size(short)
        result.append(row if extra <= budget else short)
        budget -= extra if extra <= budget else 0
    return result


def _count_fitting(rows: Sequence[object], budget: int) -> int:
    """Return how many leading rows fit into `budget` bytes."""
    for count, row in enumerate(rows):
        budget -= _size(row) + 1
        if budget < 0:
            return count
    return len(rows)


def _size(value: object) -> int:
    return len(json.encode(value))
