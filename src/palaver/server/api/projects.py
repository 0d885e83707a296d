"""/api/projects: list, create and erase projects; only for admins of the project `default`."""

import asyncio
import logging
from functools import partial
from typing import Annotated

import msgspec
from litestar import Response, delete, get, post
from litestar.params import PathParameter, QueryParameter
from sqlalchemy import Connection

from palaver.core.api_keys import ALL_SCOPES, check_project
from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import InvalidValue, MissingScope, NameTaken, NotFound, PalaverError, StillRunning
from palaver.server import auth
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    decode_body,
    format_timestamp,
    make_view,
    object_response,
    operation_with_body,
    raw_body,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.keys import CreatedKey, new_key_view
from palaver.server.auth import Authenticator, Caller
from palaver.server.settings import Settings
from palaver.storage import api_keys, projects
from palaver.storage.api_keys import ApiKey
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.projects import Project

ProjectName = Annotated[str, PathParameter(description="Name of the project.")]
Confirm = Annotated[str | None, QueryParameter(description="The name of the project, as confirmation.")]
log = logging.getLogger("palaver.server")
_erasure_tasks: set[asyncio.Task[None]] = set()  # The event loop holds only weak references to tasks.


class ProjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """A project; `created_at` is null for the default project."""

    name: str
    created_at: Timestamp | None


class CreatedProject(ProjectRow, frozen=True, kw_only=True):
    """A newly created project with its first API key."""

    key: CreatedKey


class NewProject(msgspec.Struct, frozen=True):
    """A project to create."""

    name: str
    """Name of the project."""


class ProjectController(ApiController):
    path = "/api/projects"

    database: Database
    settings: Settings
    authenticator: Authenticator

    @get(operation_id="list_projects", summary="List projects by name")
    async def list_projects(self, request: ApiRequest, after: After = None, limit: Limit = 50) -> Page[ProjectRow]:
        require_default_project(request)
        page = await self.database.read(projects.list_projects, Window(limit, after))
        default = await self.database.read(projects.get_project, DEFAULT_PROJECT) if after is None else None
        rows = page.map(partial(make_view, ProjectRow))
        if after is None and default is None:  # The default project exists without a row.
            return Page([ProjectRow(name=DEFAULT_PROJECT, created_at=None), *rows.data], rows.next)
        return rows

    @post(operation_id="make_project", summary="Create a project", operation_class=operation_with_body(NewProject))
    async def make_project(self, request: ApiRequest) -> Response[CreatedProject]:
        caller = require_default_project(request)
        body = decode_body(await raw_body(request, self.settings), NewProject, self.settings)
        name, now = check_project(body.name, pointer="/name"), self.authenticator.now()
        project = Project(name=name, created_at=now)
        key, secret = api_keys.new_api_key(
            project=name, name="Initial key", scopes=ALL_SCOPES, now=now, made_by=caller.key
        )
        await self.database.write(_create_project, project, key)
        self.authenticator.invalidate(key.id)
        view = CreatedProject(name=name, created_at=format_timestamp(now), key=new_key_view(key, secret))
        return object_response(request, view, status=201, location=f"{self.settings.root_path}/api/projects/{name}")

    @delete("/{name:str}", operation_id="erase_project", summary="Erase a project with all its data", status_code=202)
    async def erase_project(self, request: ApiRequest, name: ProjectName, confirm: Confirm = None) -> None:
        require_default_project(request)
        for key in await self.database.write(_close_project, name, confirm):
            self.authenticator.invalidate(key)
        task = asyncio.get_running_loop().create_task(_erase_project_data(self.database, name))
        _erasure_tasks.add(task)
        task.add_done_callback(_erasure_tasks.discard)


def require_default_project(request: ApiRequest) -> Caller:
    """Return the caller. Raises MissingScope unless it belongs to the default project."""
    caller = caller_of(request)
    if caller.project != DEFAULT_PROJECT:
        raise MissingScope(
            "admin", reason=f"This request needs an API key of the project {DEFAULT_PROJECT!r} with the scope 'admin'."
        )
    return caller


def _create_project(db: Connection, project: Project, key: ApiKey) -> None:
    if project.name == DEFAULT_PROJECT or not projects.insert_project(db, project):
        raise NameTaken(f"The project name {project.name!r} is already in use.", pointer="/name")
    api_keys.insert_key(db, key)


def _close_project(db: Connection, name: str, confirm: str | None) -> list[str]:
    """Revoke the project's keys and sessions if it may be erased; return the ids of the keys."""
    if name == DEFAULT_PROJECT:
        raise InvalidValue(f"The project {DEFAULT_PROJECT!r} can't be erased.")
    if projects.get_project(db, name) is None:
        raise NotFound(f"Project {name[:40]!r} not found.")
    if confirm != name:
        raise InvalidValue(f"This erases all of the project's data. Confirm with ?confirm={name}.")
    if projects.has_active_runs(db, name):
        raise StillRunning(f"The project {name!r} has active runs. Cancel them, or wait until they have finished.")
    return projects.revoke_access(db, name)


async def _erase_project_data(database: Database, name: str) -> None:
    # Other processes may accept its keys, and write, until their caches expire.
    await asyncio.sleep(auth.CACHE_TTL_S + 1)
    try:
        while await database.write(projects.delete_project_batch, name):
            pass
    except PalaverError as error:
        log.warning("The project %r was only partly erased: %s Erase it again.", name, error.message)
