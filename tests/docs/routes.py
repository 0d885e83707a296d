"""The tables of docs/reference/routes.md: every route of a server, read from the router's tables and from OpenAPI.

Protocol routes are described here; a route without a description raises KeyError.
"""

import asyncio
import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from palaver.server.routing import (
    _PATTERNS,
    OTLP_ROUTES,
    PAGE_SEGMENTS,
    SERVER_ROUTES,
    SERVICE_ROUTES,
    WORKFLOW_ROUTES,
    match_path,
)
from palaver.server.scopes import SERVER_RULES, required_scope
from palaver.testing import client, echo
from tests.docs.pages import DOCS

REFERENCE = DOCS / "reference"
"""Folder of the page; other pages are relative to it."""

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")  # HEAD is allowed wherever GET is.

CALLS = "Protocols"
STORED = "Stored responses and conversations"
FILES = "Files"
SERVICES = "Services"
SERVER = "The server itself"
REST_API = "REST API"
RULES = {
    CALLS: "These routes exist under `/{workflow}`, and at the root for the default workflow.",
    STORED: "These routes exist at the root and under `/{workflow}`. `/v1` at the start can be omitted.",
    FILES: "For OpenAI's clients. These routes exist at the root and under `/{workflow}`.",
    SERVICES: "These routes exist at the root only.",
}
"""Sentences below the headings of some groups."""

DESCRIPTIONS = {
    "inspect": ("description and input schema of the workflow", "discovery.md"),
    "invoke": ("call the workflow", "calling.md"),
    "run": ("call the workflow (older Agenta clients)", "calling.md"),
    "test": ("same as `run`", "calling.md"),
    "invocations": ("call the workflow: OpenAI Responses, in the form of MLflow's clients", "protocols.md"),
    "responses": ("same as `invocations`", "protocols.md"),
    "v1/responses": ("call the workflow: OpenAI Responses", "protocols.md"),
    "v1/chat/completions": ("call the workflow: Chat Completions", "protocols.md"),
    "api/chat": ("call the workflow: AI SDK UI message stream", "protocols.md"),
    "v1/models": ("list workflows as models", "discovery.md"),
    "agent/info": ("description of the default workflow, for MLflow's clients", "discovery.md"),
    "v1/models/{model}": ("a single model", "discovery.md"),
    "api/chat/{id}/stream": ("resume the stream of an active chat run, from its start", "protocols.md"),
    "api/chat/{id}/stop": ("cancel the run of a chat", "protocols.md"),
    "v1/responses/input_tokens": ("not supported: always 404", "protocols.md"),
    "v1/responses/compact": ("not supported: always 404", "protocols.md"),
    "v1/responses/{id}": ("get or delete a stored response", "protocols.md"),
    "v1/responses/{id}/cancel": ("cancel a background response", "protocols.md"),
    "v1/responses/{id}/input_items": ("list the input items of a stored response", "protocols.md"),
    "v1/files": ("list files, or upload one", "files.md"),
    "v1/files/{id}": ("get the metadata of a file, or delete it", "files.md"),
    "v1/files/{id}/content": ("download a file", "files.md"),
    "v1/conversations": ("create a conversation", "protocols.md"),
    "v1/conversations/{id}": ("get, update (metadata) or delete a conversation", "protocols.md"),
    "v1/conversations/{id}/items": ("list or add items of a conversation", "protocols.md"),
    "v1/conversations/{id}/items/{item}": ("get or delete an item", "protocols.md"),
    "services": ("list services", "services.md"),
    "services/{w}": ("describe or call a service", "services.md"),
    "services/{w}/stream": ("call a service and stream the answer", "services.md"),
    "services/{w}/README.md": ("README of a service", "services.md"),
    "v1/traces": ("receive spans over OTLP", "traces.md"),
    "v1/logs": ("receive log records over OTLP, which hold messages of spans", "traces.md"),
    "api/public/otel/v1/traces": ("same as `/v1/traces`, for Langfuse's SDK", "traces.md"),
    "api/otlp/v1/traces": ("same as `/v1/traces`, for Agenta's SDK", "traces.md"),
    "health": ("liveness", "operation.md"),
    "ready": ("readiness", "operation.md"),
    "livez": ("liveness and version", "services.md"),
    "version": ("version", "operation.md"),
    "status": ("health of the database and of each workflow", "services.md"),
    "metrics": ("Prometheus metrics", "operation.md"),
    "openapi.json": ("OpenAPI document", "discovery.md"),
}
API_PAGES = {
    "about": "settings.md",
    "boards": "boards.md",
    "bootstrap": "socket.md",
    "connections": "connections.md",
    "erase": "../guides/backup.md",
    "evaluations": "evaluation.md",
    "evaluators": "evaluation.md",
    "extract": "../concepts/extraction.md",
    "feedback": "threads.md",
    "files": "files.md",
    "keys": "../guides/keys.md",
    "online": "evaluation.md",
    "projects": "../guides/keys.md",
    "reviews": "evaluation.md",
    "runs": "runs.md",
    "session": "../guides/keys.md",
    "sessions": "traces.md",
    "settings": "settings.md",
    "spans": "traces.md",
    "testsets": "testsets.md",
    "threads": "threads.md",
    "traces": "traces.md",
    "variants": "variants.md",
    "views": "traces.md",
    "workflows": "discovery.md",
}
SOCKETS = {
    "/api/socket": ("requests and notifications of the web interface", "socket.md"),
    "/services/{w}": ("call a service", "services.md"),
}


