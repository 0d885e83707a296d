"""Trace the steps of a Pydantic AI run: the agent, its model calls and its tools. Needs no OpenTelemetry.

A capability is added to each traced run of an adopted agent. If the agent itself is instrumented and its spans reach
the server, those are shown instead.
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
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, SkipToolExecution, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models.instrumented import InstrumentationSettings

from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepListener, current_listener
from palaver.frameworks.base import visible_parameters
from palaver.frameworks.pydantic_ai.reader import agent_usage, to_json_value

SOURCE = ("pydanticai",)


def step_capabilities() -> list[AbstractCapability[Any]]:
    """Return the capability that reports steps; empty if the run is not traced."""
    step_listener = current_listener()
    return [] if step_listener is None else [_StepReporter(step_listener)]


@dataclass
class _StepReporter(AbstractCapability[Any]):
    """Reports the steps of one run without changing it."""

    _safe_at_runtime: ClassVar[bool] = True

    step_listener: StepListener
    run: Step | None = None
    cancelled_step: Step | None = None
    """A model call that raised CancelledError; `wrap_run` ends it, as a failure while streaming looks the same."""
    _: KW_ONLY
    id: str | None = None

    async def wrap_run(self, ctx: Any, *, handler: Callable[[], Awaitable[Any]]) -> Any:
        name = (ctx.agent.name if ctx.agent else None) or "agent"
        history = list(ctx.messages)
        self.run = step = self.step_listener.begin(
            SOURCE, "agent", name, details=lambda: StepDetails(messages_in=_dump_messages(history))
        )
        try:
            return await _run_step(step, handler, lambda result: partial(_run_details, result, len(history)))
        finally:
            if self.cancelled_step is not None:
                self.cancelled_step.end(error=sys.exception() or asyncio.CancelledError())

    async def wrap_model_request(
        self,
        ctx: Any,  # noqa: ARG002 - as Pydantic AI calls it
        *,
        request_context: Any,
        handler: Callable[[Any], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        step = self.step_listener.begin(SOURCE, "llm", "", parent=self.run, details=_request_details(request_context))
        try:
            response = await handler(request_context)
        except asyncio.CancelledError:
            self.cancelled_step = step
            raise
        except BaseException as error:
            _end(step, error=_step_error(error))
            raise
        details = _request_details(request_context)  # Read again: other capabilities may have changed the request.
        _end(step, lambda: _response_details(details(), response))
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
        step = self.step_listener.begin(
            SOURCE,
            "tool",
            call.tool_name,
            parent=self.run,
            call_id=call.tool_call_id,
            details=lambda: StepDetails(inputs=call.args_as_json_str()),
        )
        return await _run_step(
            step, partial(handler, args), lambda result: lambda: StepDetails(outputs=_tool_result(result))
        )


def _end(
    step: Step | None, details: DetailsProvider | None = None, *, error: BaseException | StepError | None = None
) -> None:
    if step is not None:
        step.end(details, error=error)


async def _run_step(
    step: Step | None, run: Callable[[], Awaitable[Any]], make_details: Callable[[Any], DetailsProvider]
) -> Any:
    try:
        result = await run()
    except BaseException as error:
        _end(step, error=_step_error(error))
        raise
    _end(step, make_details(result))
    return result


def _step_error(error: BaseException) -> BaseException | StepError | None:
    match error:
        case CallDeferred() | ApprovalRequired() | SkipToolExecution():
            return None  # Raised for control flow, not as an error.
        case ToolRetryError():
            return StepError("tool_error", str(getattr(error.tool_retry, "content", error)))
        case ToolFailedError():
            return StepError("tool_error", str(getattr(error.tool_failed, "content", error)))
        case _:
            return error


@cache
def _instrumentation() -> InstrumentationSettings:
    """Return settings that encode messages as for OpenTelemetry, without sending anything."""
    return InstrumentationSettings(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())


def _dump_messages(messages: Sequence[ModelMessage]) -> list[Any]:
    return list(_instrumentation().messages_to_otel_messages(list(messages)))


def _request_details(request: Any) -> DetailsProvider:
    messages, settings = list(request.messages), dict(request.model_settings or {})
    model, request_parameters = request.model, request.model_request_parameters

    def details() -> StepDetails:
        instructions = next(
            (message.instructions for message in reversed(messages) if isinstance(message, ModelRequest)), None
        )
        system = [{"role": "system", "parts": [{"type": "text", "content": instructions}]}] if instructions else []
        tools = [*request_parameters.function_tools, *request_parameters.output_tools]
        return StepDetails(
            messages_in=[*system, *_dump_messages(messages)],
            model=model.model_name,
            provider=model.system,
            parameters=to_json_value(visible_parameters(settings)),
            tools=[
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
                for tool in tools
            ],
        )

    return details


def _response_details(request: StepDetails, response: ModelResponse) -> StepDetails:
    usage = agent_usage(response.usage)
    return StepDetails(
        messages_in=request.messages_in,
        messages_out=_dump_messages([response]),
        usage=usage if usage.total_tokens else None,
        model=response.model_name,
        provider=response.provider_name,
        finish=response.finish_reason,
    )


def _run_details(result: Any, history_length: int) -> StepDetails:
    output = result.output
    messages = _dump_messages(result.all_messages()[history_length:])
    return StepDetails(messages_out=messages, outputs=None if isinstance(output, str) else to_json_value(output))


def _tool_result(result: Any) -> Any:
    return to_json_value(getattr(result, "return_value", result))
