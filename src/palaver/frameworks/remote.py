"""A remote service as a workflow: called through the client half of the protocol that it speaks.

What stands at a URL is found out elsewhere (discovery/); here it is only called. The remote's answer is untrusted data.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

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
from palaver.protocols import upstream
from palaver.protocols.agenta import invoke, run
from palaver.protocols.base import HttpRequest
from palaver.protocols.chat_completions.client import ChatReplyDecoder, build_chat_request
from palaver.protocols.responses.client import ResponsesReplyDecoder, build_responses_request
from palaver.workflows.context import Context
from palaver.workflows.execution import Returned
from palaver.workflows.files import has_stored_files, inline_files
from palaver.workflows.options import Options
from palaver.workflows.workflow import Producer

if TYPE_CHECKING:
    import httpx

CALL_TIMEOUT_S = 600.0
"""How long one call may take in all."""
MAX_REPLY_BYTES = 10 * 1024 * 1024
"""How large a reply may be that is not streamed."""
RETRY_INTERVAL_S = 30.0
"""How long a service that is away is left alone."""
REFRESH_INTERVAL_S = 5.0
"""How long what it said of itself is new, to whoever wants to hear it again."""
_MAX_ERROR_BYTES = 64 * 1024

log = logging.getLogger("palaver.remote")


class _ReplyDecoder(Protocol):
    """The reading side of a protocol's client half."""

    streamed: bool

    def feed(self, data: bytes) -> list[object]: ...

    def end(self) -> list[object]: ...


class _RequestBuilder(Protocol):
    """The writing side."""

    def __call__(self, call: Call, *, is_chat: bool, stream: bool, model: str | None) -> HttpRequest: ...


class _ProtocolClient(NamedTuple):
    request: _RequestBuilder
    replies: Callable[[str], _ReplyDecoder]
    has_values: bool = False
    """Can a workflow that is no chat answer with its value? In the others all answers are messages."""


def _without_model(ask: Callable[..., HttpRequest]) -> _RequestBuilder:
    def asked(call: Call, *, is_chat: bool, stream: bool, model: str | None) -> HttpRequest:  # noqa: ARG001
        return ask(call, is_chat=is_chat, stream=stream)

    return asked


CLIENTS: Mapping[str, _ProtocolClient] = {
    "invoke": _ProtocolClient(_without_model(invoke.build_invoke_request), invoke.InvokeReplyDecoder, has_values=True),
    "run": _ProtocolClient(_without_model(run.build_run_request), run.RunReplyDecoder, has_values=True),
    "responses": _ProtocolClient(build_responses_request, ResponsesReplyDecoder),
    "chat-completions": _ProtocolClient(build_chat_request, ChatReplyDecoder),
}
"""The dialects in which we can call, by the name that discovery gives them."""