class Route(NamedTuple):
    group: str
    methods: tuple[str, ...]
    path: str
    need: str
    what: str
    page: str

    @property
    def pattern(self) -> re.Pattern[str]:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(self.path))
        return re.compile(re.sub("^/v1/", "/(?:v1/)?", pattern) if self.group == STORED else pattern)


def every_route() -> list[Route]:
    """Return all routes, in the order of the page."""
    return [*_calls(), *_services(), *_server_routes(), *_api_routes()]


def is_route(method: str, path: str) -> bool:
    """Whether a route has this method and path. The path may start with a workflow's name."""
    path_in_workflow, full_path = re.sub(r"^/[^/]+(?=/)", "", path), path.rstrip("/") or "/"
    candidates = [route for route in every_route() if method in route.methods]
    return any(
        route.pattern.fullmatch(full_path)
        or (route.group in (CALLS, STORED, FILES) and route.pattern.fullmatch(path_in_workflow))
        for route in candidates
    )


def _calls() -> Iterable[Route]:
    for name, endpoint in WORKFLOW_ROUTES.items():
        yield _route(CALLS, endpoint.methods, name, "invoke")
    for name, _, endpoint in _PATTERNS:
        group = FILES if endpoint.kind == "files" else CALLS if name.startswith("v1/models") else STORED
        yield _route(group, endpoint.methods, name.replace("(v1/)?", "v1/"), "invoke")


def _services() -> Iterable[Route]:
    for name, endpoint in SERVICE_ROUTES.items():
        yield _route(SERVICES, endpoint.methods, name, "invoke")


def _server_routes() -> Iterable[Route]:
    for first in ("", *sorted(PAGE_SEGMENTS)):
        yield Route(SERVER, ("GET",), f"/{first}", "nothing", "the web interface, with all paths below", "socket.md")
    yield Route(SERVER, ("GET",), "/assets/{file}", "nothing", "static files of the web interface", "socket.md")
    yield Route(SERVER, ("GET",), "/docs", "nothing", "the documentation, with all paths below", "socket.md")
    for name, endpoint in SERVER_ROUTES.items():
        yield _route(SERVER, endpoint.methods, name, SERVER_RULES[name])
    for name, endpoint in OTLP_ROUTES.items():
        yield _route(SERVER, endpoint.methods, name, "invoke")


def _api_routes() -> Iterable[Route]:
    for path, operations in sorted(document()["paths"].items()):
        match = match_path(path)
        if match is None or match.endpoint.kind != "api":
            continue
        page = API_PAGES[path.split("/")[2]]
        for method in (method for method in _METHODS if method.lower() in operations):
            what = operations[method.lower()]["summary"]
            yield Route(REST_API, (method,), path, required_scope(match, method, path), what, page)


def _route(group: str, methods: Iterable[str], name: str, need: str) -> Route:
    what, page = DESCRIPTIONS[name]
    return Route(group, tuple(method for method in _METHODS if method in set(methods)), f"/{name}", need, what, page)


@cache
def document() -> Any:
    async def fetch() -> Any:
        async with client(echo) as http:
            return (await http.get("/openapi.json")).json()

    return asyncio.run(fetch())


def table() -> str:
    """Return the generated tables of docs/reference/routes.md."""
    parts: list[str] = []
    for group, routes in groupby(every_route(), lambda route: route.group):
        lines = groupby(routes, lambda route: (route.methods, route.need, route.what, route.page))
        rows = [
            f"| {', '.join(methods)} {_paths(equal_routes)} | {need} | {what} | {link(page)} |"
            for (methods, need, what, page), equal_routes in lines
        ]
        head = [f"## {group}", "", *([RULES[group], ""] if group in RULES else []), "| route | scope | | more |"]
        parts.append("\n".join([*head, "|---|---|---|---|", *rows]))
    rows = [f"| `{path}` | {what} | {link(page)} |" for path, (what, page) in SOCKETS.items()]
    parts.append("\n".join(["## WebSockets", "", "| path | | more |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def link(page: str) -> str:
    title = re.search(r"^# (.+)$", (REFERENCE / page).read_text("utf-8"), re.MULTILINE)
    assert title, f"{page} has no title"
    return f"[{title[1].replace('`', '')}]({page})"


def _paths(equal_routes: Iterable[Route]) -> str:
    return ", ".join(f"`{route.path}`" for route in equal_routes)
