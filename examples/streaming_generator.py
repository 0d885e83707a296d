"""A generator as a chat: each value is sent as soon as it is yielded, and cancelling stops it immediately.

palaver serve examples/streaming_generator.py
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from palaver import Context, Message, Parameter, Usage, chat

STORY = "Once there was {hero}. Nobody believed in {hero}, until it rained. Then everybody did."


@chat
async def storyteller(
    messages: list[Message],
    ctx: Context,
    pause: Annotated[float, Parameter(description="Pause between words, in seconds.")] = 0.05,
) -> AsyncIterator[str | Usage]:
    """Tells a story about anything you name."""
    ctx.log("thinking of a plot…")  # Shown as a status, not part of the answer.
    hero = messages[-1].text.strip() or "a stranger"
    first, *words = STORY.format(hero=hero).split(" ")
    yield first
    for word in words:
        await asyncio.sleep(pause)
        yield f" {word}"
    yield Usage(input_tokens=len(hero.split()), output_tokens=1 + len(words))
