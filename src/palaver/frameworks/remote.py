"""Call a remote service as a workflow. Replies are untrusted; palaver.discovery detects the protocol of a URL."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

import msgspec

from palaver.core.descriptions import Description
from palaver.core.dialects import chat_completions as dialect
from palaver.core.events import TERMINAL_EVENTS, Event, RunCancelled, RunFailed, RunFinished, RunStarted, UsageAdded
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.messages import Data, Message
from palaver.core.runs import Call
from palaver.errors import PalaverError, UpstreamFailed, UpstreamTimeout
from palaver.outbound import CONNECT_TIMEOUT_S, client, printable
from palaver.protocols import client_base
from palaver.protocols.agenta import invoke, run
from palaver.protocols.base import HttpRequest
from palaver.protocols.chat_completions.client import ChatReplyDecoder, build_chat_request
from palaver.protocols.responses.client import ResponsesReplyDecoder, build_responses_request
from palaver.workflows.context import Context
from palaver.workflows.execution import Returned
from palaver.workflows.inline_files import has_stored_files, inline_files
from palaver.workflows.workflow import Options, Producer

if TYPE_CHECKING:
    import httpx

CALL_TIMEOUT_S = 600.0
MAX_REPLY_BYTES = 10 * 1024 * 1024
"""Maximum size of a reply that is not streamed."""
RETRY_INTERVAL_S = 30.0
"""Minimum time between attempts to discover a service that is down."""
REFRESH_INTERVAL_S = 5.0
"""How long a discovery counts as fresh."""
_MAX_ERROR_BYTES = 64 * 1024
_NOT_CALLABLE = "cannot be called: its protocol could not be identified"

RemoteState = Literal["ready", "unreachable", "unavailable"]
"""`unavailable`: it answers, but it is not known how to call it."""

log = logging.getLogger("palaver.remote")


class _RequestBuilder(Protocol):
    def __call__(self, call: Call, *, is_chat: bool, stream: bool, model: str | None) -> HttpRequest: ...


class _ProtocolClient(NamedTuple):
    request: _RequestBuilder
    replies: Callable[[str], client_base.ReplyDecoder]
    returns_values: bool = False
    """Whether a workflow that is not a chat can return its value. In the other protocols all output is messages."""


CLIENTS: Mapping[str, _ProtocolClient] = {
    "invoke": _ProtocolClient(invoke.build_invoke_request, invoke.InvokeReplyDecoder, returns_values=True),
    "run": _ProtocolClient(run.build_run_request, run.RunReplyDecoder, returns_values=True),
    "responses": _ProtocolClient(build_responses_request, ResponsesReplyDecoder),
    "chat-completions": _ProtocolClient(build_chat_request, ChatReplyDecoder),
}
"""The protocols that can be called, by the name of their dialect."""


class RemoteService(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """Where calls are posted."""
    dialect: str
    description: Description
    model: str | None = None
    """The model to request, in dialects that name one."""
    evidence: Any = None
    """How this was discovered, as a public report."""


class RemoteWorkflow:
    """A workflow of another server, discovered at once, or later if the service was down."""

    def __init__(
        self,
        service: RemoteService | None,
        *,
        placeholder: Description,
        url: str,
        discover: Callable[[], Awaitable[RemoteService | None]],
        headers: Mapping[str, str],
        timeout: float,
        transport: "Callable[[], httpx.AsyncBaseTransport | None]" = lambda: None,
    ) -> None:
        self.options = Options()
        self.url = url
        self.service = service
        """None until it has been discovered."""
        self._placeholder = placeholder
        self._discover = discover
        self._headers = headers
        self._timeout = timeout
        self._transport = transport
        """Creates the transport of a call, if not all addresses are allowed."""
        self._discovery_lock = asyncio.Lock()
        self._last_attempt_at: float | None = None
        self._refreshed_at: float | None = None
        self.reachable = service is not None
        """Whether it answered the last discovery, or a call since."""
        self.problem: str | None = None
        """Why its last discovery failed, if it answered. It contains addresses: for the operator only."""
        self.checked_at: datetime | None = _now()
        """When discovery was last attempted; None if never."""

    @property
    def description(self) -> Description:
        """The service's description, or a placeholder until it has been discovered."""
        return self.service.description if self.service else self._placeholder

    @property
    def evidence(self) -> Any:
        """How it was discovered; None until it has been."""
        return self.service.evidence if self.service else None

    @property
    def state(self) -> RemoteState:
        return "ready" if self.reachable else "unreachable" if self.problem is None else "unavailable"

    async def refresh(self) -> None:
        """Discover the service again; if that fails, the last result stays."""
        async with self._discovery_lock:
            now = asyncio.get_running_loop().time()
            if self._refreshed_at is not None and now - self._refreshed_at < REFRESH_INTERVAL_S:
                return
            service, problem = None, None
            try:
                service = await self._discover()
            except PalaverError as error:
                problem = error.message
                if problem != self.problem:
                    log.warning("%r: %s", self, problem)
            self.problem = problem
            self._refreshed_at = asyncio.get_running_loop().time()
            self.service, self.reachable, self.checked_at = service or self.service, service is not None, _now()

    def set_service(self, service: RemoteService, checked_at: datetime) -> None:
        """Set the result of a discovery by another process."""
        self.service, self.reachable, self.problem, self.checked_at = service, True, None, checked_at

    @property
    def place(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"<remote {self.description.name} at {self.url}>"  # Without its headers, which may hold secrets.

    def bind(self, call: Call) -> Producer:
        """Return a producer for the call. Inputs are not checked: the service validates them."""
        return lambda context: self._produce(call, context, self.description)

    async def _produce(
        self, call: Call, context: Context, call_description: Description
    ) -> AsyncGenerator[object, None]:
        service = self.service or await self._discover_again()
        protocol, description = CLIENTS[service.dialect], service.description
        call = msgspec.structs.replace(call, session=context.session, trace_parent=context.trace_parent)
        if has_stored_files(call.messages):
            call = msgspec.structs.replace(call, messages=await inline_files(call.messages, context))
        # The caller expects a value, but the protocol carries only messages: the value is derived from them.
        is_value = not call_description.is_chat and not protocol.returns_values
        stream = description.streams and description.is_chat == call_description.is_chat and not is_value
        values: list[object] = []
        request = protocol.request(call, is_chat=description.is_chat, stream=stream, model=service.model)
        deadline = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        import httpx

        try:
            async with (
                client(headers=self._headers, timeout=self._timeout, transport=self._transport()) as http,
                aclosing(await _send(http, service.url, request, deadline)) as response,
                aclosing(_ReplyBody(response, deadline)) as body,
            ):
                await self._check_response(response, body)
                self.reachable = True
                replies = protocol.replies(response.headers.get("content-type", ""))
                while (chunk := await body.next()) is not None:
                    if body.size > MAX_REPLY_BYTES and (is_value or not replies.streamed):
                        raise UpstreamFailed(
                            f"The response from {description.name} exceeds the limit of {MAX_REPLY_BYTES:,} bytes."
                        )
                    for value in replies.feed(chunk):
                        if is_value:
                            values.append(value)
                            continue
                        yield self._printable_failure(value)
                        if isinstance(value, TERMINAL_EVENTS):
                            return  # Ignore anything after the terminal event.
                values += replies.end()
                is_streamed = replies.streamed and not is_value
                for value in _reply_value(values, description, call.messages) if is_value else values:
                    yield self._printable_failure(value) if is_streamed or isinstance(value, Event) else Returned(value)
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._public_error(error) from None

    async def _discover_again(self) -> RemoteService:
        name = self._placeholder.name
        async with self._discovery_lock:  # Concurrent callers wait for the same result.
            if self.service is not None:
                return self.service
            now = asyncio.get_running_loop().time()
            if self._last_attempt_at is not None and now - self._last_attempt_at < RETRY_INTERVAL_S:
                problem = "could not be reached" if self.problem is None else _NOT_CALLABLE
                raise UpstreamFailed(f"{name} {problem}. Try again shortly.", details=client_base.RETRYABLE)
            self._last_attempt_at, self.checked_at = now, _now()
            try:
                self.service = await self._discover()
            except PalaverError as error:
                self.problem = error.message
                log.warning("%r: %s", self, error.message)
                raise UpstreamFailed(f"{name} {_NOT_CALLABLE}.") from None
            self.problem = None
            if self.service is None:
                raise UpstreamFailed(f"{name} could not be reached.", details=client_base.RETRYABLE)
            self.reachable = True
            return self.service

    async def _check_response(self, response: "httpx.Response", body: "_ReplyBody") -> None:
        """Raise for an error status, a redirect or a compressed reply."""
        name, status = self.description.name, response.status_code
        if 300 <= status < 400:
            raise UpstreamFailed(f"{name} returned a redirect ({status}), which is not followed.")
        if not 200 <= status < 300:
            remote_message = client_base.error_message(await body.read_start())
            message = f"{name} returned status {status}{f': {printable(remote_message)}' if remote_message else '.'}"
            raise UpstreamFailed(
                message, details=client_base.retry_details(status, response.headers.get("retry-after", ""))
            )
        # A few compressed bytes can expand to gigabytes. We requested plain ones.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise UpstreamFailed(f"{name} sent a compressed reply, although an uncompressed one was requested.")

    def _public_error(self, error: Exception) -> PalaverError:
        """Convert a transport error to a public one. Its own text is logged only."""
        import httpx

        name = self.description.name
        match error:
            case httpx.ConnectTimeout():
                seconds = min(self._timeout, CONNECT_TIMEOUT_S)
                return UpstreamTimeout(f"{name} could not be reached within {seconds:g} seconds.")
            case httpx.TimeoutException():
                return UpstreamTimeout(f"{name} did not answer within {self._timeout:g} seconds.")
            case TimeoutError():
                return UpstreamTimeout(f"{name} took longer than {CALL_TIMEOUT_S:g} seconds.")
            case _:
                log.warning("%r: %s: %s", self, type(error).__name__, printable(str(error)))
                is_unreachable = isinstance(error, httpx.ConnectError)
                message = f"{name} could not be reached." if is_unreachable else f"The connection to {name} was lost."
                return UpstreamFailed(message, details=client_base.RETRYABLE)

    def _printable_failure(self, value: object) -> object:
        if not isinstance(value, RunFailed):
            return value
        name = self.description.name
        message = f"{name} failed: {printable(value.message)}" if value.message else f"{name} failed."
        return msgspec.structs.replace(value, message=message)


def _now() -> datetime:
    return datetime.now(UTC)


class _ReplyBody:
    """The body of a reply in chunks. No timeout spans a yield, because the consumer may be slow."""

    def __init__(self, response: "httpx.Response", deadline: float) -> None:
        self.size = 0
        self._chunks = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
        self._deadline = deadline

    async def next(self) -> bytes | None:
        async with asyncio.timeout_at(self._deadline):
            chunk = await anext(self._chunks, None)
        self.size += len(chunk or b"")
        return chunk

    async def read_start(self) -> bytes:
        body = b""
        while len(body) < _MAX_ERROR_BYTES and (chunk := await self.next()) is not None:
            body += chunk
        return body

    async def aclose(self) -> None:
        await self._chunks.aclose()


async def _send(http: "httpx.AsyncClient", url: str, request: HttpRequest, deadline: float) -> "httpx.Response":
    http_request = http.build_request("POST", url, content=request.body, headers=dict(request.headers))
    async with asyncio.timeout_at(deadline):
        return await http.send(http_request, stream=True)


def _reply_value(values: Sequence[object], description: Description, history: Sequence[Message]) -> list[object]:
    """Return the value in a reply that consists of messages: their data part `output`, or the messages."""
    grammar = Grammar("", history=history)
    events = [*grammar.start(RunStarted())]
    for value in values:
        if isinstance(value, RunFailed | RunCancelled):
            return [value]
        if not isinstance(value, Event):
            return [value]  # The value itself.
        events += grammar.end(value) if isinstance(value, RunFinished) else grammar.feed(value)
    reply = fold(events)
    usage = [UsageAdded(usage=reply.usage)] if reply.usage is not None else []
    if description.is_chat:
        messages = dialect.write(reply.messages)
        return [*usage, messages[0] if len(messages) == 1 else messages]
    parts = [part for message in reply.messages for part in message.parts]
    outputs: list[Any] = [part.value for part in parts if isinstance(part, Data) and part.name == "output"]
    return [*usage, outputs[0] if outputs else "".join(message.text for message in reply.messages)]
