"""A model that plays a script, with neither a key nor a wire: for test sets that run offline.

Its steps are those of the fake server (testing/steps.py), and what it says of them is what the real provider's file
says of that server's answers.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator

from palaver import Failure, PalaverError, Usage
from palaver_jobchat.models.anthropic import STOP_REASONS
from palaver_jobchat.models.base import (
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    TextDelta,
    ToolCallBuilder,
    UsageReport,
)
from palaver_jobchat.models.errors import ProviderError, RequestInfo, connection_lost, failure_from_error, stream_error
from palaver_jobchat.testing import script
from palaver_jobchat.testing.script import ScriptBlock, ScriptStep, ScriptUsage, read_script

NAME = "scripted"


class ScriptedModel:
    """Plays `asking.script`: its first step, or for a correction its second."""

    name = NAME
    is_configured = True

    def __init__(self, *, timeout: float = 120.0) -> None:
        self._timeout = timeout

    async def aclose(self) -> None:
        """It has no connections."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer that the script holds."""
        sent = RequestInfo(
            model=NAME,
            key="",
            key_source="server",
            field_sizes=request.field_sizes,
            timeout=self._timeout,
            setting="model_script",
        )
        step = _script_step(request)
        if step.error is not None:
            raise failure_from_error(_provider_error(step.error), sent)
        if step.content or not step.is_incomplete or step.then_error is not None:
            for happening in _content_events(step):
                if isinstance(happening, TextDelta) and step.delay:
                    await asyncio.sleep(step.delay)
                yield happening
        if step.then_error is not None:
            raise failure_from_error(stream_error(step.then_error.error_type, step.then_error.message), sent)
        if step.hang:
            await asyncio.sleep(self._timeout)
            raise failure_from_error(ProviderError(kind="timeout"), sent)
        if step.drop:
            raise connection_lost()
        yield UsageReport(_usage(step.usage, output=step.usage.output_tokens))
        yield ResponseFinished(STOP_REASONS.get(step.stop_reason, "stop"), step.stop_reason)


def _script_step(asking: ModelRequest) -> ScriptStep:
    """The step for this request. Only a correction is made to edit, and it is the second request of its answer."""
    if asking.script is None:
        raise Failure("bad_request", "This server's model plays scripts: send one as model_script.", status=400)
    try:
        script = read_script(asking.script)
    except PalaverError as error:
        raise Failure("bad_request", error.message, status=400) from error
    place = 1 if asking.must_edit else 0
    if place >= len(script):
        raise Failure("provider_error", "The model's script has no more steps. Add one to model_script.", status=502)
    return script[place]


def _content_events(step: ScriptStep) -> Iterator[ModelEvent]:
    yield UsageReport(_usage(step.usage, output=min(1, step.usage.output_tokens)))
    for index, block in enumerate(step.content):
        is_open = step.is_incomplete and index == len(step.content) - 1
        yield from _block_events(block, step.chunks, f"toolu_{index}", is_open=is_open)


def _block_events(block: ScriptBlock, chunks: int, call_id: str, *, is_open: bool) -> Iterator[ModelEvent]:
    """A block; one that is open has no end. Reasoning is nobody's but the model's."""
    if block.text is not None:
        yield from (TextDelta(piece) for piece in script.split_text(block.text, chunks))
    call = block.tool_call
    if call is not None:
        writing = ToolCallBuilder(call.id or call_id, call.name)
        writing.add(call.json)
        yield writing.started
        if not is_open:
            yield writing.finished


def _usage(tokens: ScriptUsage, *, output: int) -> Usage:
    read, made = tokens.cache_read_input_tokens, tokens.cache_creation_input_tokens
    return Usage(
        input_tokens=tokens.input_tokens + read + made,
        output_tokens=output,
        cached_input_tokens=read,
        cache_creation_input_tokens=made,
    )


def _provider_error(told: script.ScriptError) -> ProviderError:
    status = 529 if told.error_type == "overloaded_error" else told.status
    return ProviderError(kind="status", status=status, message=told.message, headers=told.headers)
