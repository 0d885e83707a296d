"""Anthropic's Messages. The base URL is that of its SDK, without /v1; with it is fine, too."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from palaver.core import jsons
from palaver.core.messages import Message
from palaver.core.usage import Usage
from palaver.evaluation.outside.providers.speaking import Misread, Request, Said, count, fields, items

VERSION: Final = "2023-06-01"
MOST_TOKENS: Final = 4096
"""Of an answer: it has to be said. `options = {max_tokens = …}` says otherwise."""
_TOOL: Final = "verdict"


def headers(key: str | None) -> Mapping[str, str]:
    """How the key is sent."""
    return {"anthropic-version": VERSION} | ({} if key is None else {"x-api-key": key})


def question(
    model: str, messages: Sequence[Message], schema: Mapping[str, Any], options: Mapping[str, Any], base_url: str
) -> Request:
    """What asks for an answer that fits a schema: the model has to call a tool that takes it."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": MOST_TOKENS,
        "system": "\n\n".join(message.text for message in messages if message.role == "system"),
        "messages": [
            {"role": message.role, "content": message.text} for message in messages if message.role != "system"
        ],
    }
    if schema.get("type") == "object":
        body["tools"] = [{"name": _TOOL, "description": "Give the verdict.", "input_schema": dict(schema)}]
        body["tool_choice"] = {"type": "tool", "name": _TOOL}
    path = "/messages" if base_url.rstrip("/").endswith("/v1") else "/v1/messages"
    return Request(path, body | dict(options))


def said(answer: Any) -> Said:
    """What it answered: what the tool was given, or its text."""
    told = fields(answer)
    if told.get("stop_reason") == "refusal":
        raise Misread("the model refused to answer")
    if not isinstance(told.get("content"), list):
        raise Misread("it has no content")
    usage = _usage(told.get("usage"))
    for block in items(told["content"]):
        if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
            return Said(jsons.encode(block["input"]).decode(), usage)
    texts = [block.get("text") for block in items(told["content"]) if block.get("type") == "text"]
    return Said("".join(text for text in texts if isinstance(text, str)), usage)


def embedding(model: str, texts: Sequence[str]) -> Request:
    """There is no such request."""
    del model, texts
    raise Misread("Anthropic has no embeddings")


def vectors(answer: Any, wanted: int) -> tuple[list[list[float]], Usage | None]:
    """So there is no such answer."""
    del answer, wanted
    raise Misread("Anthropic has no embeddings")


def _usage(value: Any) -> Usage | None:
    told = fields(value)
    if "input_tokens" not in told:
        return None
    read, made = count(told.get("cache_read_input_tokens")), count(told.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=count(told["input_tokens"]) + read + made,  # There cached tokens are not among them.
        output_tokens=count(told.get("output_tokens")),
        cached_input_tokens=read or None,
        cache_creation_input_tokens=made or None,
    )
