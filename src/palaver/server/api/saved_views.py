"""/api/views: queries of a web page, saved under a name for the project."""

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
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    encode_object,
    make_view,
    new_id,
    object_response,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings
from palaver.storage import saved_views
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.saved_views import SavedView

MAX_VIEW_BYTES = 64 * 1024

PageName = Literal["traces", "spans", "sessions"]
OfPage = Annotated[PageName, QueryParameter(name="page", description="The page that the views belong to.")]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class SavedViewInput(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a saved view."""

    name: Name
    body: dict[str, Any]
    """The query, which only the web interface interprets."""


class NewSavedView(SavedViewInput, frozen=True, kw_only=True):
    """A view to save, and the page that it belongs to."""

    page: PageName
    """The page that the view belongs to."""


class SavedViewRow(msgspec.Struct, frozen=True, kw_only=True):
    """A saved view."""

    id: str
    page: PageName
    name: str
    body: dict[str, Any]
    created_at: Timestamp
    updated_at: Timestamp


class SavedViewController(ApiController):
    path = "/api/views"

    database: Database
    settings: Settings

    @get(operation_id="list_views", summary="List the saved views of a page, most recently saved first")
    async def list_views(
        self, request: ApiRequest, page_name: OfPage, limit: Limit = 50, after: After = None
    ) -> Page[SavedViewRow]:
        project, window = caller_of(request).project, Window(limit, after)
        page = await self.database.read(saved_views.list_views, project, page_name, window)
        return page.map(_view_of)

    @post(operation_id="create_view", summary="Save a view", operation_class=operation_with_body(NewSavedView))
    async def create_view(self, request: ApiRequest) -> Response[SavedViewRow]:
        raw, body = await read_body(request, self.settings, NewSavedView)
        project, now, content = caller_of(request).project, utc_now(), _check_size(body)
        view = SavedView(
            id=new_id("view"), page=body.page, name=body.name, body=content, created_at=now, updated_at=now
        )

        def work(db: Connection) -> HttpResponse:
            saved_views.insert_view(db, project, view)
            return encode_object(_view_of(view), status=201, location=f"{self.settings.root_path}/api/views/{view.id}")

        return await run_idempotent(request, self.database, raw, work)

    @put(
        "/{view:str}",
        operation_id="replace_view",
        summary="Replace a saved view's name and content",
        operation_class=operation_with_body(SavedViewInput),
    )
    async def replace_view(self, request: ApiRequest, view: FromPath[str]) -> Response[SavedViewRow]:
        _, body = await read_body(request, self.settings, SavedViewInput)
        project, content = caller_of(request).project, _check_size(body)
        replaced = await self.database.write(
            saved_views.replace_view, project, view, name=body.name, body=content, at=utc_now()
        )
        return object_response(request, _view_of(replaced))

    @delete("/{view:str}", operation_id="delete_view", summary="Delete a saved view")
    async def delete_view(self, request: ApiRequest, view: FromPath[str]) -> None:
        await self.database.write(saved_views.delete_view, caller_of(request).project, view)


def _check_size(body: SavedViewInput) -> dict[str, Any]:
    if len(json.encode(body.body)) > MAX_VIEW_BYTES:
        raise TooLarge(f"The view exceeds the limit of {MAX_VIEW_BYTES:,} bytes.", pointer="/body")
    return body.body


def _view_of(view: SavedView) -> SavedViewRow:
    return make_view(SavedViewRow, view, page=msgspec.convert(view.page, PageName))
