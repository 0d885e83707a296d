"""GET /api/bootstrap: all that the page needs for its first view, in one small answer that waits for nobody.

It is read from this process and its database alone. What does not fit into it is left out, and asked for when it is
looked at: first the schemas of the later workflows, then the board, then what rows of threads show of their messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from litestar import Response, get
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core import api_keys, json
from palaver.core.api_keys import Scope
from palaver.discovery.registry import Registry
from palaver.server.api import boards as board_routes
from palaver.server.api import workflows as workflow_routes
from palaver.server.api.boards import BoardView
from palaver.server.api.conventions import Asked, Page, Window, answer, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.thread_views import ThreadSummary, summary
from palaver.server.api.workflows import WorkflowRow
from palaver.server.auth import Caller
from palaver.server.settings import KIB, Settings
from palaver.storage import boards, runs
from palaver.storage.boards import Board
from palaver.storage.database import Database
from palaver.storage.pagination import paginate_by_name
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import ThreadFilters

LARGEST: Final = 64 * KIB
"""Bytes of the whole answer."""
_WORKFLOWS, _THREADS, _PINNED, _BOARD = 16 * KIB, 16 * KIB, 8 * KIB, 16 * KIB
"""Bytes of each part, at most. The schemas have what is left."""
_MOST_WORKFLOWS, _MOST_SCHEMAS, _MOST_THREADS, _MOST_RUNNING = 50, 20, 20, 50
_DESCRIPTION = 1_000
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


class _Kept(NamedTuple):
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
    async def bootstrap(self, request: Asked) -> Response[Bootstrap]:
        caller = caller_of(request)
        kept = await self.database.read(_kept, caller.project)
        shown = answer(request, _shown(kept, self.registry, self.settings, caller, self.version))
        shown.headers["cache-control"] = "private, no-cache"
        return shown


def _shown(kept: _Kept, registry: Registry, settings: Settings, caller: Caller, version: str) -> Bootstrap:
    """The whole, with as many schemas as there is room for."""
    board = None if kept.board is None else board_routes.view(kept.board)
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
    room = LARGEST - _size(first)
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
    rows = [_row(workflow_routes.row(workflow, default=registry.default)) for workflow in registry]
    rows.sort(key=lambda row: row.name)
    limit = max(_fitting(rows[:_MOST_WORKFLOWS], _WORKFLOWS), 1)
    return paginate_by_name(
        rows, lambda row: row.name, project=project, window=Window(limit), filters=workflow_routes.NO_FILTER
    )


def _row(row: WorkflowRow) -> FirstWorkflow:
    fields = {name: getattr(row, name) for name in WorkflowRow.__struct_fields__}
    text = row.description
    if len(text) > _DESCRIPTION:
        fields["description"] = text[: _DESCRIPTION - 1] + "…"
    return FirstWorkflow(**fields)


# The database


def _kept(db: Connection, project: str) -> _Kept:
    last = boards.get_last_saved(db, project, max_bytes=_BOARD)
    listed = _newest(db, project)
    pinned = threads.list_threads(db, project, ThreadFilters(pinned=True), Window(_MOST_THREADS)).map(summary).data
    shown = _slim(pinned, _PINNED)
    return _Kept(
        board=last.board,
        board_id=last.id,
        threads=listed,
        pinned=shown[: _fitting(shown, _PINNED)],
        running=runs.list_active_ids(db, project, _MOST_RUNNING),
    )


def _newest(db: Connection, project: str) -> Page[ThreadSummary]:
    found = threads.list_threads(db, project, window=Window(_MOST_THREADS)).map(summary)
    shown = _slim(found.data, _THREADS)
    fitting = _fitting(shown, _THREADS)
    if fitting == len(shown):
        return Page(shown, found.next)
    shorter = threads.list_threads(db, project, window=Window(max(fitting, 1))).map(summary)
    return Page(shown[: len(shorter.data)], shorter.next)


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


def _fitting(rows: Sequence[object], room: int) -> int:
    """How many of the rows, from the first on, there is room for."""
    for count, row in enumerate(rows):
        room -= _size(row) + 1
        if room < 0:
            return count
    return len(rows)


def _size(shown: object) -> int:
    return len(json.encode(shown))
