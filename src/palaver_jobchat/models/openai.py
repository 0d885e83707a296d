"""Any endpoint that speaks OpenAI's Chat Completions, through OpenAI's own SDK. Every call streams."""

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from openai import AsyncOpenAI, AsyncStream, Timeout
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
from openai.types.completion_usage import CompletionUsage

from palaver import Failure, PalaverError, Usage
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
from palaver_jobchat.models.errors import RequestInfo, check_key, connection_lost, failure_from_exception
from palaver_jobchat.prompt import Prompt

_REASONS: Final[dict[str, StopReason]] = {
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}


class ChunkParser:
    """Makes happenings out of chunks. What a call is, is known only at the end: pieces of several may be mixed."""

    def __init__(self) -> None:
        self._reason = ""
        self._is_refused = False
        self._calls: dict[int, ToolCallBuilder] = {}

    def feed(self, chunk: ChatCompletionChunk) -> list[ModelEvent]:
        """What a chunk amounts to. Whatever an endpoint calls reasoning is not looked at."""
        happenings: list[ModelEvent] = []
        for choice in (chunk.choices or [])[:1]:
            happenings += self._delta(choice.delta)
            self._reason = choice.finish_reason or self._reason
        if chunk.usage is not None:
            happenings.append(UsageReport(_usage(chunk.usage)))
        return happenings

    def end(self) -> list[ModelEvent]:
        """The stream is over. One that told no reason to stop was cut off."""
        if not self._reason:
            raise connection_lost()
        reason = _REASONS.get(self._reason, "stop")
        if reason == "stop" and self._is_refused:
            reason = "content-filter"
        if reason == "stop" and self._calls:  # A call that was asked for by name ends like this.
            reason = "tool-calls"
        return [*(call.finished for call in self._calls.values()), ResponseFinished(reason, self._reason)]

    def _delta(self, delta: ChoiceDelta | None) -> list[ModelEvent]:
        if delta is None:
            return []
        happenings: list[ModelEvent] = [TextDelta(text) for text in (delta.content, delta.refusal) if text]
        self._is_refused = self._is_refused or bool(delta.refusal)
        for place, piece in enumerate(delta.tool_calls or []):
            happenings += self._call(piece, place)
        return happenings

    def _call(self, piece: ChoiceDeltaToolCall, place: int) -> list[ModelEvent]:
        index = piece.index if isinstance(piece.index, int) else place  # pyright: ignore[reportUnnecessaryIsInstance]  # Some endpoints send none.
        written = piece.function
        name = written.name if written is not None else None
        began: list[ModelEvent] = []
        if index not in self._calls:
            self._calls[index] = ToolCallBuilder(piece.id or f"call_{index}", name or "")
            began.append(self._calls[index].started)
        if written is not None and written.arguments:
            self._calls[index].add(written.arguments)
        return began


def _usage(usage: CompletionUsage) -> Usage:
    given, made = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_input_tokens=(given.cached_tokens or 0) if given is not None else 0,
        cache_creation_input_tokens=0,
        reasoning_tokens=made.reasoning_tokens if made is not None else None,
    )


_BETWEEN = "\n\n"


def openai_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The conversation, our own words first."""
    system = _text(prompt.system)
    opening = [{"role": "system", "content": system}] if system else []
    return [*opening, *(message for turn in prompt.messages for message in _turn_messages(turn))]


def openai_tools(prompt: Prompt) -> list[dict[str, Any]]:
    """The tools. Not strict: there that word would make every field a required one."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in prompt.tools
    ]


def _turn_messages(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = turn["content"]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = _text(blocks)
    if turn["role"] == "assistant":
        calls = [_tool_call(block) for block in blocks if block["type"] == "tool_use"]
        yield {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        return
    for block in blocks:
        if block["type"] == "tool_result":
            result = block.get("content", "")
            said = result if isinstance(result, str) else _text(result)
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said}
    if text:
        yield {"role": "user", "content": text}


def _text(blocks: Sequence[dict[str, Any]]) -> str:
    return _BETWEEN.join(block["text"] for block in blocks if block["type"] == "text")


def _tool_call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = msgspec.json.encode(block["input"]).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"
_TOOL: Final = "edit_job"
_CONNECT: Final = 5.0


class OpenAI:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(
        self,
        *,
        model: str,
        max_tokens: int = 16_384,
        retry_policy: RetryPolicy | None = None,
        api_key: str = "",
        base_url: str = "",
        anthropic_url: str | None = None,
    ) -> None:
        if not model:
            raise PalaverError("The provider openai needs to be told which model: set PALAVER_JOBCHAT_MODEL.")
        self._model = model
        self._max_tokens = max_tokens
        self._patience = retry_policy or RetryPolicy()
        self._key = api_key.strip()
        self._base_url = base_url or OPENAI_URL
        self._anthropic = {
            _origin(url) for url in (ANTHROPIC_URL, anthropic_url or os.environ.get("ANTHROPIC_BASE_URL", ""))
        }
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
            setting="PALAVER_JOBCHAT_API_KEY",
        )
        stream = await self._opened(request, sent)
        try:
            reading = ChunkParser()
            while (chunk := await _next_chunk(stream, sent)) is not None:
                for happening in reading.feed(chunk):
                    yield happening
            for happening in reading.end():
                yield happening
        finally:
            await stream.close()

    def _client(self) -> AsyncOpenAI:
        timeout = Timeout(self._patience.timeout_s, connect=_CONNECT)
        # Never without a key, not even a wrong one: the SDK would take OPENAI_API_KEY, whosever endpoint this is.
        return AsyncOpenAI(api_key=self._key or "none", base_url=self._base_url, timeout=timeout, max_retries=0)

    async def _opened(self, asking: ModelRequest, sent: RequestInfo) -> AsyncStream[ChatCompletionChunk]:
        check_key(sent)
        if sent.key.startswith("sk-ant-") and _origin(self._base_url) not in self._anthropic:
            message = (
                "The key is one of Anthropic's, and the model is not. Send a key for this server's model, or none."
            )
            raise Failure("bad_request", message, status=400)
        client = await self._clients.get()
        if sent.key_source == "request":
            client = client.with_options(api_key=sent.key)
        request = self._request(asking)
        try:
            return await retry(lambda: client.chat.completions.create(**request, stream=True), self._patience)
        except Exception as error:
            failed = failure_from_exception(error, sent)
        raise failed

    def _request(self, asking: ModelRequest) -> dict[str, Any]:
        # OpenAI's newer models refuse the old name of the limit, and other servers often do not know the new one.
        limit = "max_completion_tokens" if _origin(self._base_url) == _origin(OPENAI_URL) else "max_tokens"
        request: dict[str, Any] = {
            "model": self._model,
            limit: self._max_tokens,
            "messages": openai_messages(asking.prompt),
            "stream_options": {"include_usage": True},
        }
        if not asking.prompt.tools:
            return request
        choice = {"type": "function", "function": {"name": _TOOL}} if asking.must_edit else "auto"
        return {**request, "tools": openai_tools(asking.prompt), "tool_choice": choice}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


async def _next_chunk(stream: AsyncStream[ChatCompletionChunk], sent: RequestInfo) -> ChatCompletionChunk | None:
    """The next chunk; none at the end."""
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None
    except Exception as error:
        failed = failure_from_exception(error, sent)
    raise failed
