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

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from palaver.core import json
from palaver.core.dialects.detection import (
    DIALECTS,
    Dialect,
    Segment,
    WritableDialect,
    explain_rejection,
    split_by_dialect,
)
from palaver.core.messages import Message
from palaver.errors import InvalidMessages


class _Dialect(Protocol):
    """The interface of a dialect module."""

    LOSSES: Sequence[str]

    def read(self, elements: Sequence[Any], start: int = 0) -> list[Message]: ...

    def write(self, messages: Sequence[Message]) -> list[Any]: ...


@cache
def _load(dialect: Dialect) -> _Dialect:
    return cast("_Dialect", import_module(f"{__name__}.{dialect.replace('-', '_')}"))


class _DialectModules(Mapping[WritableDialect, _Dialect]):
    """The modules by dialect. Each is imported when it is first needed: most programs use one or two."""

    def __getitem__(self, name: WritableDialect) -> _Dialect:
        if name not in DIALECTS:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[WritableDialect]:
        return iter(DIALECTS)

    def __len__(self) -> int:
        return len(DIALECTS)


DIALECT_MODULES: Mapping[WritableDialect, _Dialect] = _DialectModules()


def read_elements(dialect: Dialect, elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Read elements of one dialect, which may be one that is only read."""
    return _load(dialect).read(elements, start)


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
        return read_elements(segments[0].dialect, segments[0].elements)
    messages: list[Message] = []
    for segment in segments:
        messages += read_elements(segment.dialect, segment.elements, segment.start)
    return messages


def write(messages: Sequence[Message], dialect: WritableDialect) -> list[Any]:
    return DIALECT_MODULES[dialect].write(messages)
