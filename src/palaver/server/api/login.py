"""Logging in: the web trades a key for a cookie that no script can read, and gives it back."""

import msgspec
from litestar import Response, delete, get, post

from palaver.core import api_keys
from palaver.core.api_keys import Scope
from palaver.errors import Unauthorized
from palaver.server.api.conventions import Asked, Time, caller_of, raw_body, read_as, takes, told_time
from palaver.server.api.dependencies import ApiController
from palaver.server.auth import Authenticator, session_cookie
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import KIB, Settings

_MAX_LOGIN_BYTES = 4 * KIB  # Anyone may send one.


class Login(msgspec.Struct, frozen=True):
    """The body that trades a key for a cookie."""

    key: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking, by whatever credential."""

    project: str
    scopes: list[Scope]
    key: str | None
    expires_at: Time | None


class SessionController(ApiController):
    path = "/api/session"

    settings: Settings
    authenticator: Authenticator
    rate_limits: RateLimits

    @post(
        operation_id="log_in",
        summary="Trade a key for a cookie",
        status_code=204,
        operation_class=takes(Login),
    )
    async def log_in(self, request: Asked) -> Response[None]:
        small = msgspec.structs.replace(self.settings, max_body=_MAX_LOGIN_BYTES)
        given = read_as(await raw_body(request, small), Login, small)
        address = request.client.host if request.client else ""
        self.rate_limits.count_login(address)
        caller = await self.authenticator.caller_of_key(given.key.strip())
        if caller is None:
            raise Unauthorized("This is not a valid key.")  # Unknown, expired or revoked: nobody is told.
        self.rate_limits.uncount_login(address)
        self.rate_limits.count_request(caller)
        value, session = await self.authenticator.create_session(caller)
        lasting = session.expires_at - session.created_at
        return _with_cookie(request, self.settings, value, int(lasting.total_seconds()))

    @get(operation_id="get_session", summary="Who is asking")
    async def get_session(self, request: Asked) -> SessionView:
        caller = caller_of(request)
        ends = await self.authenticator.expires_at(caller)
        return SessionView(
            project=caller.project,
            scopes=api_keys.minimal_scopes(caller.scopes),
            key=api_keys.format_key_id(caller.key) if caller.key else None,
            expires_at=told_time(ends) if ends else None,
        )

    @delete(operation_id="log_out", summary="End this session")
    async def log_out(self, request: Asked) -> Response[None]:
        await self.authenticator.end_session(caller_of(request))
        return _with_cookie(request, self.settings, "", 0)


def _with_cookie(request: Asked, settings: Settings, value: str, seconds: int) -> Response[None]:
    cookie = session_cookie(settings, value, seconds=seconds, scheme=request.scope["scheme"])
    return Response(None, status_code=204, headers={"set-cookie": cookie})
