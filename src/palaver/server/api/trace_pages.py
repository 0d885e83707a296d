"""A whole trace, or a session's conversation, as one HTML file to keep and to hand on."""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.server.api import trace_page
from palaver.server.api.conventions import Asked, caller_of
from palaver.server.api.html_page import POLICY
from palaver.server.api.run_views import Told
from palaver.server.api.trace_export import tell
from palaver.server.api.trace_views import Asker
from palaver.server.auth import Caller
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage.database import Database

P = ParamSpec("P")
T = TypeVar("T")

Session = Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="The session's name.")]
_HTML = "text/html"


def routes(database: Database, settings: Settings, rates: RateLimits) -> list[HTTPRouteHandler]:
    """The routes."""
    ask = Asker(database, settings)

    async def read(work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await ask(None, work, *args, **kwargs)

    async def told(caller: Caller, page: AsyncGenerator[bytes], name: str) -> Response[Any]:
        first = await anext(page)  # So that what is not there is told as such.

        async def telling(exchange: Exchange) -> None:
            with rates.streams.held(caller):
                await tell(exchange, first, page, settings.stream_stall, _headers(name))

        return Told(telling)

    @get(
        "/api/traces/{trace:str}/export.html",
        operation_id="export_trace_page",
        summary="A trace as one HTML file: what was said, and its spans",
        media_type=_HTML,
    )
    async def export_trace_page(request: Asked, trace: FromPath[str]) -> Response[Any]:
        caller, name = caller_of(request), trace.lower()
        return await told(caller, trace_page.of_trace(read, caller.project, name), f"trace-{name}.html")

    @get(
        "/api/sessions/thread.html",
        operation_id="export_session_page",
        summary="A session's conversation as one HTML file",
        media_type=_HTML,
    )
    async def export_session_page(request: Asked, session: Session) -> Response[Any]:
        caller = caller_of(request)
        return await told(caller, trace_page.of_session(read, caller.project, session), "session.html")

    return [export_trace_page, export_session_page]


def _headers(name: str) -> tuple[tuple[str, str], ...]:
    """It is saved, not shown; and where it is shown, nothing in it acts. The name is that of a trace that is there."""
    return (
        ("content-type", f"{_HTML}; charset=utf-8"),
        ("content-disposition", f'attachment; filename="{name}"'),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", f"{POLICY}; sandbox"),
    )
