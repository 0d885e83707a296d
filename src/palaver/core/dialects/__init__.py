"""Message dialects: formats of other libraries and services, read into Palaver's messages and written back.

    anthropic           Anthropic Messages
    autogen             AutoGen, read only
    chat_completions    OpenAI Chat Completions, and chat widgets
    detection           whether a value is messages, and in which dialect
    gemini              Gemini contents
    gen_ai              OpenTelemetry's gen_ai messages
    langchain           LangChain messages, in three formats
    llama_index         LlamaIndex, read only
    palaver             Palaver's own messages as JSON
    pydantic_ai         Pydantic AI, read only
    responses           OpenAI Responses items
    sharegpt            ShareGPT, read only
    ui_message          UI messages of the AI SDK

Each dialect has `read(elements, start) -> list[Message]`, `write(messages) -> list` and `LOSSES`: what does not
survive a round trip, in sentences for the documentation. `start` is the index of the first element in the whole list:
elements without an id are named by it. A dialect that is read only has just `read`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from palaver.core import json
from palaver.core.dialects import (
    anthropic,
    autogen,
    chat_completions,
    gemini,
    gen_ai,
    langchain,
    llama_index,
    palaver,
    pydantic_ai,
    responses,
    sharegpt,
    ui_message,
)
from palaver.core.dialects.detection import Dialect, Segment, WritableDialect, explain_rejection, split_by_dialect
from palaver.core.messages import Message
from palaver.errors import InvalidMessages


class _Dialect(Protocol):
    """The interface of a dialect module."""

    LOSSES: Sequence[str]

    def read(self, elements: Sequence[Any], start: int = 0) -> list[Message]: ...

    def write(self, messages: Sequence[Message]) -> list[Any]: ...


DIALECT_MODULES: dict[WritableDialect, _Dialect] = {
    "anthropic": anthropic,
    "chat-completions": chat_completions,
    "gemini": gemini,
    "gen-ai": gen_ai,
    "langchain": langchain,
    "palaver": palaver,
    "responses": responses,
    "ui-message": ui_message,
}

READERS: Mapping[Dialect, Callable[[Sequence[Any], int], list[Message]]] = {
    **{name: module.read for name, module in DIALECT_MODULES.items()},
    "autogen": autogen.read,
    "llama-index": llama_index.read,
    "pydantic-ai": pydantic_ai.read,
    "sharegpt": sharegpt.read,
}


def read(value: Any, *, pointer: str = "/messages") -> list[Message]:
    """Read a list of messages, or one message, in any dialect. Raises InvalidMessages."""
    if value == []:
        return []
    segments = split_by_dialect(value)
    if segments is None:
        index, why = explain_rejection(value)
        error_pointer = f"{pointer}/{index}" if index is not None else pointer
        subject = f"Message {index}" if index is not None else "The message history"
        raise InvalidMessages(f"{subject} {why}.", pointer=error_pointer)
    try:
        return read_segments(segments)
    except json.NotJson as error:
        raise InvalidMessages(f"The message history contains {error}.", pointer=pointer) from None


def read_segments(segments: Sequence[Segment]) -> list[Message]:
    """Read detected segments. Raises NotJson if a value cannot be encoded."""
    if len(segments) == 1:
        return READERS[segments[0].dialect](segments[0].elements, 0)
    messages: list[Message] = []
    for segment in segments:
        messages += READERS[segment.dialect](segment.elements, segment.start)
    return messages


def write(messages: Sequence[Message], dialect: WritableDialect) -> list[Any]:
    return DIALECT_MODULES[dialect].write(messages)
