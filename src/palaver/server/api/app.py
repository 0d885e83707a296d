"""The Litestar application behind /api. Our dispatcher has guarded the request before it comes here."""

from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.params import FromPath

from palaver.discovery.registry import Registry
from palaver.errors import PalaverError, RequestError
from palaver.server.api import extract
from palaver.server.api.workflows import WorkflowRow, WorkflowView, row, view
from palaver.server.exchange import Gone
from palaver.server.settings import Settings
from palaver.server.status import status_in_api

_CODES = {400: "invalid_value", 404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}


class Page(msgspec.Struct, frozen=True):
    """A page of rows; `next` is the cursor of the one after it."""

    data: list[WorkflowRow]
    next: str | None = None


class About(msgspec.Struct, frozen=True):
    """What is running here."""

    version: str
    limits: dict[str, float]


def make(registry: Registry, settings: Settings, version: str) -> Litestar:
    """The application, with its OpenAPI document."""

    @get("/api/workflows", operation_id="list_workflows", summary="Everything that is served here, by name")
    async def list_workflows() -> Page:
        return Page(data=[row(w, default=registry.default) for w in sorted(registry, key=lambda w: w.description.name)])

    @get("/api/workflows/{name:str}", operation_id="get_workflow", summary="One workflow, with its schemas")
    async def get_workflow(name: FromPath[str]) -> WorkflowView:
        return view(registry.workflow(name), default=registry.default, base=settings.root_path)

    @get("/api/about", operation_id="about", summary="Version and limits")
    async def about() -> About:
        limits = {f.name: getattr(settings, f.name) for f in msgspec.structs.fields(Settings) if f.type in (int, float)}
        return About(version=version, limits=limits)

    return Litestar(
        route_handlers=[list_workflows, get_workflow, about, extract.route(settings)],
        openapi_config=OpenAPIConfig(title="Palaver", version=version, path="/api/_openapi"),
        exception_handlers={PalaverError: _refused, HTTPException: _http_error, Gone: _left},
        logging_config=None,
    )


def _refused(_: "Request[Any, Any, Any]", error: PalaverError) -> "Response[Any]":
    pointer = error.pointer if isinstance(error, RequestError) else None
    return _problem(status_in_api(error), error.code, error.message, pointer)


def _left(_: "Request[Any, Any, Any]", __: Gone) -> "Response[Any]":
    return Response(None, status_code=499)  # For the log: nobody is there to read it.


def _http_error(request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[Any]":
    code = _CODES.get(error.status_code, "internal")
    message = f"There is nothing at {request.url.path[:80]}." if error.status_code == 404 else error.detail
    return _problem(error.status_code, code, message)


def _problem(status: int, code: str, message: str, path: str | None = None) -> "Response[Any]":
    error = {"code": code, "message": message} | ({"path": path} if path else {})
    return Response({"error": error}, status_code=status, media_type="application/json")
