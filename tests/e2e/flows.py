"""Workflows of the browser tests, served from this file."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from palaver import Context, Data, Failure, File, Message, Parameter, ToolCall, ToolResult, chat, workflow
from palaver.demo import calculator, eliza, headline
from palaver.testing import echo, scripted

__all__ = [
    "calculator",
    "clerk",
    "echo",
    "eliza",
    "failing",
    "hasty",
    "headline",
    "keeper",
    "scripted",
    "shout",
    "tutor",
]

FAILURES: set[str] = set()


@chat
async def tutor(
    messages: list[Message],
    subject: str = "maths",
    words: Annotated[int, Parameter(description="How many words it says")] = 200,
    pause: Annotated[float, Parameter(description="Seconds between two words")] = 0.02,
) -> AsyncIterator[str]:
    """Counts while it explains a subject, one word at a time."""
    yield f"On {subject}, you said {messages[-1].text!r}: "
    for number in range(words):
        yield f"word{number} "
        await asyncio.sleep(pause)
    yield "done."


@chat
async def failing(messages: list[Message]) -> AsyncIterator[str]:
    """Fails the first time that it hears something, after a few words."""
    yield "So far so good. "
    if messages[-1].text not in FAILURES:
        FAILURES.add(messages[-1].text)
        raise Failure("model_gone", "The model went away.", status=502)
    yield "And now it works."


@chat
async def keeper(messages: list[Message], ctx: Context) -> AsyncIterator[Any]:
    """Deletes a file when a person allows it."""
    answers = [part.value for part in messages[-1].parts if isinstance(part, Data) and part.name == "approval-response"]
    if not answers:
        yield "I need your word for that."
        yield ToolCall(call_id="call_1", name="delete_file", arguments='{"path": "notes.txt"}')
        request = {"id": "call_1", "call_id": "call_1", "name": "delete_file", "arguments": '{"path": "notes.txt"}'}
        yield Data(name="approval-request", value=request)
    elif answers[0].get("approve"):
        yield ToolResult(call_id="call_1", output={"deleted": "notes.txt"})
        yield "It is deleted."
    else:
        yield ToolResult(call_id="call_1", output="Denied.", is_error=True)
        yield "I left it alone."


@chat
async def clerk(messages: list[Message], ctx: Context) -> AsyncIterator[str]:
    """Tells what it was handed."""
    files = [part for part in messages[-1].parts if isinstance(part, File)]
    yield f"You said {messages[-1].text!r} and gave me {len(files)}."
    for file in files:
        yield f"\n\n`{file.filename}`, {file.media_type}, {len(await ctx.fetch(file))} bytes"


@chat
async def hasty(messages: list[Message]) -> AsyncIterator[str]:
    """Says ten thousand pieces as fast as it can."""
    yield "# A long answer\n\n"
    for number in range(10_000):
        yield f"piece {number}, " if number % 20 else f"\n\nParagraph **{number // 20}**: "
        if number % 50 == 0:
            await asyncio.sleep(0.005)
    yield "\n\nThe end."


@workflow
def shout(text: str, times: Annotated[int, Parameter(description="How often")] = 1) -> str:
    """The text in capitals."""
    if not text.strip():
        raise Failure("nothing_to_say", "There is nothing to shout.", status=422)
    return " ".join([text.upper()] * times)
