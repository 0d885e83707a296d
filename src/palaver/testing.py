"""For tests of applications: a scripted chat, an echo workflow, and an in-process client.

async with client(tutor) as http:
    answer = await http.post("/tutor/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any

from palaver.core import json
from palaver.core.events import ReasoningDelta, ToolDelta, ToolEnded, ToolStarted
from palaver.core.messages import Data, Message, ToolResult, Usage
from palaver.errors import Failure
from palaver.server.in_process_client import client
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow

__all__ = ["client", "echo", "scripted"]

Step = Mapping[str, Any]


@chat(description="Does what its script says, step by step; without a script, says the last message again.")
async def scripted(
    messages: list[Message], ctx: Context, script: list[dict[str, Any]] | None = None
) -> AsyncGenerator[object, None]:
    """Any sequence of events, with no model behind it. The steps are those of the functions below."""
    async for value in _play(script if script is not None else _asked(messages), ctx):
        yield value


@workflow(description="Returns its inputs as they came.")
async def echo(**inputs: Any) -> dict[str, Any]:
    """The inputs."""
    return inputs


def _asked(messages: Sequence[Message]) -> Sequence[Step]:
    """Return the script in the last user message: a JSON list, else its words as text steps."""
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    steps = json.parse_or_text(text)
    return steps if isinstance(steps, list) else [{"text": word} for word in re.findall(r"\s*\S+\s*", text)]  # pyright: ignore[reportUnknownVariableType]


async def _play(steps: Sequence[Step], ctx: Context) -> AsyncGenerator[object, None]:
    for step in steps:
        match step:
            case {"text": str(text)}:
                yield text
            case {"reasoning": str(text)}:
                yield ReasoningDelta(delta=text)
            case {"tool_call": {"name": str(name)} as call}:
                for event in _called(name, call):
                    yield event
            case {"sleep": int() | float() as seconds}:
                await asyncio.sleep(seconds)
            case {"block": int() | float() as seconds}:
                yield _blocking(seconds)
            case {"raise": str(text)}:
                raise RuntimeError(text)
            case {"finish": str(reason)}:
                ctx.finish(reason)  # pyright: ignore[reportArgumentType]  # finish() checks the word itself
            case {"repeat": {"times": int(times), "steps": list()}}:
                for _ in range(times):
                    async for value in _play(step["repeat"]["steps"], ctx):
                        yield value
            case _:
                yield _said(step)


def _said(step: Step) -> object:
    """Convert a script step into the value that the workflow yields."""
    match step:
        case {"message": message}:
            return message
        case {"tool_result": {"id": str(call_id), **rest}}:
            return ToolResult(call_id=call_id, output=rest.get("output"), is_error=rest.get("error") is True)
        case {"data": {"name": str(name), **rest}}:
            return Data(name=name, value=rest.get("value"))
        case {"usage": {"input_tokens": int(given), "output_tokens": int(made)}}:
            return Usage(input_tokens=given, output_tokens=made)
        case {"yield": value}:
            return value
        case {"break": True}:
            return Message.assistant()
        case {"fail": {"code": str(code), "message": str(message), **rest}}:
            status = rest.get("status")
            raise Failure(code, message, status=status if isinstance(status, int) else None)
        case _:
            raise Failure("unknown_step", f"There is no such step: {str(step)[:80]}", status=422)


def _called(name: str, call: Step) -> Sequence[object]:
    """Return the events of a tool call, its arguments in two deltas."""
    given = call.get("arguments", {})
    arguments = given if isinstance(given, str) else json.encode(given).decode()
    half = len(arguments) // 2
    started = ToolStarted(call_id=str(call.get("id", "")), name=name)
    return [started, ToolDelta(delta=arguments[:half]), ToolDelta(delta=arguments[half:]), ToolEnded()]


def _blocking(seconds: float) -> Generator[object, None, None]:
    """Block a thread: sync iterators run in the thread pool, not on the event loop."""
    time.sleep(seconds)
    yield from ()
