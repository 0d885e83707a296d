"""A whole trace, or a session's conversation, as one HTML file to keep and to hand on."""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.server.api import trace_page
from palaver.server.api.conventions import Asked, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.html_page import POLICY
from palaver.server.api.run_views import Told
from palaver.server.api.trace_export import tell
from palaver.server.api.trace_views import Asker
from palaver.server.auth import Caller
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

Session = Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="The session's name.")]
_HTML = "text/html"


class TracePageController(ApiController):
    path = "/api"

    settings: Settings
    rate_limits: RateLimits
    run_query: Asker

    async def _read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run_query(None, work, *args, **kwargs)

    async def _told(self, caller: Caller, page: AsyncGenerator[bytes], name: str) -> Response[Any]:
        first = await anext(page)  # So that what is not there is told as such.

        async def telling(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await tell(exchange, first, page, self.settings.stream_stall, _headers(name))

        return Told(telling)

    @get(
        "/traces/{trace:str}/export.html",
        operation_id="export_trace_page",
        summary="A trace as one HTML file: what was said, and its spans",
        media_type=_HTML,
    )
    async def export_trace_page(self, request: Asked, trace: FromPath[str]) -> Response[Any]:
        caller, name = caller_of(request), trace.lower()
        return await self._told(caller, trace_page.of_trace(self._read, caller.project, name), f"trace-{name}.html")

    @get(
        "/sessions/thread.html",
        operation_id="export_session_page",
        summary="A session's conversation as one HTML file",
        media_type=_HTML,
    )
    async def export_session_page(self, request: Asked, session: Session) -> Response[Any]:
        caller = caller_of(request)
        return await self._told(caller, trace_page.of_session(self._read, caller.project, session), "session.html")


def _headers(name: str) -> tuple[tuple[str, str], ...]:
    """It is saved, not shown; and where it is shown, nothing in it acts. The name is that of a trace that is there."""
    return (
        ("content-type", f"{_HTML}; charset=utf-8"),
        ("content-disposition", f'attachment; filename="{name}"'),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", f"{POLICY}; sandbox"),
    )
