"""Scripted LangChain models, without a network, and the messages and chunks of their scripts."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.engine.run import Run


class Scripted(BaseChatModel):
    """One turn per call: a list of chunks, which are streamed, or a complete message, which is not."""

    turns: list[Any]
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[list[BaseMessage]]:
        """The messages of each call."""
        return self._asked

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _should_stream(self, *args: Any, **kwargs: Any) -> bool:
        turn = self.turns[0] if self.turns else None
        return isinstance(turn, list) and super()._should_stream(*args, **kwargs)

    def _next_turn(self, messages: list[BaseMessage]) -> Any:
        self._asked.append(list(messages))
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = self._next_turn(messages)
        if isinstance(turn, list):
            complete = turn[0]
            for chunk in turn[1:]:
                complete += chunk
            turn = AIMessage(content=complete.content, tool_calls=complete.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=turn)])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in self._next_turn(messages):
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._next_turn(messages):
            if isinstance(chunk, Exception):
                raise chunk
            yield ChatGenerationChunk(message=chunk)


def words(*pieces: str, **fields: Any) -> list[AIMessageChunk]:
    """Return chunks of text."""
    return [AIMessageChunk(content=piece, **fields) for piece in pieces]


def tool_call_chunks(
    *pieces: tuple[int | None, str | None, str | None, str | None], **fields: Any
) -> list[AIMessageChunk]:
    """Return chunks of tool calls, each given as index, id, name and arguments."""
    return [
        AIMessageChunk(
            content="",
            tool_call_chunks=[
                {"type": "tool_call_chunk", "index": index, "id": call_id, "name": name, "args": arguments}
            ],
            **fields,
        )
        for index, call_id, name, arguments in pieces
    ]


def call(name: str, call_id: str | None, **arguments: Any) -> dict[str, Any]:
    """Return a tool call for a complete message."""
    return {"type": "tool_call", "id": call_id, "name": name, "args": arguments}


def tool_call_message(*calls: dict[str, Any], content: Any = "", **fields: Any) -> AIMessage:
    """Return a complete message with tool calls."""
    return AIMessage(content=content, tool_calls=list(calls), **fields)


def texts(messages: Sequence[BaseMessage]) -> list[tuple[str, Any]]:
    """Return the type and content of each message."""
    return [(message.type, message.content) for message in messages]


def lines(run: Run) -> list[str]:
    """Return the events of a run as short lines, with full ids."""
    return [line for event in run.log[1:] if (line := _line(event))]


def _line(event: Event) -> str:
    match event:
        case TextStarted(item=item, message=message) | ReasoningStarted(item=item, message=message):
            return f"{'text' if isinstance(event, TextStarted) else 'reasoning'} {item} of {message}"
        case TextDelta() | ReasoningDelta() | ToolDelta():
            return f"{event.item} + {event.delta}"
        case TextEnded(item=item) | ReasoningEnded(item=item) | ToolEnded(item=item):
            return f"{item} ends"
        case ToolStarted(item=item, message=message, name=name):
            return f"call {item} of {message}: {name}"
        case ToolReturned(item=item, output=output, is_error=is_error):
            return f"{'error' if is_error else 'result'} {item}: {output}"
        case PartAdded(message=message, part=part):
            return f"part of {message}: {part}"
        case UsageAdded(usage=usage):
            return f"usage {usage.input_tokens} {usage.output_tokens}"
        case RunFinished(finish=finish):
            return finish
        case RunFailed(code=code, message=message):
            return f"{code}: {message}"
        case _:
            return type(event).__name__
