"""Workflows for tests of stored responses: one waits at a gate, the others return what they received."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

from palaver import Context, File, Message, Text, ToolCall, ToolResult, chat, workflow

GATES: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@chat
async def gated(messages: list[Message]) -> AsyncIterator[str]:
    """Says a word, waits at the gate that the message names, and says another."""
    yield "One. "
    await GATES[messages[-1].text].wait()
    yield "Two."


@workflow
async def open_gate(name: str) -> str:
    """Opens a gate, so that runs waiting at it continue."""
    GATES[name].set()
    return "open"


@chat
def heard(messages: list[Message]) -> Iterator[object]:
    """Returns the parts of all messages as JSON; asked for the time, calls the client's tool `get_time`."""
    if messages[-1].text == "What time is it?":
        yield ToolCall(call_id=f"c{len(messages)}", name="get_time", arguments='{"tz":"UTC"}')
        return
    yield json.dumps([[message.role, _describe_part(part)] for message in messages for part in message.parts])


@chat
async def weighed(messages: list[Message], ctx: Context) -> str:
    """Returns the media type, name and size in bytes of every file."""
    parts = [part for message in messages for part in message.parts if isinstance(part, File)]
    return json.dumps([[part.media_type, part.filename, len(await ctx.fetch(part))] for part in parts])


@chat
async def looked_at(messages: list[dict[str, Any]]) -> str:
    """Returns its messages, which it receives in the format of Chat Completions."""
    return json.dumps(messages)


def _describe_part(part: object) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolCall(call_id=call_id, name=name):
            return f"{call_id}: {name}"
        case ToolResult(call_id=call_id, output=output):
            return f"{call_id}: {output}"
        case _:
            return type(part).__name__
