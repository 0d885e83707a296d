"""OpenAI's Chat Completions and embeddings. The base URL ends with /v1, as for its SDK."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from palaver.core.messages import Message, Usage
from palaver.evaluation.providers.wire import (
    ProviderAnswer,
    ProviderRequest,
    UnreadableAnswer,
    as_object,
    as_objects,
    token_count,
)


def auth_headers(key: str | None) -> Mapping[str, str]:
    """How the key is sent."""
    return {} if key is None else {"authorization": f"Bearer {key}"}


def chat_request(
    model: str, messages: Sequence[Message], schema: Mapping[str, Any], options: Mapping[str, Any], base_url: str
) -> ProviderRequest:
    """What asks for an answer that fits a schema."""
    del base_url
    said = [{"role": message.role, "content": message.text} for message in messages]
    body: dict[str, Any] = {"model": model, "messages": said}
    if schema.get("type") == "object":
        # Whoever speaks this protocol knows JSON mode. Not all take a schema here: the question has it, in words.
        body["response_format"] = {"type": "json_object"}
    return ProviderRequest("/chat/completions", body | dict(options))


def read_answer(answer: Any) -> ProviderAnswer:
    """What it answered."""
    choices = as_objects(as_object(answer).get("choices"))
    if not choices:
        raise UnreadableAnswer("it has no choices")
    message = as_object(choices[0].get("message"))
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        raise UnreadableAnswer("the model refused to answer")
    content = message.get("content")
    text = "".join(str(part.get("text", "")) for part in as_objects(content)) if isinstance(content, list) else content
    return ProviderAnswer(text if isinstance(text, str) else "", _read_usage(as_object(answer).get("usage")))


def embedding_request(model: str, texts: Sequence[str]) -> ProviderRequest:
    """What asks for the vectors of texts."""
    return ProviderRequest("/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"})


def read_vectors(answer: Any, wanted: int) -> tuple[list[list[float]], Usage | None]:
    """The vectors, in the order of the texts."""
    data = sorted(as_objects(as_object(answer).get("data")), key=lambda one: token_count(one.get("index")))
    found = [cast("list[Any]", one["embedding"]) for one in data if isinstance(one.get("embedding"), list)]
    if len(found) != wanted or not all(_is_vector(one) for one in found) or len({len(one) for one in found}) > 1:
        raise UnreadableAnswer(f"it has not one vector for each of {wanted} texts")
    return [[float(number) for number in one] for one in found], _read_usage(as_object(answer).get("usage"))


def _is_vector(numbers: list[Any]) -> bool:
    return bool(numbers) and all(type(one) in (int, float) and math.isfinite(one) for one in numbers)


def _read_usage(value: Any) -> Usage | None:
    told = as_object(value)
    if "prompt_tokens" not in told:
        return None
    return Usage(
        input_tokens=token_count(told["prompt_tokens"]),
        output_tokens=token_count(told.get("completion_tokens")),
        cached_input_tokens=token_count(as_object(told.get("prompt_tokens_details")).get("cached_tokens")) or None,
        reasoning_tokens=token_count(as_object(told.get("completion_tokens_details")).get("reasoning_tokens")) or None,
    )
