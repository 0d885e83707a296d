"""Requests to models: a prompt, and functions that collect the response."""

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


async def collect_events(model: Model, prompt: Prompt = PROMPT, **fields: Any) -> list[ModelEvent]:
    """Return all events of the response."""
    async with aclosing(model.stream(ModelRequest(prompt=prompt, **fields))) as events:
        return [event async for event in events]


async def collect_failure(model: Model, prompt: Prompt = PROMPT, **fields: Any) -> FailureFields:
    """Return the failure of a request."""
    return await failure_of(model.stream(ModelRequest(prompt=prompt, **fields)))


async def failure_of(answer: AsyncGenerator[ModelEvent]) -> FailureFields:
    """Return the failure of a response. It must have no cause or context: an SDK's error would hold the key."""
    with pytest.raises(Failure) as caught:
        async for _ in answer:
            pass
    chained = (caught.value.__cause__, caught.value.__context__)
    assert all(error is None or isinstance(error, PalaverError) for error in chained)
    return caught.value.code, caught.value.message, caught.value.status, dict(caught.value.details)


async def becomes_true(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition becomes true within the time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.005)
    return True