class RemoteService(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a remote service."""

    url: str
    """Where calls are posted."""
    dialect: str
    description: Description
    model: str | None = None
    """Whom to ask for there, in the dialects that name a model."""
    evidence: Any = None
    """How all this was found out, as anyone may see it."""


class RemoteWorkflow:
    """A workflow that somebody else serves. What it is, `look` finds out: at once, or later where nobody answered."""

    def __init__(
        self,
        service: RemoteService | None,
        *,
        unknown: Description,
        url: str,
        look: Callable[[], Awaitable[RemoteService | None]],
        headers: Mapping[str, str],
        timeout: float,
        transport: "Callable[[], httpx.AsyncBaseTransport | None]" = lambda: None,
    ) -> None:
        self.options = Options()
        self.url = url
        self._service = service
        self._unknown = unknown
        self._look = look
        self._headers = headers
        self._timeout = timeout
        self._transport = transport
        """What makes the connections of a call, where not everybody may be connected to."""
        self._asking = asyncio.Lock()
        self._asked_at: float | None = None
        self._refreshed_at: float | None = None
        self.reachable = service is not None
        """Did it answer when it was last asked?"""
        self.checked_at: datetime | None = _now()
        """When it was last asked what it is; None: never yet."""

    @property
    def description(self) -> Description:
        """What it says about itself, or that it cannot be reached."""
        return self._service.description if self._service else self._unknown

    @property
    def service(self) -> RemoteService | None:
        """What is known of it; None where nobody has answered yet."""
        return self._service

    @property
    def evidence(self) -> Any:
        """How was found out what it is; None where nobody has answered yet."""
        return self._service.evidence if self._service else None

    async def refresh(self) -> None:
        """Ask what it is, again; where nobody answers, what was said last stays."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._refreshed_at is not None and now - self._refreshed_at < REFRESH_INTERVAL_S:
                return
            try:
                service = await self._look()
            except PalaverError as error:
                log.warning("%r: %s", self, error.message)
                service = None
            self._refreshed_at = asyncio.get_running_loop().time()
            self._service, self.reachable, self.checked_at = service or self._service, service is not None, _now()

    def tell(self, service: RemoteService, checked_at: datetime) -> None:
        """Another process has asked, and says what it heard."""
        self._service, self.reachable, self.checked_at = service, True, checked_at

    @property
    def place(self) -> str:
        """Its URL."""
        return self.url

    def __repr__(self) -> str:
        return f"<remote {self.description.name} at {self.url}>"  # Its headers are shown nowhere.

    def bind(self, call: Call) -> Producer:
        """Nothing to check: the service knows best what it takes."""
        return lambda context: self._produce(call, context, self.description)

    async def _produce(self, call: Call, context: Context, read_as: Description) -> AsyncGenerator[object, None]:
        service = self._service or await self._asked_again()
        speak, told = CLIENTS[service.dialect], service.description
        call = msgspec.structs.replace(call, session=context.session, trace_parent=context.trace_parent)
        if has_stored_files(call.messages):
            call = msgspec.structs.replace(call, messages=await inline_files(call.messages, context))
        # A chat that was away until now was not called as one: then its messages, whole, are the value.
        is_value = not read_as.is_chat and not speak.has_values
        stream = told.streams and told.is_chat == read_as.is_chat and not is_value
        heard: list[object] = []
        request = speak.request(call, is_chat=told.is_chat, stream=stream, model=service.model)
        deadline = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        import httpx

        try:
            async with (
                client(headers=self._headers, timeout=self._timeout, transport=self._transport()) as http,
                aclosing(await _send(http, service.url, request, deadline)) as response,
                aclosing(_ReplyBody(response, deadline)) as body,
            ):
                await self._check(response, body)
                self.reachable = True
                replies = speak.replies(response.headers.get("content-type", ""))
                while (piece := await body.next()) is not None:
                    if body.size > MAX_REPLY_BYTES and (is_value or not replies.streamed):
                        raise UpstreamFailed(f"The reply of {told.name} is larger than {MAX_REPLY_BYTES} bytes.")
                    for value in replies.feed(piece):
                        if is_value:
                            heard.append(value)
                            continue
                        yield self._shown(value)
                        if isinstance(value, TERMINAL_EVENTS):
                            return  # Nobody waits for what a remote may do after its last word.
                heard += replies.end()
                passes = replies.streamed and not is_value
                for value in _reply_value(heard, told, call.messages) if is_value else heard:
                    yield self._shown(value) if passes or isinstance(value, Event) else Returned(value)
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._explained(error) from None

    async def _asked_again(self) -> RemoteService:
        """The service was away when we looked: look again, but not too often."""
        name = self._unknown.name
        async with self._asking:  # Those who call meanwhile wait for the same answer.
            if self._service is not None:
                return self._service
            now = asyncio.get_running_loop().time()
            if self._asked_at is not None and now - self._asked_at < RETRY_INTERVAL_S:
                told = f"{name} could not be reached; it is asked again in a moment."
                raise UpstreamFailed(told, details=upstream.RETRYABLE)
            self._asked_at, self.checked_at = now, _now()
            try:
                self._service = await self._look()
            except PalaverError as error:
                log.warning("%r: %s", self, error.message)  # It names addresses: for the operator only.
                raise UpstreamFailed(f"{name} cannot be called: it does not say what it is.") from None
            if self._service is None:
                raise UpstreamFailed(f"{name} could not be reached.", details=upstream.RETRYABLE)
            self.reachable = True
            return self._service

    async def _check(self, response: "httpx.Response", body: "_ReplyBody") -> None:
        """Raise for an answer that is no reply, with what it says about itself."""
        name, status = self.description.name, response.status_code
        if 300 <= status < 400:
            raise UpstreamFailed(f"{name} answered {status}: it redirects, which is not followed.")
        if not 200 <= status < 300:
            words = upstream.error_message(await body.beginning())
            told = f"{name} answered {status}{f': {printable(words)}' if words else '.'}"
            raise UpstreamFailed(told, details=upstream.retry_details(status, response.headers.get("retry-after", "")))
        # A few compressed bytes can stand for gigabytes. We asked for plain ones.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise UpstreamFailed(f"{name} compressed its answer, though plain bytes were asked for.")

    def _explained(self, error: Exception) -> PalaverError:
        """What went wrong on the way, in our own words: a foreign exception's are for the operator alone."""
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
                away = isinstance(error, httpx.ConnectError)
                told = f"{name} {'could not be reached' if away else 'broke off its answer'}."
                return UpstreamFailed(told, details=upstream.RETRYABLE)

    def _shown(self, value: object) -> object:
        """A remote's failure, in words that can be shown; anything else as it is."""
        if not isinstance(value, RunFailed):
            return value
        name = self.description.name
        message = f"{name} failed: {printable(value.message)}" if value.message else f"{name} failed."
        return msgspec.structs.replace(value, message=message)


def _now() -> datetime:
    return datetime.now(UTC)


class _ReplyBody:
    """The body of an answer, piece by piece. Who reads it may take their time: no timeout spans a yield."""

    def __init__(self, response: "httpx.Response", deadline: float) -> None:
        self.size = 0
        self._pieces = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
        self._deadline = deadline

    async def next(self) -> bytes | None:
        """The next piece, None after the last."""
        async with asyncio.timeout_at(self._deadline):
            piece = await anext(self._pieces, None)
        self.size += len(piece or b"")
        return piece

    async def beginning(self) -> bytes:
        """As much as an error document needs."""
        body = b""
        while len(body) < _MAX_ERROR_BYTES and (piece := await self.next()) is not None:
            body += piece
        return body

    async def aclose(self) -> None:
        await self._pieces.aclose()


async def _send(http: "httpx.AsyncClient", url: str, request: HttpRequest, deadline: float) -> "httpx.Response":
    """The head of the answer; its body is yet to be read."""
    sent = http.build_request("POST", url, content=request.body, headers=dict(request.headers))
    async with asyncio.timeout_at(deadline):
        return await http.send(sent, stream=True)


def _reply_value(given: Sequence[object], told: Description, history: Sequence[Message]) -> list[object]:
    """The value in the whole answer of a service that can only speak: its messages, or what they hold for a value."""
    grammar = Grammar("", history=history)
    log = [*grammar.start(RunStarted())]
    for one in given:
        if isinstance(one, RunFailed | RunCancelled):
            return [one]
        if not isinstance(one, Event):
            return [one]  # Something else than it promised; then that is the value.
        log += grammar.end(one) if isinstance(one, RunFinished) else grammar.feed(one)
    reply = fold(log)
    usage = [UsageAdded(usage=reply.usage)] if reply.usage is not None else []
    if told.is_chat:
        messages = dialect.write(reply.messages)
        return [*usage, messages[0] if len(messages) == 1 else messages]
    parts = [part for message in reply.messages for part in message.parts]
    outputs: list[Any] = [part.value for part in parts if isinstance(part, Data) and part.name == "output"]
    return [*usage, outputs[0] if outputs else "".join(message.text for message in reply.messages)]
