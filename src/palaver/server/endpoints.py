"""Endpoints that run no workflow: health, readiness, version, status, metrics, models, inspect."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.protocols.agenta import inspect as inspection
from palaver.protocols.base import HttpRequest, HttpResponse
from palaver.protocols.chat_completions.models import model_response, models_response
from palaver.server.error_responses import add_headers, json_response
from palaver.server.health import HealthChecks
from palaver.server.metrics import METRICS_CONTENT_TYPE, Metrics
from palaver.server.settings import VERSION

_VERSION_HEADER = ("x-api-version", VERSION)


class LazyApi:
    """The REST API, loaded in a thread: importing Litestar takes half a second."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._app: Any = None
        self._loading: asyncio.Task[None] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._app is not None

    def start_loading(self) -> "asyncio.Task[None]":
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_in_thread())
        return self._loading

    async def get(self) -> Any:
        """Return the Litestar application, once it is loaded."""
        if self._app is None:
            await asyncio.shield(self.start_loading())
        return self._app

    async def _load_in_thread(self) -> None:
        self._app = await asyncio.to_thread(self._load)


@dataclass(frozen=True, eq=False, repr=False)
class ServerEndpoints:
    registry: Registry
    engine: Engine
    health: HealthChecks
    metrics: Metrics
    api: LazyApi

    async def response(self, route: str) -> HttpResponse:
        """Answer a GET of one of `routing.SERVER_ROUTES`."""
        match route:
            case "health":
                return json_response(200, {"status": "ok"})
            case "ready":
                return self._ready()
            case "version" | "livez":
                return add_headers(json_response(200, {"version": VERSION}), _VERSION_HEADER)
            case "status":
                return await self.health.response()
            case "metrics":
                return HttpResponse(
                    status=200, headers=(("content-type", METRICS_CONTENT_TYPE),), body=self.metrics.text()
                )
            case _:
                api = await self.api.get()
                from palaver.server.openapi import openapi_document

                document = openapi_document(self.registry.descriptions(), self.registry.default, api, VERSION)
                return json_response(200, document)

    def _ready(self) -> HttpResponse:
        if self.engine.is_draining:
            return json_response(503, {"status": "not ready", "waiting": ["shutdown"]})
        if not self.api.is_loaded:
            return json_response(503, {"status": "not ready", "waiting": ["api"]})
        return json_response(200, {"status": "ready"})


class ServedWorkflows(NamedTuple):
    """The workflows that these endpoints describe."""

    registry: Registry
    routes: Callable[[str], Mapping[str, str]]
    started_at: int
    """When the server started, in Unix seconds."""


def inspect_workflow(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    description = served.registry.find(request.workflow)
    inspection.check_inspect_body(request)
    return inspection.inspect_response(description, routes=served.routes(description.name), version=VERSION)


def list_models(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    """List all chats; below `/{w}`, only that workflow."""
    registry = served.registry
    descriptions = registry.descriptions() if request.workflow is None else [registry.find(request.workflow)]
    return models_response(descriptions, served.started_at)


def get_model(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    if request.workflow is not None:
        served.registry.find(request.workflow)
    return model_response(served.registry.find(request.parameters["model"]), served.started_at)


def agent_info(request: HttpRequest, served: ServedWorkflows) -> HttpResponse:
    """Answer GET /agent/info, which MLflow's clients call."""
    registry = served.registry
    name = registry.default if request.workflow is None else registry.find(request.workflow).name
    return json_response(200, {"name": name or "palaver", "use_case": "agent", "agent_api": "responses"})
