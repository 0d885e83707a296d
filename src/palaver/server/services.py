"""Services: who calls one, the questions about them, and the two that every server has (contract: job-chat, 1).

A call itself goes the way of all calls. What is special is that its key may stand in its body, where the clients that
services are made for write it.
"""

from palaver.core.descriptions import Description, Schemas
from palaver.discovery.registry import Registry
from palaver.errors import ConflictingFields, InvalidBody, PalaverError, Unauthorized
from palaver.protocols import service_list, service_payloads, services
from palaver.protocols.base import Answer
from palaver.server import guards, routes
from palaver.server.callers import Caller, Callers
from palaver.server.calling import Calling
from palaver.server.credentials import presented
from palaver.server.exchange import Exchange
from palaver.server.health import Health
from palaver.server.routes import Match
from palaver.server.settings import Settings

_ANYTHING = Schemas(inputs={"type": "object", "additionalProperties": True})
BUILT_IN = {
    "echo": Description(name="echo", description="Returns its payload.", flags={"is_chat": False}, schemas=_ANYTHING),
    "status": Description(
        name="status", description="Says what works and what does not.", flags={"is_chat": False}, schemas=_ANYTHING
    ),
}
"""Those that exist on every server, unless a workflow has the name."""


class Services:
    """Answers under /services."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        callers: Callers,
        calling: Calling,
        health: Health,
        version: str,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._callers = callers
        self._calling = calling
        self._health = health
        self._version = version

    async def caller(self, exchange: Exchange, found: Match) -> Caller:
        """Who asks. Only here may a key stand in a body, which is then read within its limit, before anything runs."""
        if exchange.method != "POST" or found.name not in routes.SERVICES or "POST" not in found.endpoint.methods:
            return await self._callers.resolve(exchange)
        shown = presented(exchange.headers, self._callers.cookie)
        caller = None if shown is None else await self._callers.resolve(exchange)
        guards.check_json(exchange)
        exchange.taken = await exchange.body(self._settings)
        text = service_payloads.key_of_ours(exchange.taken, self._settings.json_bounds)
        if text is None:
            return caller or await self._callers.resolve(exchange)
        if shown is not None and (shown.kind, shown.text) != ("key", text):
            raise ConflictingFields("This request has two different credentials: send one.")
        caller = await self._callers.of_key(text)
        if caller is None:
            raise Unauthorized("This api_key is not, or no longer, good: send another, or leave it out.")
        return caller

    async def answer(self, exchange: Exchange, found: Match) -> None:
        """Answer a request."""
        if found.name not in routes.SERVICES:
            raise routes.nothing(exchange.path)
        if found.endpoint.adapter is not None and exchange.method == "POST":
            await self._call(exchange, found)
        elif found.workflow is None:
            listed = [self._entry(name) for name in sorted({*BUILT_IN, *self._registry.names()})]
            await exchange.answer(services.told({"services": listed}, stream=False))
        elif found.name.endswith("README.md"):
            service, readme = self._described(found.workflow)
            await exchange.answer(services.markdown(readme or service_list.readme(service)))
        else:
            service, _ = self._described(found.workflow)
            entry = {**self._entry(found.workflow), "inputs": service.schemas.inputs}
            await exchange.answer(services.told({} if exchange.method == "HEAD" else entry, stream=False))

    def _described(self, name: str) -> tuple[Description, str]:
        if name in BUILT_IN and name not in self._registry:
            return BUILT_IN[name], ""
        workflow = self._registry.workflow(name)
        return workflow.description, workflow.options.readme

    def _entry(self, name: str) -> dict[str, object]:
        return service_list.entry(*self._described(name), self._version)

    # Calls

    async def _call(self, exchange: Exchange, found: Match) -> None:
        name = found.workflow
        assert name is not None
        if name in BUILT_IN and name not in self._registry:
            await exchange.answer(await self._built_in(exchange, found, name))
        else:
            await self._calling.answer(exchange, found)

    async def _built_in(self, exchange: Exchange, found: Match, name: str) -> Answer:
        stream = found.name == services.STREAM
        if name == "status":
            return services.told(await self._health.document(), stream=stream)
        request = await self._calling.read(exchange, found)
        payload = service_payloads.read(request) if request.body else {}
        kept = {key: value for key, value in payload.items() if key not in service_payloads.CONSUMED}
        try:
            service_payloads.key(payload)
            if not kept:
                raise InvalidBody("payload is required")
        except PalaverError as error:
            reading = services.Reading(workflow=name, is_chat=False, stream=stream)
            return services.failure(error, reading, status=400)
        return services.told({**kept, "session_id": service_payloads.session(payload, request.fresh)}, stream=stream)
