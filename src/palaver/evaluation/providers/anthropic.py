"""Anthropic's Messages API. The base URL is the one for its SDK, with or without /v1."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from palaver.core import json
from palaver.core.messages import Message, Usage
from palaver.evaluation.providers.client import (
    ProviderRequest,
    UnreadableAnswer,
    as_object,
    as_objects,
    token_count,
)

API_VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 4096
"""Required by the API. `options = {max_tokens = …}` overrides it."""
_VERDICT_TOOL: Final = "verdict"


def auth_headers(key: str | None) -> Mapping[str, str]:
    return {"anthropic-version": API_VERSION} | ({} if key is None else {"x-api-key": key})


def chat_request(
    model: str, messages: Sequence[Message], schema: Mapping[str, Any], options: Mapping[str, Any], base_url: str
) -> ProviderRequest:
    """Build a request that makes the model call a tool whose input has the schema."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": DEFAULT_MAX_TOKENS,
        "system": "\n\n".join(message.text for message in messages if message.role == "system"),
        "messages": [
            {"role": message.role, "content": message.text} for message in messages if message.role != "system"
        ],
    }
    if schema.get("type") == "object":
        body["tools"] = [{"name": _VERDICT_TOOL, "description": "Give the verdict.", "input_schema": dict(schema)}]
        body["tool_choice"] = {"type": "tool", "name": _VERDICT_TOOL}
    path = "/messages" if base_url.rstrip("/").endswith("/v1") else "/v1/messages"
    return ProviderRequest(path, body | dict(options))


def read_answer(answer: Any) -> tuple[str, Usage | None]:
    """Return the input of the tool call, or the text if there is none. Raises UnreadableAnswer."""
    fields = as_object(answer)
    if fields.get("stop_reason") == "refusal":
        raise UnreadableAnswer("the model refused to answer")
    if not isinstance(fields.get("content"), list):
        raise UnreadableAnswer("it has no content")
    usage = _read_usage(fields.get("usage"))
    for block in as_objects(fields["content"]):
        if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
            return json.encode(block["input"]).decode(), usage
    texts = [block.get("text") for block in as_objects(fields["content"]) if block.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str)), usage


def embedding_request(model: str, texts: Sequence[str]) -> ProviderRequest:
    del model, texts
    raise UnreadableAnswer("Anthropic has no embedding models")


def read_vectors(answer: Any, count: int) -> tuple[list[list[float]], Usage | None]:
    del answer, count
    raise UnreadableAnswer("Anthropic has no embedding models")


def _read_usage(value: Any) -> Usage | None:
    fields = as_object(value)
    if "input_tokens" not in fields:
        return None
    cache_read = token_count(fields.get("cache_read_input_tokens"))
    cache_created = token_count(fields.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=token_count(fields["input_tokens"]) + cache_read + cache_created,  # Anthropic's exclude these.
        output_tokens=token_count(fields.get("output_tokens")),
        cached_input_tokens=cache_read or None,
        cache_creation_input_tokens=cache_created or None,
    )
