"""Any endpoint with OpenAI's Chat Completions API, through OpenAI's SDK. Every request streams."""

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from openai import AsyncOpenAI, Timeout
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
from palaver_jobchat.models.client import CONNECT_TIMEOUT_S, RetryPolicy, SdkModel, next_item
from palaver_jobchat.models.errors import connection_lost
from palaver_jobchat.prompt import EDIT_JOB, Prompt

_STOP_REASONS: Final[dict[str, StopReason]] = {
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}


class ChunkParser:
    """Converts chunks into model events. Deltas of tool calls may be interleaved, so calls finish at the end."""

    def __init__(self) -> None:
        self._reason = ""
        self._is_refused = False
        self._calls: dict[int, ToolCallBuilder] = {}

    def feed(self, chunk: ChatCompletionChunk) -> list[ModelEvent]:
        """Return the events of a chunk. Reasoning is ignored."""
        events: list[ModelEvent] = []
        for choice in (chunk.choices or [])[:1]:
            events += self._delta(choice.delta)
            self._reason = choice.finish_reason or self._reason
        if chunk.usage is not None:
            events.append(UsageReport(_convert_usage(chunk.usage)))
        return events

    def end(self) -> list[ModelEvent]:
        """Return the last events. Raises Failure if the stream ended without a finish reason."""
        if not self._reason:
            raise connection_lost()
        reason = _STOP_REASONS.get(self._reason, "stop")
        if reason == "stop" and self._is_refused:
            reason = "content-filter"
        if reason == "stop" and self._calls:  # A forced tool call ends with `stop`.
            reason = "tool-calls"
        return [*(call.finished for call in self._calls.values()), ResponseFinished(reason, self._reason)]

    def _delta(self, delta: ChoiceDelta | None) -> list[ModelEvent]:
        if delta is None:
            return []
        events: list[ModelEvent] = [TextDelta(text) for text in (delta.content, delta.refusal) if text]
        self._is_refused = self._is_refused or bool(delta.refusal)
        for position, call in enumerate(delta.tool_calls or []):
            events += self._call_delta(call, position)
        return events

    def _call_delta(self, call: ChoiceDeltaToolCall, position: int) -> list[ModelEvent]:
        index = call.index if isinstance(call.index, int) else position  # pyright: ignore[reportUnnecessaryIsInstance]  # Some endpoints send none.
        function = call.function
        name = function.name if function is not None else None
        events: list[ModelEvent] = []
        if index not in self._calls:
            self._calls[index] = ToolCallBuilder(call.id or f"call_{index}", name or "")
            events.append(self._calls[index].started)
        if function is not None and function.arguments:
            self._calls[index].add(function.arguments)
        return events


def _convert_usage(usage: CompletionUsage) -> Usage:
    input_details, output_details = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_input_tokens=(input_details.cached_tokens or 0) if input_details is not None else 0,
        cache_creation_input_tokens=0,
        reasoning_tokens=output_details.reasoning_tokens if output_details is not None else None,
    )


_SEPARATOR = "\n\n"


def openai_messages(prompt: Prompt) -> list[dict[str, Any]]:
    system = _join_text(prompt.system)
    system_messages = [{"role": "system", "content": system}] if system else []
    return [*system_messages, *(message for turn in prompt.messages for message in _turn_messages(turn))]


def openai_tools(prompt: Prompt) -> list[dict[str, Any]]:
    """Convert the tools, without `strict`: OpenAI's makes every field required."""
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
    text = _join_text(blocks)
    if turn["role"] == "assistant":
        calls = [_tool_call(block) for block in blocks if block["type"] == "tool_use"]
        yield {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        return
    for block in blocks:
        if block["type"] == "tool_result":
            result = block.get("content", "")
            result_text = result if isinstance(result, str) else _join_text(result)
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": result_text}
    if text:
        yield {"role": "user", "content": text}


def _join_text(blocks: Sequence[dict[str, Any]]) -> str:
    return _SEPARATOR.join(block["text"] for block in blocks if block["type"] == "text")


def _tool_call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = msgspec.json.encode(block["input"]).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"


class OpenAI(SdkModel[AsyncOpenAI]):
    key_setting = "PALAVER_JOBCHAT_API_KEY"

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
            raise PalaverError("Provider 'openai' requires a model. Set PALAVER_JOBCHAT_MODEL.")
        super().__init__(model=model, max_tokens=max_tokens, retry_policy=retry_policy, api_key=api_key)
        self._base_url = base_url or OPENAI_URL
        self._anthropic_origins = {
            _origin(url) for url in (ANTHROPIC_URL, anthropic_url or os.environ.get("ANTHROPIC_BASE_URL", ""))
        }

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        info = self._request_info(request)
        if info.key.startswith("sk-ant-") and _origin(self._base_url) not in self._anthropic_origins:
            message = (
                "api_key is an Anthropic key, but this server uses another provider. Send that provider's key, or none."
            )
            raise Failure("bad_request", message, status=400)
        body = self._request_body(request)
        response = await self._open(info, lambda client: client.chat.completions.create(**body, stream=True))
        try:
            parser = ChunkParser()
            while (chunk := await next_item(response, info)) is not None:
                for event in parser.feed(chunk):
                    yield event
            for event in parser.end():
                yield event
        finally:
            await response.close()

    def _create_client(self) -> AsyncOpenAI:
        timeout = Timeout(self._retry_policy.timeout_s, connect=CONNECT_TIMEOUT_S)
        # Always with a key, even a wrong one: otherwise the SDK sends OPENAI_API_KEY to whatever endpoint this is.
        return AsyncOpenAI(api_key=self._key or "none", base_url=self._base_url, timeout=timeout, max_retries=0)

    def _request_body(self, request: ModelRequest) -> dict[str, Any]:
        # OpenAI's newer models reject `max_tokens`; other servers often don't know its successor.
        limit = "max_completion_tokens" if _origin(self._base_url) == _origin(OPENAI_URL) else "max_tokens"
        body: dict[str, Any] = {
            "model": self._model,
            limit: self._max_tokens,
            "messages": openai_messages(request.prompt),
            "stream_options": {"include_usage": True},
        }
        if not request.prompt.tools:
            return body
        choice = {"type": "function", "function": {"name": EDIT_JOB["name"]}} if request.must_edit else "auto"
        return {**body, "tools": openai_tools(request.prompt), "tool_choice": choice}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
