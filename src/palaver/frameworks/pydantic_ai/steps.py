"""Pydantic AI tells of its steps: an agent's run, its calls of models, its tools. Needs no OpenTelemetry.

A capability goes along with each run that we start and that is heard. Where the author has instrumented the agent, and
those spans reach us, they are shown instead.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from typing import Any, ClassVar

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    SkipToolExecution,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models.instrumented import InstrumentationSettings

from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepListener, current_listener
from palaver.frameworks.base import visible_parameters
from palaver.frameworks.pydantic_ai.reader import agent_usage, to_json_value

SOURCE = ("pydanticai",)


def step_capabilities() -> list[AbstractCapability[Any]]:
    """What a run is given so that it tells of its steps; nothing where nobody listens."""
    heard_by = current_listener()
    return [] if heard_by is None else [_StepReporter(heard_by)]


@dataclass
class _StepReporter(AbstractCapability[Any]):
    """Tells of one run, and changes nothing in it."""

    _safe_at_runtime: ClassVar[bool] = True

    heard_by: StepListener
    run: Step | None = None
    broken_off: Step | None = None
    """A call of a model that was broken off: while it streams, its own failure looks like that."""
    _: KW_ONLY
    id: str | None = None

    async def wrap_run(self, ctx: Any, *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """The whole run."""
        name = (ctx.agent.name if ctx.agent else None) or "agent"
        history = list(ctx.messages)
        self.run = step = self.heard_by.begin(
            SOURCE, "agent", name, tell=lambda: StepDetails(messages_in=_dump_messages(history))
        )
        try:
            return await _run_step(step, handler, lambda result: partial(_run_details, result, len(history)))
        finally:
            if self.broken_off is not None:
                self.broken_off.end(error=sys.exception() or asyncio.CancelledError())

    async def wrap_model_request(
        self,
        ctx: Any,  # noqa: ARG002 - as Pydantic AI calls it
        *,
        request_context: Any,
        handler: Callable[[Any], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """One call of a model."""
        begun = self.heard_by.begin(SOURCE, "llm", "", parent=self.run, tell=_request_details(request_context))

        def answered(response: ModelResponse) -> DetailsProvider:
            asked = _request_details(request_context)  # Other capabilities may have added to it.
            return lambda: _response_details(asked(), response)

        try:
            response = await handler(request_context)
        except asyncio.CancelledError:
            self.broken_off = begun
            raise
        except BaseException as error:
            _end(begun, error=_fault(error))
            raise
        _end(begun, answered(response))
        return response

    async def wrap_tool_execute(
        self,
        ctx: Any,  # noqa: ARG002
        *,
        call: ToolCallPart,
        tool_def: Any,  # noqa: ARG002
        args: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """One tool."""
        begun = self.heard_by.begin(
            SOURCE,
            "tool",
            call.tool_name,
            parent=self.run,
            call_id=call.tool_call_id,
            tell=lambda: StepDetails(inputs=call.args_as_json_str()),
        )
        return await _run_step(
            begun, partial(handler, args), lambda result: lambda: StepDetails(outputs=_tool_result(result))
        )


def _end(
    step: Step | None, tell: DetailsProvider | None = None, *, error: BaseException | StepError | None = None
) -> None:
    if step is not None:
        step.end(tell, error=error)


async def _run_step(
    step: Step | None, run: Callable[[], Awaitable[Any]], tell: Callable[[Any], DetailsProvider]
) -> Any:
    """What it comes to; when it ends, so does the step."""
    try:
        result = await run()
    except BaseException as error:
        _end(step, error=_fault(error))
        raise
    _end(step, tell(result))
    return result


def _fault(error: BaseException) -> BaseException | StepError | None:
    match error:
        case CallDeferred() | ApprovalRequired() | SkipToolExecution():
            return None  # Raised to say something else than that it failed.
        case ToolRetryError():
            return StepError("tool_error", str(getattr(error.tool_retry, "content", error)))
        case ToolFailedError():
            return StepError("tool_error", str(getattr(error.tool_failed, "content", error)))
        case _:
            return error


# What it says, as plain values


@cache
def _instrumentation() -> InstrumentationSettings:
    """What writes messages as OpenTelemetry would have them, and sends nothing anywhere."""
    return InstrumentationSettings(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())


def _dump_messages(messages: Sequence[ModelMessage]) -> list[Any]:
    return list(_instrumentation().messages_to_otel_messages(list(messages)))


def _request_details(request: Any) -> DetailsProvider:
    messages, settings = list(request.messages), dict(request.model_settings or {})
    model, given = request.model, request.model_request_parameters

    def tell() -> StepDetails:
        told = next((each.instructions for each in reversed(messages) if isinstance(each, ModelRequest)), None)
        leading = [{"role": "system", "parts": [{"type": "text", "content": told}]}] if told else []
        tools = [*given.function_tools, *given.output_tools]
        return StepDetails(
            messages_in=[*leading, *_dump_messages(messages)],
            model=model.model_name,
            provider=model.system,
            parameters=to_json_value(visible_parameters(settings)),
            tools=[
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
                for tool in tools
            ],
        )

    return tell


def _response_details(asked: StepDetails, response: ModelResponse) -> StepDetails:
    usage = agent_usage(response.usage)
    return StepDetails(
        messages_in=asked.messages_in,
        messages_out=_dump_messages([response]),
        usage=usage if usage.total_tokens else None,
        model=response.model_name,
        provider=response.provider_name,
        finish=response.finish_reason,
    )


def _run_details(result: Any, before: int) -> StepDetails:
    output = result.output
    said = _dump_messages(result.all_messages()[before:])
    return StepDetails(messages_out=said, outputs=None if isinstance(output, str) else to_json_value(output))


def _tool_result(result: Any) -> Any:
    return to_json_value(getattr(result, "return_value", result))
