"""A small application of some of the REST API's routes, and a client of it, as somebody in a project."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
from litestar import Litestar
from litestar.types import ControllerRouterHandler

from palaver.core.api_keys import ALL_SCOPES, Scope
from palaver.core.runs import DEFAULT_PROJECT
from palaver.server.api import conventions, problems
from palaver.server.auth import Caller


class FakeCaller(Caller, frozen=True):
    """Who is asking."""

    project: str = DEFAULT_PROJECT
    scopes: frozenset[Scope] = ALL_SCOPES
    key: str | None = None
    kind: Literal["nobody", "loopback", "key", "session"] = "key"


DEFAULT_CALLER = FakeCaller()


def application(handlers: Sequence[ControllerRouterHandler]) -> Litestar:
    return Litestar(route_handlers=list(handlers), exception_handlers=problems.HANDLERS, logging_config=None)


@asynccontextmanager
async def rest_client(app: Litestar, who: FakeCaller = DEFAULT_CALLER) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose requests come to the routes as the dispatcher would bring them."""

    async def dispatched(scope: Any, receive: Any, send: Any) -> None:
        scope[conventions.CALLER], scope["palaver.callers"] = who, None
        await app(scope, receive, send)

    transport = httpx.ASGITransport(app=dispatched)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http
