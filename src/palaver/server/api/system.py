"""/api/bootstrap: what the page shows first, in one response; /api/about, /api/settings and /api/erase."""

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
from palaver.storage import boards, erasure, queue, runs
from palaver.storage import erasure as testset_origins
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
"""Settings that may hold a password, or are long, and how they are shown."""


class Setting(msgspec.Struct, frozen=True):
    """One of them, and where it was written."""

    name: str
    value: Any
    source: Source


class Listed(msgspec.Struct, frozen=True):
    """All of them."""

    data: list[Setting]


class Erase(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """Whose traces are to go: a user's, or a session's. Nothing is erased unless `dry_run` is false."""

    user: str | None = None
    session: str | None = None
    dry_run: bool = True


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What carries the label, and was erased unless this was a rehearsal."""

    threads: int
    runs: int
    responses: int
    files: int = 0
    spans: int = 0
    feedback: int
    running: int
    """Runs that have not ended, and stay."""
    kept: list[dict[str, str]] = []
    """Copies that were made of it, which are not touched."""
    dry_run: bool


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is running here."""

    version: str
    python: str
    database: Literal["sqlite", "postgresql"]
    schema: str
    """The form of the database."""
    processes: int
    """Those that serve from this database, we among them."""
    workers: int
    extras: list[str]
    """Frameworks whose agents can be served here."""
    uptime_seconds: float
    limits: dict[str, float]


class SystemController(ApiController):
    path = "/api"

    database: Database
    settings: Settings
    version: str
    setting_sources: Mapping[str, Source]
    started_at: float

    @get("/about", operation_id="about", summary="Version, database, processes and limits")
    async def about(self) -> About:
        known = await self.database.read(queue.list_processes)
        limits = {
            f.name: getattr(self.settings, f.name) for f in msgspec.structs.fields(Settings) if f.type in (int, float)
        }
        return About(
            version=self.version,
            python=platform.python_version(),
            database=self.database.kind,
            schema=upgrade.SCHEMA_VERSION,
            processes=max(1, sum(one.kind == "server" for one in known)),
            workers=sum(one.kind == "worker" for one in known),
            extras=[name for name, module in _EXTRAS.items() if find_spec(module) is not None],
            uptime_seconds=round(time.monotonic() - self.started_at, 3),
            limits=limits,
        )

    @get("/settings", operation_id="list_settings", summary="Every setting, and where it was written")
    async def list_settings(self) -> Listed:
        return Listed(
            [_setting(self.settings, field.name, self.setting_sources) for field in msgspec.structs.fields(Settings)]
        )

    @post(
        "/erase",
        operation_id="erase",
        summary="Erase all that carries a user's or a session's label; without dry_run: false it only counts",
        operation_class=operation_with_body(Erase),
        status_code=200,
    )
    async def erase(self, request: ApiRequest) -> Response[Erased]:
        _, body = await read_body(request, self.settings, Erase)
        label, value = _label(body)
        project = caller_of(request).project
        found = await self.database.read(erasure.count_labelled_data, project, label, value)
        kept = await self.database.read(testset_origins.find_copied_rows, project, label, value)
        if not body.dry_run:
            while await self.database.write(erasure.erase_labelled_data, project, label, value, utc_now()):
                pass
        return object_response(request, Erased(**msgspec.structs.asdict(found), kept=kept, dry_run=body.dry_run))


def _label(asked: Erase) -> tuple[Label, str]:
    match asked.user, asked.session:
        case [str(user), None] if user:
            return "user", user
        case [None, str(session)] if session:
            return "session", session
        case _:
            raise InvalidValue("Name a user or a session, one of them.", pointer="/user")


def _setting(settings: Settings, name: str, sources: Mapping[str, Source]) -> Setting:
    view = _MASKS.get(name, lambda value: value)
    return Setting(name, view(getattr(settings, name)), sources.get(name, "default"))


MAX_BOOTSTRAP_BYTES: Final = 64 * KIB
"""Bytes of the whole answer."""
_WORKFLOWS, _THREADS, _PINNED, _BOARD = 16 * KIB, 16 * KIB, 8 * KIB, 16 * KIB
"""Bytes of each part, at most. The schemas have what is left."""
_MOST_WORKFLOWS, _MOST_SCHEMAS, _MOST_THREADS, _MOST_RUNNING = 50, 20, 20, 50
_MAX_DESCRIPTION_CHARS = 1_000
"""Characters of a workflow's description."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What the page was opened with."""

    kind: Literal["nobody", "loopback", "key", "session"]
    scopes: list[Scope]
    key: str | None


class FirstSchemas(msgspec.Struct, frozen=True):
    """JSON Schemas of what a workflow takes."""

    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]


class FirstWorkflow(WorkflowRow, frozen=True, kw_only=True):
    """A row of the list of workflows, of the first ones with what they take."""

    schemas: FirstSchemas | UnsetType = UNSET
    """Absent where they are too large: ask for the workflow."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of what the page may send."""

    file: int
    body: int
    socket: int
    """One message on the socket; larger bodies are sent by themselves."""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to look at beside the playground."""

    traces: bool
    evaluation: bool
    tour: bool
    """Is this the demo, which is shown around in?"""


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page needs for its first view."""

    version: str
    project: str
    credential: Credential
    workflows: Page[FirstWorkflow]
    board: BoardView | None
    """The one that was saved last; null where there is none, or where it is too large."""
    board_id: str | None
    """Its id, in either case."""
    threads: Page[ThreadSummary]
    pinned: list[ThreadSummary]
    running: list[str]
    """Runs that have not ended, newest first."""
    limits: Bounds
    features: Features


