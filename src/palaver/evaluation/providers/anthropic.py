"""Anthropic's Messages. The base URL is that of its SDK, without /v1; with it is fine, too."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from palaver.core import json
from palaver.core.messages import Message, Usage
from palaver.evaluation.providers.wire import (
    ProviderAnswer,
    ProviderRequest,
    UnreadableAnswer,
    as_object,
    as_objects,
    token_count,
)

API_VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 4096
"""Of an answer: it has to be said. `options = {max_tokens = …}` says otherwise."""
_VERDICT_TOOL: Final = "verdict"


def auth_headers(key: str | None) -> Mapping[str, str]:
    """How the key is sent."""
    return {"anthropic-version": API_VERSION} | ({} if key is None else {"x-api-key": key})


def chat_request(
    model: str, messages: Sequence[Message], schema: Mapping[str, Any], options: Mapping[str, Any], base_url: str
) -> ProviderRequest:
    """What asks for an answer that fits a schema: the model has to call a tool that takes it."""
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


def read_answer(answer: Any) -> ProviderAnswer:
    """What it answered: what the tool was given, or its text."""
    told = as_object(answer)
    if told.get("stop_reason") == "refusal":
        raise UnreadableAnswer("the model refused to answer")
    if not isinstance(told.get("content"), list):
        raise UnreadableAnswer("it has no content")
    usage = _read_usage(told.get("usage"))
    for block in as_objects(told["content"]):
        if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
            return ProviderAnswer(json.encode(block["input"]).decode(), usage)
    texts = [block.get("text") for block in as_objects(told["content"]) if block.get("type") == "text"]
    return ProviderAnswer("".join(text for text in texts if isinstance(text, str)), usage)


def embedding_request(model: str, texts: Sequence[str]) -> ProviderRequest:
    """There is no such request."""
    del model, texts
    raise UnreadableAnswer("Anthropic has no embeddings")


def read_vectors(answer: Any, wanted: int) -> tuple[list[list[float]], Usage | None]:
    """So there is no such answer."""
    del answer, wanted
    raise UnreadableAnswer("Anthropic has no embeddings")


def _read_usage(value: Any) -> Usage | None:
    told = as_object(value)
    if "input_tokens" not in told:
        return None
    read, made = token_count(told.get("cache_read_input_tokens")), token_count(told.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=token_count(told["input_tokens"]) + read + made,  # There cached tokens are not among them.
        output_tokens=token_count(told.get("output_tokens")),
        cached_input_tokens=read or None,
        cache_creation_input_tokens=made or None,
    )
