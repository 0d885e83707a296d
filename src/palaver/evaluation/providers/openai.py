"""OpenAI's Chat Completions and embeddings APIs. The base URL ends with /v1, as for its SDK."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from palaver.core.messages import Message, Usage
from palaver.evaluation.providers.client import (
    ProviderRequest,
    UnreadableAnswer,
    as_object,
    as_objects,
    token_count,
)


def auth_headers(key: str | None) -> Mapping[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def chat_request(
    model: str, messages: Sequence[Message], schema: Mapping[str, Any], options: Mapping[str, Any], base_url: str
) -> ProviderRequest:
    del base_url
    encoded = [{"role": message.role, "content": message.text} for message in messages]
    body: dict[str, Any] = {"model": model, "messages": encoded}
    if schema.get("type") == "object":
        # All providers of this API support JSON mode, but not all take a schema: the prompt contains it.
        body["response_format"] = {"type": "json_object"}
    return ProviderRequest("/chat/completions", body | dict(options))


def read_answer(answer: Any) -> tuple[str, Usage | None]:
    choices = as_objects(as_object(answer).get("choices"))
    if not choices:
        raise UnreadableAnswer("it has no choices")
    message = as_object(choices[0].get("message"))
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        raise UnreadableAnswer("the model refused to answer")
    content = message.get("content")
    text = "".join(str(part.get("text", "")) for part in as_objects(content)) if isinstance(content, list) else content
    return text if isinstance(text, str) else "", _read_usage(as_object(answer).get("usage"))


def embedding_request(model: str, texts: Sequence[str]) -> ProviderRequest:
    return ProviderRequest("/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"})


def read_vectors(answer: Any, count: int) -> tuple[list[list[float]], Usage | None]:
    data = sorted(as_objects(as_object(answer).get("data")), key=lambda item: token_count(item.get("index")))
    embeddings = [cast("list[Any]", item["embedding"]) for item in data if isinstance(item.get("embedding"), list)]
    if (
        len(embeddings) != count
        or not all(_is_vector(vector) for vector in embeddings)
        or len({len(vector) for vector in embeddings}) > 1
    ):
        raise UnreadableAnswer(f"expected one vector for each of {count} texts")
    return [[float(number) for number in vector] for vector in embeddings], _read_usage(as_object(answer).get("usage"))


def _is_vector(numbers: list[Any]) -> bool:
    return bool(numbers) and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)


def _read_usage(value: Any) -> Usage | None:
    fields = as_object(value)
    if "prompt_tokens" not in fields:
        return None
    return Usage(
        input_tokens=token_count(fields["prompt_tokens"]),
        output_tokens=token_count(fields.get("completion_tokens")),
        cached_input_tokens=token_count(as_object(fields.get("prompt_tokens_details")).get("cached_tokens")) or None,
        reasoning_tokens=token_count(as_object(fields.get("completion_tokens_details")).get("reasoning_tokens"))
        or None,
    )
