"""Claude, through Anthropic's SDK. Every request streams.

Prompts already have the format of Anthropic's Messages API, cache marks included.
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
from palaver_jobchat.models.client import CONNECT_TIMEOUT_S, RetryPolicy, SdkModel, next_item
from palaver_jobchat.models.errors import (
    RequestInfo,
    connection_lost,
    failure_from_error,
    failure_from_exception,
    stream_error,
)
from palaver_jobchat.prompt import EDIT_JOB

STOP_REASONS: Final[dict[str, StopReason]] = {
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}
"""Stop reasons that differ from `stop`."""


class OutputTokenDetails(msgspec.Struct, frozen=True):
    thinking_tokens: int | None = None


class TokenCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Cumulative usage. A later report may omit what has not changed."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: OutputTokenDetails | None = None


class MessageStart(msgspec.Struct, frozen=True):
    usage: TokenCounts = TokenCounts()


class ContentBlockStart(msgspec.Struct, frozen=True):
    type: str = ""
    id: str = ""
    name: str = ""


class ContentDelta(msgspec.Struct, frozen=True):
    """A delta of a content block, or of the message at its end."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class ErrorObject(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class StreamEvent(msgspec.Struct, frozen=True):
    """Any event, with the fields used here. New event types may appear and are ignored."""

    type: str = ""
    message: MessageStart = MessageStart()
    content_block: ContentBlockStart = ContentBlockStart()
    delta: ContentDelta = ContentDelta()
    usage: TokenCounts = TokenCounts()
    error: ErrorObject = ErrorObject()


_decode = msgspec.json.Decoder(StreamEvent).decode


class SseParser:
    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the completed events. Each has its data in one line, which repeats its type. Raises ValueError."""
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield _decode(line[5:])


class AnthropicStreamParser:
    """Converts stream events into model events. Thinking is dropped."""

    def __init__(self) -> None:
        self.is_complete = False
        self._tokens = TokenCounts()
        self._stop_reason = ""
        self._call: ToolCallBuilder | None = None

    def feed(self, event: StreamEvent) -> list[ModelEvent]:
        match event.type:
            case "content_block_delta":
                return self._delta(event.delta)
            case "message_start":
                return [self._usage_report(event.message.usage)]
            case "message_delta":
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                return [self._usage_report(event.usage)]
            case "content_block_start" if event.content_block.type == "tool_use":
                self._call = ToolCallBuilder(event.content_block.id, event.content_block.name)
                return [self._call.started]
            case "content_block_stop" if self._call is not None:
                call, self._call = self._call, None
                return [call.finished]
            case "message_stop":
                self.is_complete = True
                return [ResponseFinished(STOP_REASONS.get(self._stop_reason, "stop"), self._stop_reason)]
            case _:
                return []

    def _delta(self, delta: ContentDelta) -> list[ModelEvent]:
        if delta.type == "text_delta" and delta.text:
            return [TextDelta(delta.text)]
        if delta.type == "input_json_delta" and self._call is not None:
            self._call.add(delta.partial_json)
        return []

    def _usage_report(self, tokens: TokenCounts) -> UsageReport:
        updates = {name: value for name, value in msgspec.structs.asdict(tokens).items() if value is not None}
        self._tokens = msgspec.structs.replace(self._tokens, **updates)
        return UsageReport(usage_from_tokens(self._tokens))


def usage_from_tokens(tokens: TokenCounts) -> Usage:
    """Convert to Palaver's usage, where `input_tokens` includes cached input."""
    cache_read, cache_written = tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(tokens.input_tokens or 0) + cache_read + cache_written,
        output_tokens=tokens.output_tokens or 0,
        cached_input_tokens=cache_read,
        cache_creation_input_tokens=cache_written,
        reasoning_tokens=None if tokens.output_tokens_details is None else tokens.output_tokens_details.thinking_tokens,
    )


DEFAULT_MODEL: Final = "claude-sonnet-5-5"
_JSON_HEADERS: Final = {"content-type": "application/json"}
_RawEvent = cast("type[RawMessageStreamEvent]", RawMessageStreamEvent)
DRAIN_TIMEOUT_S: Final = 0.5


class Anthropic(SdkModel[AsyncAnthropic]):
    """A Claude model. Key and address default to the environment variables that the SDK uses."""

    key_setting = "ANTHROPIC_API_KEY"

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
        super().__init__(
            model=model or DEFAULT_MODEL,
            max_tokens=max_tokens,
            retry_policy=retry_policy,
            api_key=os.environ.get(self.key_setting, "") if api_key is None else api_key,
        )
        self._thinking = thinking
        self._base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        info = self._request_info(request)
        # The body of `messages.create`, which would copy and encode the whole prompt in Python and is slower.
        content = msgspec.json.encode(self._request_body(request))

        def send(client: AsyncAnthropic) -> Awaitable[AsyncStream[RawMessageStreamEvent]]:
            return client.post(
                "/v1/messages",
                cast_to=_RawEvent,
                content=content,
                options={"headers": _JSON_HEADERS},
                stream=True,
                stream_cls=AsyncStream[RawMessageStreamEvent],
            )

        response = await self._open(info, send)
        try:
            sse_parser, parser, body = SseParser(), AnthropicStreamParser(), response.response.aiter_bytes()
            while not parser.is_complete:
                if (chunk := await next_item(body, info)) is None:
                    raise connection_lost()
                for stream_event in _parse_events(sse_parser, chunk, info):
                    for event in parser.feed(stream_event):
                        yield event
            await _drain(body)
        finally:
            await response.close()

    def _create_client(self) -> AsyncAnthropic:
        timeout = Timeout(self._retry_policy.timeout_s, connect=CONNECT_TIMEOUT_S)
        # Always with a key, even an empty one: otherwise the SDK searches for other credentials.
        return AsyncAnthropic(
            api_key=self._key,
            base_url=self._base_url,
            timeout=timeout,
            max_retries=0,
            # Half the cost per chunk of httpx (docs/decisions/0024).
            http_client=DefaultAioHttpClient(timeout=timeout),
        )

    def _request_body(self, request: ModelRequest) -> dict[str, Any]:
        prompt = request.prompt
        is_thinking = self._thinking == "adaptive" and not request.must_edit
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "system": prompt.system,
            "messages": prompt.messages,
            "stream": True,
            "thinking": {"type": "adaptive" if is_thinking else "disabled"},
        }
        if not prompt.tools:
            return body
        choice = {"type": "tool", "name": EDIT_JOB["name"]} if request.must_edit else {"type": "auto"}
        return {**body, "tools": prompt.tools, "tool_choice": choice}


def _parse_events(sse_parser: SseParser, chunk: bytes, info: RequestInfo) -> Iterator[StreamEvent]:
    try:
        for event in sse_parser.feed(chunk):
            if event.type == "error":
                failure = failure_from_error(stream_error(event.error.type, event.error.message), info)
                break
            yield event
        else:
            return
    except ValueError as error:
        failure = failure_from_exception(error, info)
    raise failure


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read the rest, so that the connection can be reused. The response is complete: errors are ignored."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in body:
                pass
