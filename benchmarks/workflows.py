"""Workflows that Palaver serves in the benchmarks."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from palaver import Message, ToolCall, ToolResult, chat, workflow

TOKENS = [f"token{number} " for number in range(200)]


@chat
async def tokens(messages: list[Message]) -> AsyncGenerator[str, None]:  # noqa: ARG001 - a chat takes a history
    """Yields short texts, one per iteration of the event loop, like a model whose tokens arrive one at a time."""
    for token in TOKENS:
        yield token
        await asyncio.sleep(0)


@chat
async def idle(messages: list[Message]) -> AsyncGenerator[str, None]:  # noqa: ARG001
    """Yields one text, then nothing more."""
    yield "Let me think. "
    await asyncio.get_running_loop().create_future()  # The cheapest way to wait.


@chat
async def say(messages: list[Message]) -> str:
    """Repeats the last message."""
    return messages[-1].text


@chat
async def look(messages: list[Message]) -> AsyncGenerator[ToolCall | ToolResult | str, None]:  # noqa: ARG001
    """Calls a tool, and answers with its result."""
    yield ToolCall("call_1", "weather", '{"city":"Oslo"}')
    yield ToolResult("call_1", {"celsius": 3, "sky": "clear"})
    yield "It is cold in Oslo."


@workflow
def block(seconds: float) -> str:
    """Blocks its thread, as sync code does."""
    time.sleep(seconds)
    return "done"


@workflow
async def echo(**inputs: Any) -> dict[str, Any]:
    """Returns its inputs."""
    return inputs
