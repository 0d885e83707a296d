"""Logging in: the web trades a key for a cookie that no script can read, and gives it back."""

import msgspec
from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler

from palaver.core import api_keys
from palaver.core.api_keys import Scope
from palaver.errors import Unauthorized
from palaver.server.api.conventions import Asked, Time, caller_of, raw_body, read_as, takes, told_time
from palaver.server.auth import Authenticator, session_cookie
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import KIB, Settings


class Login(msgspec.Struct, frozen=True):
    """The body that trades a key for a cookie."""

    key: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking, by whatever credential."""

    project: str
    scopes: list[Scope]
    key: str | None
    expires_at: Time | None


def routes(callers: Authenticator, rates: RateLimits, settings: Settings) -> list[HTTPRouteHandler]:
    """The routes of /api/session."""
    small = msgspec.structs.replace(settings, max_body=4 * KIB)  # Anybody may send one.

    @post(
        "/api/session",
        operation_id="log_in",
        summary="Trade a key for a cookie",
        status_code=204,
        operation_class=takes(Login),
    )
    async def log_in(request: Asked) -> Response[None]:
        given = read_as(await raw_body(request, small), Login, small)
        address = request.client.host if request.client else ""
        rates.try_login(address)
        caller = await callers.of_key(given.key.strip())
        if caller is None:
            raise Unauthorized("This is not a valid key.")  # Unknown, expired or revoked: nobody is told.
        rates.logged_in(address)
        rates.request(caller)
        value, session = await callers.begin_session(caller)
        lasting = session.expires_at - session.created_at
        return _with_cookie(request, settings, value, int(lasting.total_seconds()))

    @get("/api/session", operation_id="get_session", summary="Who is asking")
    async def get_session(request: Asked) -> SessionView:
        caller = caller_of(request)
        ends = await callers.expires_at(caller)
        return SessionView(
            project=caller.project,
            scopes=api_keys.minimal_scopes(caller.scopes),
            key=api_keys.format_key_id(caller.key) if caller.key else None,
            expires_at=told_time(ends) if ends else None,
        )

    @delete("/api/session", operation_id="log_out", summary="End this session")
    async def log_out(request: Asked) -> Response[None]:
        await callers.end_session(caller_of(request))
        return _with_cookie(request, settings, "", 0)

    return [log_in, get_session, log_out]


def _with_cookie(request: Asked, settings: Settings, value: str, seconds: int) -> Response[None]:
    cookie = session_cookie(settings, value, seconds=seconds, scheme=request.scope["scheme"])
    return Response(None, status_code=204, headers={"set-cookie": cookie})