class _Recent(NamedTuple):
    """What of it is in the database."""

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

    @get(operation_id="bootstrap", summary="All that the page needs for its first view")
    async def bootstrap(self, request: ApiRequest) -> Response[Bootstrap]:
        caller = caller_of(request)
        kept = await self.database.read(_load_recent, caller.project)
        view = object_response(request, _bootstrap_view(kept, self.registry, self.settings, caller, self.version))
        view.headers["cache-control"] = "private, no-cache"
        return view


def _bootstrap_view(kept: _Recent, registry: Registry, settings: Settings, caller: Caller, version: str) -> Bootstrap:
    """The whole, with as many schemas as there is room for."""
    board = None if kept.board is None else board_routes.board_view(kept.board)
    known = {workflow.description.name: workflow.description.schemas for workflow in registry}
    first = Bootstrap(
        version=version,
        project=caller.project,
        credential=Credential(
            kind=caller.kind,
            scopes=api_keys.minimal_scopes(caller.scopes),
            key=api_keys.format_key_id(caller.key) if caller.key else None,
        ),
        workflows=_workflows(registry, caller.project),
        board=board if board is not None and _size(board) <= _BOARD else None,
        board_id=kept.board_id,
        threads=kept.threads,
        pinned=kept.pinned,
        running=kept.running,
        limits=Bounds(file=settings.max_file, body=settings.max_body, socket=settings.ws_max),
        features=Features(traces=True, evaluation=True, tour=settings.tour),
    )
    room = MAX_BOOTSTRAP_BYTES - _size(first)
    rows = list(first.workflows.data)
    for place, row in enumerate(rows[:_MOST_SCHEMAS]):
        schemas = FirstSchemas(known[row.name].inputs, known[row.name].parameters)
        size = _size(schemas) + len('"schemas":,')
        if size <= room:
            rows[place] = msgspec.structs.replace(row, schemas=schemas)
            room -= size
    return msgspec.structs.replace(first, workflows=Page(rows, first.workflows.next))


def _workflows(registry: Registry, project: str) -> Page[FirstWorkflow]:
    """As many rows as there is room for; the cursor is one of the list's own."""
    rows = [_row(workflow_routes.workflow_row(workflow, default=registry.default)) for workflow in registry]
    rows.sort(key=lambda row: row.name)
    limit = max(_count_fitting(rows[:_MOST_WORKFLOWS], _WORKFLOWS), 1)
    return paginate_by_name(
        rows, lambda row: row.name, project=project, window=Window(limit), filters=workflow_routes.NO_FILTER
    )


def _row(row: WorkflowRow) -> FirstWorkflow:
    fields = {name: getattr(row, name) for name in WorkflowRow.__struct_fields__}
    text = row.description
    if len(text) > _MAX_DESCRIPTION_CHARS:
        fields["description"] = text[: _MAX_DESCRIPTION_CHARS - 1] + "…"
    return FirstWorkflow(**fields)


# The database


def _load_recent(db: Connection, project: str) -> _Recent:
    last = boards.get_last_saved(db, project, max_bytes=_BOARD)
    listed = _newest(db, project)
    pinned = (
        threads.list_threads(db, project, ThreadFilters(pinned=True), Window(_MOST_THREADS)).map(thread_summary).data
    )
    view = _slim(pinned, _PINNED)
    return _Recent(
        board=last.board,
        board_id=last.id,
        threads=listed,
        pinned=view[: _count_fitting(view, _PINNED)],
        running=runs.list_active_ids(db, project, _MOST_RUNNING),
    )


def _newest(db: Connection, project: str) -> Page[ThreadSummary]:
    page = threads.list_threads(db, project, window=Window(_MOST_THREADS)).map(thread_summary)
    view = _slim(page.data, _THREADS)
    fitting = _count_fitting(view, _THREADS)
    if fitting == len(view):
        return Page(view, page.next)
    shorter = threads.list_threads(db, project, window=Window(max(fitting, 1))).map(thread_summary)
    return Page(view[: len(shorter.data)], shorter.next)


def _slim(rows: Sequence[ThreadSummary], room: int) -> list[ThreadSummary]:
    """The rows; once there is no room for all of each, without what they show of their messages."""
    bare = [msgspec.structs.replace(row, asked=None, answered=None) for row in rows]
    room -= sum(map(_size, bare)) + len(bare)
    shown: list[ThreadSummary] = []
    for row, less in zip(rows, bare, strict=True):
        more = _size(row) - _size(less)
        shown.append(row if more <= room else less)
        room -= more if more <= room else 0
    return shown


def _count_fitting(rows: Sequence[object], room: int) -> int:
    """How many of the rows, from the first on, there is room for."""
    for count, row in enumerate(rows):
        room -= _size(row) + 1
        if room < 0:
            return count
    return len(rows)


def _size(shown: object) -> int:
    return len(json.encode(shown))
