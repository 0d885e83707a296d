"""Routes of the server itself: is it well, is it ready, which version is it, what does it count, what does it serve."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from palaver.core import jsons
from palaver.protocols import agenta
from palaver.protocols.base import Answer
from palaver.server.exchange import Exchange
from palaver.server.metrics import CONTENT_TYPE
from palaver.server.status import and_headers

if TYPE_CHECKING:
    from palaver.server.app import Server  # It asks here.
    from palaver.server.routes import Match

VERSION = version("palaver")
_NAMED = ("x-api-version", VERSION)


async def answer(server: "Server", exchange: Exchange, found: "Match", path: str) -> Answer:
    """The answer of the route that was found."""
    match found.name:
        case "asset":
            return await server.pages.answer(exchange, found, path)
        case "page":
            return and_headers(await server.pages.answer(exchange, found, path), _NAMED)
        case "v1/traces":
            return await server.telemetry.traces.answer(exchange)
        case "health":
            return told(200, {"status": "ok"})
        case "ready":
            waiting = ["shutdown"] if server.engine.draining else server.waiting_for
            return told(503, {"status": "not ready", "waiting": waiting}) if waiting else told(200, {"status": "ready"})
        case "version" | "livez":
            return and_headers(told(200, {"version": VERSION}), _NAMED)
        case "status":
            return await server.health.answer()
        case "metrics":
            return Answer(status=200, headers=(("content-type", CONTENT_TYPE),), body=server.metrics.text())
        case _:
            api = await server.api()
            from palaver.server import openapi

            return told(200, openapi.document(server.registry.descriptions(), server.registry.default, api, VERSION))


def told(status: int, document: Any) -> Answer:
    """A document as JSON."""
    return Answer(status=status, headers=(("content-type", agenta.JSON),), body=jsons.encode(document))
