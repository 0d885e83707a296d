"""A small application of some controllers of the REST API, and a client of it with a given caller."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
from litestar import Litestar
from litestar.types import ControllerRouterHandler

from palaver.core.api_keys import ALL_SCOPES, Scope
from palaver.core.runs import DEFAULT_PROJECT
from palaver.server.api import conventions
from palaver.server.api.dependencies import ApiController, bind
from palaver.server.auth import Caller


class FakeCaller(Caller, frozen=True):
    project: str = DEFAULT_PROJECT
    scopes: frozenset[Scope] = ALL_SCOPES
    key: str | None = None
    kind: Literal["nobody", "loopback", "key", "session"] = "key"


DEFAULT_CALLER = FakeCaller()


def application(handlers: Sequence[ControllerRouterHandler], **dependencies: Any) -> Litestar:
    """An application of these handlers and controllers; controllers get their dependencies by name."""
    bound = [
        bind(handler, dependencies) if isinstance(handler, type) and issubclass(handler, ApiController) else handler
        for handler in handlers
    ]
    return Litestar(route_handlers=bound, exception_handlers=conventions.EXCEPTION_HANDLERS, logging_config=None)


@asynccontextmanager
async def rest_client(app: Litestar, caller: FakeCaller = DEFAULT_CALLER) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose requests have the scope that the dispatcher would set."""

    async def with_caller(scope: Any, receive: Any, send: Any) -> None:
        scope[conventions.CALLER], scope["palaver.response_ends"] = caller, None
        await app(scope, receive, send)

    transport = httpx.ASGITransport(app=with_caller)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http
