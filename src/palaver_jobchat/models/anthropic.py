"""Claude, through Anthropic's own SDK. Every call streams; what comes is read by anthropic_events.py.

The prompt is in this provider's shapes already, cache marks included.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from typing import Any, Final, Literal, cast

import msgspec
from anthropic import AsyncAnthropic, AsyncStream, DefaultAioHttpClient, Timeout
from anthropic.types import RawMessageStreamEvent

from palaver import Usage
from palaver_jobchat.models.base import (
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    StopReason,
    TextDelta,
    ToolCallBuilder,
    UsageReport,
)
from palaver_jobchat.models.client import ClientPool, RetryPolicy, retry
from palaver_jobchat.models.errors import (
    RequestInfo,
    check_key,
    connection_lost,
    failure_from_error,
    failure_from_exception,
    stream_error,
)

STOP_REASONS: Final[dict[str, StopReason]] = {
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}
"""Why a message ends; any other reason is that it is said."""


class OutputTokenDetails(msgspec.Struct, frozen=True):
    """What output tokens were spent on."""

    thinking_tokens: int | None = None


class TokenCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A usage, cumulative; a later one may leave out what has not changed."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: OutputTokenDetails | None = None


class MessageStart(msgspec.Struct, frozen=True):
    """A message as it begins."""

    usage: TokenCounts = TokenCounts()


class ContentBlockStart(msgspec.Struct, frozen=True):
    """A block as it begins."""

    type: str = ""
    id: str = ""
    name: str = ""


class ContentDelta(msgspec.Struct, frozen=True):
    """A piece of a block, or the end of a message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class ErrorObject(msgspec.Struct, frozen=True):
    """What went wrong."""

    type: str = ""
    message: str = ""


class StreamEvent(msgspec.Struct, frozen=True):
    """Any event: the fields of all of them that concern us. New kinds come without warning, and are no error."""

    type: str = ""
    message: MessageStart = MessageStart()
    content_block: ContentBlockStart = ContentBlockStart()
    delta: ContentDelta = ContentDelta()
    usage: TokenCounts = TokenCounts()
    error: ErrorObject = ErrorObject()


_decode = msgspec.json.Decoder(StreamEvent).decode


class SseLines:
    """Takes a stream of server-sent events apart."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """The events that are whole. Each has its data in one line, with its own name in it. Raises ValueError."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield _decode(line[5:])


class AnthropicStreamParser:
    """Makes happenings out of events. What the model thinks is its own, and not among them."""

    def __init__(self) -> None:
        self.is_complete = False
        self._tokens = TokenCounts()
        self._reason = ""
        self._call: ToolCallBuilder | None = None

    def feed(self, event: StreamEvent) -> list[ModelEvent]:
        """What an event amounts to."""
        match event.type:
            case "content_block_delta":
                return self._delta(event.delta)
            case "message_start":
                return [self._spent(event.message.usage)]
            case "message_delta":
                self._reason = event.delta.stop_reason or self._reason
                return [self._spent(event.usage)]
            case "content_block_start" if event.content_block.type == "tool_use":
                self._call = ToolCallBuilder(event.content_block.id, event.content_block.name)
                return [self._call.started]
            case "content_block_stop" if self._call is not None:
                call, self._call = self._call, None
                return [call.finished]
            case "message_stop":
                self.is_complete = True
                return [ResponseFinished(STOP_REASONS.get(self._reason, "stop"), self._reason)]
            case _:
                return []

    def _delta(self, delta: ContentDelta) -> list[ModelEvent]:
        if delta.type == "text_delta" and delta.text:
            return [TextDelta(delta.text)]
        if delta.type == "input_json_delta" and self._call is not None:
            self._call.add(delta.partial_json)
        return []

    def _spent(self, tokens: TokenCounts) -> UsageReport:
        news = {name: value for name, value in msgspec.structs.asdict(tokens).items() if value is not None}
        self._tokens = msgspec.structs.replace(self._tokens, **news)
        return UsageReport(usage_from_tokens(self._tokens))


def usage_from_tokens(tokens: TokenCounts) -> Usage:
    """The same in our own count, where input is all input."""
    read, made = tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(tokens.input_tokens or 0) + read + made,
        output_tokens=tokens.output_tokens or 0,
        cached_input_tokens=read,
        cache_creation_input_tokens=made,
        reasoning_tokens=None if tokens.output_tokens_details is None else tokens.output_tokens_details.thinking_tokens,
    )


