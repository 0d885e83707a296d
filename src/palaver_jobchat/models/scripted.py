"""A model that plays a script, without a key or a network: for test sets that run offline.

The steps are those of the fake server (testing/script.py), and the events are those that anthropic.py produces from
that server's responses.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec

from palaver import Failure, PalaverError
from palaver_jobchat.models.anthropic import STOP_REASONS, TokenCounts, usage_from_tokens
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


class ScriptedModel:
    """Plays `request.script`: its first step or, for a correction, its second."""

    name = "scripted"
    is_configured = True

    def __init__(self, *, timeout: float = 120.0) -> None:
        self._timeout = timeout

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        info = RequestInfo(
            model=self.name,
            key="",
            key_source="server",
            field_sizes=request.field_sizes,
            timeout=self._timeout,
            setting="model_script",
        )
        step = _script_step(request)
        if step.error is not None:
            raise failure_from_error(_provider_error(step.error), info)
        if step.content or not step.is_incomplete or step.then_error is not None:
            for event in _content_events(step):
                if isinstance(event, TextDelta) and step.delay:
                    await asyncio.sleep(step.delay)
                yield event
        if step.then_error is not None:
            raise failure_from_error(stream_error(step.then_error.error_type, step.then_error.message), info)
        if step.hang:
            await asyncio.sleep(self._timeout)
            raise failure_from_error(ProviderError(kind="timeout"), info)
        if step.drop:
            raise connection_lost()
        yield _usage_report(step.usage, output_tokens=step.usage.output_tokens)
        yield ResponseFinished(STOP_REASONS.get(step.stop_reason, "stop"), step.stop_reason)


def _script_step(request: ModelRequest) -> ScriptStep:
    """Return the step for a request. Only corrections must edit, and they are the second request of an answer."""
    if request.script is None:
        raise Failure("bad_request", "This server uses a scripted model. Send a script as model_script.", status=400)
    try:
        script = read_script(request.script)
    except PalaverError as error:
        raise Failure("bad_request", error.message, status=400) from error
    index = 1 if request.must_edit else 0
    if index >= len(script):
        raise Failure("provider_error", "The model's script has no more steps. Add one to model_script.", status=502)
    return script[index]


def _content_events(step: ScriptStep) -> Iterator[ModelEvent]:
    yield _usage_report(step.usage, output_tokens=min(1, step.usage.output_tokens))
    for index, block in enumerate(step.content):
        is_open = step.is_incomplete and index == len(step.content) - 1
        yield from _block_events(block, step.chunks, f"toolu_{index}", is_open=is_open)


def _block_events(block: ScriptBlock, chunks: int, call_id: str, *, is_open: bool) -> Iterator[ModelEvent]:
    """Yield the events of a block. An open block does not finish; thinking has no events."""
    if block.text is not None:
        yield from (TextDelta(piece) for piece in script.split_text(block.text, chunks))
    call = block.tool_call
    if call is not None:
        builder = ToolCallBuilder(call.id or call_id, call.name)
        builder.add(call.json)
        yield builder.started
        if not is_open:
            yield builder.finished


def _usage_report(usage: ScriptUsage, *, output_tokens: int) -> UsageReport:
    tokens: dict[str, Any] = {**msgspec.structs.asdict(usage), "output_tokens": output_tokens}
    return UsageReport(usage_from_tokens(TokenCounts(**tokens)))


def _provider_error(error: script.ScriptError) -> ProviderError:
    status = 529 if error.error_type == "overloaded_error" else error.status
    return ProviderError(kind="status", status=status, message=error.message, headers=error.headers)
