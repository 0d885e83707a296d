"""Workflows that Palaver serves in the benchmarks."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from palaver import Message, ToolCall, ToolResult, chat, workflow

TOKENS = [f"token{number} " for number in range(200)]


@chat
async def tokens(messages: list[Message]) -> AsyncGenerator[str, None]:  # noqa: ARG001 - a chat takes a history
    """Short pieces of text, one per turn of the loop, as when a model's tokens arrive one at a time."""
    for token in TOKENS:
        yield token
        await asyncio.sleep(0)


@chat
async def idle(messages: list[Message]) -> AsyncGenerator[str, None]:  # noqa: ARG001
    """One piece of text, then silence."""
    yield "Let me think. "
    await asyncio.get_running_loop().create_future()  # The cheapest way to wait.


@chat
async def say(messages: list[Message]) -> str:
    """The last message again."""
    return messages[-1].text


@chat
async def look(messages: list[Message]) -> AsyncGenerator[ToolCall | ToolResult | str, None]:  # noqa: ARG001
    """A tool is asked, and its answer told."""
    yield ToolCall("call_1", "weather", '{"city":"Oslo"}')
    yield ToolResult("call_1", {"celsius": 3, "sky": "clear"})
    yield "It is cold in Oslo."


@workflow
def block(seconds: float) -> str:
    """Sync code that holds its thread."""
    time.sleep(seconds)
    return "done"


@workflow
async def echo(**inputs: Any) -> dict[str, Any]:
    """The inputs."""
    return inputs
