"""/api/views: what somebody asked of a page of the web, kept under a name for everyone in the project."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath, QueryParameter
from msgspec import Meta
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import TooLarge
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    Page,
    Time,
    Window,
    answer,
    caller_of,
    new_id,
    read_body,
    shown_as,
    takes,
    told_time,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.settings import Settings
from palaver.storage import saved_views
from palaver.storage.database import Database
from palaver.storage.saved_views import SavedView

LONGEST = 64 * 1024
"""Bytes of what is kept of a view."""

PageName = Literal["traces", "spans", "sessions"]
OfPage = Annotated[PageName, QueryParameter(name="page", description="The page of the web that they are of.")]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class GivenView(msgspec.Struct, frozen=True, kw_only=True):
    """A view as a person wants it."""

    name: Name
    body: dict[str, Any]
    """What was asked: the page reads it, and nobody else."""


class NewView(GivenView, frozen=True, kw_only=True):
    """A new one, and the page that it is of."""

    page: PageName


class ViewView(msgspec.Struct, frozen=True, kw_only=True):
    """One that is kept."""

    id: str
    page: PageName
    name: str
    body: dict[str, Any]
    created_at: Time
    updated_at: Time


class SavedViewController(ApiController):
    path = "/api/views"

    database: Database
    settings: Settings

    @get(operation_id="list_views", summary="The saved views of a page, last saved first")
    async def list_views(self, request: Asked, of: OfPage, limit: Limit = 50, after: After = None) -> Page[ViewView]:
        found = await self.database.read(saved_views.list_views, caller_of(request).project, of, Window(limit, after))
        return found.map(_shown)

    @post(operation_id="create_view", summary="Keep a view", operation_class=takes(NewView))
    async def create_view(self, request: Asked) -> Response[ViewView]:
        raw, body = await read_body(request, self.settings, NewView)
        project, now = caller_of(request).project, utc_now()
        kept = _checked(body)
        made = SavedView(id=new_id("view"), page=body.page, name=body.name, body=kept, created_at=now, updated_at=now)

        def work(db: Connection) -> HttpResponse:
            saved_views.insert_view(db, project, made)
            return shown_as(_shown(made), status=201, location=f"{self.settings.root_path}/api/views/{made.id}")

        return await once(request, self.database, raw, work)

    @put(
        "/{view:str}",
        operation_id="replace_view",
        summary="Give it another name, or another content",
        operation_class=takes(GivenView),
    )
    async def replace_view(self, request: Asked, view: FromPath[str]) -> Response[ViewView]:
        _, body = await read_body(request, self.settings, GivenView)
        project, kept = caller_of(request).project, _checked(body)
        put = await self.database.write(
            saved_views.replace_view, project, view, name=body.name, body=kept, at=utc_now()
        )
        return answer(request, _shown(put))

    @delete("/{view:str}", operation_id="delete_view", summary="Let go of it")
    async def delete_view(self, request: Asked, view: FromPath[str]) -> None:
        await self.database.write(saved_views.delete_view, caller_of(request).project, view)


def _checked(body: GivenView) -> dict[str, Any]:
    if len(json.encode(body.body)) > LONGEST:
        raise TooLarge(f"What is kept of a view has at most {LONGEST} bytes.", pointer="/body")
    return body.body


def _shown(view: SavedView) -> ViewView:
    return ViewView(
        id=view.id,
        page=msgspec.convert(view.page, PageName),
        name=view.name,
        body=view.body,
        created_at=told_time(view.created_at),
        updated_at=told_time(view.updated_at),
    )
