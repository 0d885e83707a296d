"""What the tests of all providers share: a prompt, and all that comes of asking it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from palaver import Failure, PalaverError, Usage
from palaver_jobchat.models.base import Model, ModelEvent, ModelRequest
from palaver_jobchat.models.client import RetryPolicy
from palaver_jobchat.prompt import EDIT_JOB, Prompt

FailureFields = tuple[str, str, int | None, dict[str, Any]]
"""A failure's code, message, status and details."""
KEY = "sk-ant-the-servers-own-key"
NO_RETRY = RetryPolicy(retries=0, timeout_s=20)
CACHED = {"cache_control": {"type": "ephemeral"}}
PROMPT = Prompt(
    system=[{"type": "text", "text": "You help.", **CACHED}],
    messages=[{"role": "user", "content": [{"type": "text", "text": "Rename it."}]}],
    tools=[EDIT_JOB],
)
PLAIN_PROMPT = Prompt(system=PROMPT.system, messages=PROMPT.messages, tools=[])


def usage_of(input_tokens: int = 10, output_tokens: int = 5, read: int = 0, created: int = 0) -> Usage:
    return Usage(input_tokens, output_tokens, cached_input_tokens=read, cache_creation_input_tokens=created)


async def collect_events(model: Model, prompt: Prompt = PROMPT, **asking: Any) -> list[ModelEvent]:
    """Everything that happens until the answer's end."""
    async with aclosing(model.stream(ModelRequest(prompt=prompt, **asking))) as happenings:
        return [happening async for happening in happenings]


async def collect_failure(model: Model, prompt: Prompt = PROMPT, **asking: Any) -> FailureFields:
    """How an answer fails."""
    return await failure_of(model.stream(ModelRequest(prompt=prompt, **asking)))


async def failure_of(answer: AsyncGenerator[ModelEvent]) -> FailureFields:
    """How the rest of an answer fails; the error must not bring along another one, which would hold the key."""
    with pytest.raises(Failure) as caught:
        async for _ in answer:
            pass
    behind = (caught.value.__cause__, caught.value.__context__)
    assert all(error is None or isinstance(error, PalaverError) for error in behind)
    return caught.value.code, caught.value.message, caught.value.status, dict(caught.value.details)


async def becomes_true(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.005)
    return True