DEFAULT_MODEL: Final = "claude-sonnet-5-5"
_TOOL: Final = "edit_job"
_JSON: Final = {"content-type": "application/json"}
_Raw = cast("type[RawMessageStreamEvent]", RawMessageStreamEvent)
CONNECT_TIMEOUT_S: Final = 5.0
DRAIN_TIMEOUT_S: Final = 0.5


class Anthropic:
    """A model of Anthropic's. Key and address are those that the SDK would take from the environment."""

    def __init__(
        self,
        *,
        model: str = "",
        max_tokens: int = 16_384,
        thinking: Literal["off", "adaptive"] = "off",
        retry_policy: RetryPolicy | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> None:
        self._model = model or DEFAULT_MODEL
        self._max_tokens = max_tokens
        self._thinking = thinking
        self._patience = retry_policy or RetryPolicy()
        self._key = (os.environ.get("ANTHROPIC_API_KEY", "") if api_key is None else api_key).strip()
        self._base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        self._clients = ClientPool(self._client)

    @property
    def name(self) -> str:
        """Of the model."""
        return self._model

    @property
    def is_configured(self) -> bool:
        """Whether the server has a key of its own."""
        return bool(self._key)

    async def aclose(self) -> None:
        """Close the connections of this event loop. They are closed with the loop in any case."""
        await self._clients.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer as it comes."""
        sent = RequestInfo.from_request(
            request,
            model=self._model,
            server_key=self._key,
            timeout=self._patience.timeout_s,
            setting="ANTHROPIC_API_KEY",
        )
        stream = await self._opened(request, sent)
        try:
            lines, reading, body = SseLines(), AnthropicStreamParser(), stream.response.aiter_bytes()
            while not reading.is_complete:
                for event in _events(lines, await _next_bytes(body, sent), sent):
                    for happening in reading.feed(event):
                        yield happening
            await _drain(body)
        finally:
            await stream.close()

    def _client(self) -> AsyncAnthropic:
        timeout = Timeout(self._patience.timeout_s, connect=CONNECT_TIMEOUT_S)
        # Never without a key, not even an empty one: the SDK would go and look for other credentials.
        return AsyncAnthropic(
            api_key=self._key,
            base_url=self._base_url,
            timeout=timeout,
            max_retries=0,
            # A piece of an answer costs half as much as through httpx (docs/decisions/0024).
            http_client=DefaultAioHttpClient(timeout=timeout),
        )

    async def _opened(self, asking: ModelRequest, sent: RequestInfo) -> AsyncStream[RawMessageStreamEvent]:
        check_key(sent)
        client = await self._clients.get()
        if sent.key_source == "request":
            client = client.with_options(api_key=sent.key)
        # What `messages.create` would send. It copies and writes the whole prompt in Python; this one is JSON already.
        content = msgspec.json.encode(self._request(asking))

        def post() -> Awaitable[AsyncStream[RawMessageStreamEvent]]:
            return client.post(
                "/v1/messages",
                cast_to=_Raw,
                content=content,
                options={"headers": _JSON},
                stream=True,
                stream_cls=AsyncStream[RawMessageStreamEvent],
            )

        try:
            return await retry(post, self._patience)
        except Exception as error:
            failed = failure_from_exception(error, sent)
        raise failed

    def _request(self, asking: ModelRequest) -> dict[str, Any]:
        prompt = asking.prompt
        is_thinking = self._thinking == "adaptive" and not asking.must_edit
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "system": prompt.system,
            "messages": prompt.messages,
            "stream": True,
            "thinking": {"type": "adaptive" if is_thinking else "disabled"},
        }
        if not prompt.tools:
            return request
        choice = {"type": "tool", "name": _TOOL} if asking.must_edit else {"type": "auto"}
        return {**request, "tools": prompt.tools, "tool_choice": choice}


async def _next_bytes(body: AsyncIterator[bytes], sent: RequestInfo) -> bytes:
    """The next bytes of an answer that is not whole yet."""
    try:
        return await anext(body)
    except StopAsyncIteration:
        failed = connection_lost()
    except Exception as error:
        failed = failure_from_exception(error, sent)
    raise failed


def _events(lines: SseLines, piece: bytes, sent: RequestInfo) -> Iterator[StreamEvent]:
    try:
        for event in lines.feed(piece):
            if event.type == "error":
                failed = failure_from_error(stream_error(event.error.type, event.error.message), sent)
                break
            yield event
        else:
            return
    except ValueError as error:
        failed = failure_from_exception(error, sent)
    raise failed


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read what is left: it makes the connection free for the next request. What goes wrong now concerns nobody."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in body:
                pass
