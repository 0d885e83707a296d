"""A remote service as a workflow: called through the client half of the protocol that it speaks.

What stands at a URL is found out elsewhere (discovery/); here it is only called. The remote's answer is untrusted data.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from palaver.core.calls import Call
from palaver.core.descriptions import Description
from palaver.errors import PalaverError, UpstreamFailed, UpstreamTimeout
from palaver.outbound import client, printable
from palaver.protocols import invoke, run
from palaver.protocols.base import Request
from palaver.workflows.context import Context
from palaver.workflows.options import Options
from palaver.workflows.workflow import Producer

if TYPE_CHECKING:
    import httpx

_WHOLE_SECONDS = 600
_WHOLE_BYTES = 10 * 1024 * 1024
_ERROR_BYTES = 64 * 1024


class _Replies(Protocol):
    """The reading side of a protocol's client half."""

    streamed: bool

    def feed(self, data: bytes) -> list[object]: ...

    def end(self) -> list[object]: ...


class _Client(Protocol):
    """A protocol's client half."""

    def request(self, call: Call, *, is_chat: bool, stream: bool) -> Request: ...

    def Replies(self, content_type: str) -> _Replies: ...  # noqa: N802 - a class of the module


CLIENTS: Mapping[str, _Client] = {"invoke": invoke, "run": run}  # pyright: ignore[reportAssignmentType]  # modules
"""The dialects in which we can call, by the name that discovery gives them."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a remote service."""

    url: str
    """Where calls are posted."""
    dialect: str
    description: Description


class RemoteWorkflow:
    """A workflow that somebody else serves. What it is, `look` finds out; it is asked again while the service is away."""

    def __init__(
        self,
        service: Service | None,
        *,
        unknown: Description,
        url: str,
        look: Callable[[], Any],
        headers: Mapping[str, str],
        timeout: float,
    ) -> None:
        self.options = Options()
        self.url = url
        self._service = service
        self._unknown = unknown
        self._look = look
        self._headers = headers
        self._timeout = timeout
        self._asked_at = 0.0

    @property
    def description(self) -> Description:
        """What it says about itself, or that it cannot be reached."""
        return self._service.description if self._service else self._unknown

    @property
    def reachable(self) -> bool:
        """Did it answer when it was last asked what it is?"""
        return self._service is not None

    @property
    def place(self) -> str:
        """Its URL."""
        return self.url

    def __repr__(self) -> str:
        return f"<remote {self.description.name} at {self.url}>"  # Its headers are shown nowhere.

    def bind(self, call: Call) -> Producer:
        """Nothing to check: the service knows best what it takes."""
        return lambda context: self._produce(call, context)

    async def _produce(self, call: Call, context: Context) -> AsyncGenerator[object, None]:
        service = self._service or await self._ask_again()
        speak = CLIENTS[service.dialect]
        streams = service.description.streams
        call = msgspec.structs.replace(call, session=context.session)
        request = speak.request(call, is_chat=service.description.is_chat, stream=streams)
        import httpx

        try:
            async with asyncio.timeout(_WHOLE_SECONDS), client(headers=self._headers, timeout=self._timeout) as http:
                sent = http.stream("POST", service.url, content=request.body, headers=dict(request.headers))
                async with sent as response:
                    if response.status_code >= 400:
                        raise invoke.refused(response.status_code, await _beginning(response))
                    async for value in _values(response, speak):
                        yield value
        except httpx.TimeoutException:
            raise UpstreamTimeout(f"{self.description.name} did not answer within {self._timeout:g} seconds.") from None
        except TimeoutError:
            raise UpstreamTimeout(f"{self.description.name} took longer than {_WHOLE_SECONDS} seconds.") from None
        except httpx.HTTPError as error:
            why = printable(str(error)) or type(error).__name__
            raise UpstreamFailed(f"The connection to {self.description.name} broke: {why}") from None

    async def _ask_again(self) -> Service:
        """The service was away when we looked: look again, at most every 30 seconds."""
        now = asyncio.get_running_loop().time()
        if self._asked_at and now - self._asked_at < 30:
            raise UpstreamFailed(f"{self.url} could not be reached; it is asked again in a moment.")
        self._asked_at = now
        try:
            self._service = await self._look()
        except PalaverError as error:
            raise UpstreamFailed(f"{self.url} cannot be called: {error.message}") from None
        if self._service is None:
            raise UpstreamFailed(f"{self.url} could not be reached.")
        return self._service


async def _values(response: "httpx.Response", speak: _Client) -> AsyncGenerator[object, None]:
    """What the service gives, record by record, without waiting for the end."""
    replies = speak.Replies(response.headers.get("content-type", ""))
    size = 0
    async for data in response.aiter_raw():
        size += len(data)
        if not replies.streamed and size > _WHOLE_BYTES:
            raise UpstreamFailed(f"The remote's reply is larger than {_WHOLE_BYTES} bytes.")
        for value in replies.feed(data):
            yield value
    for value in replies.end():
        yield value


async def _beginning(response: "httpx.Response") -> bytes:
    body = b""
    async for data in response.aiter_raw():
        body += data
        if len(body) > _ERROR_BYTES:
            break
    return body
