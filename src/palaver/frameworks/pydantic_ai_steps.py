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
from palaver.frameworks.parameters import shown
from palaver.frameworks.pydantic_ai_reader import plain, usage_of

TELLER = ("pydanticai",)


def telling() -> list[AbstractCapability[Any]]:
    """What a run is given so that it tells of its steps; nothing where nobody listens."""
    heard_by = current_listener()
    return [] if heard_by is None else [_Telling(heard_by)]


@dataclass
class _Telling(AbstractCapability[Any]):
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
            TELLER, "agent", name, tell=lambda: StepDetails(messages_in=_written(history))
        )
        try:
            return await _followed(step, handler, lambda result: partial(_came_to, result, len(history)))
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
        begun = self.heard_by.begin(TELLER, "llm", "", parent=self.run, tell=_asked(request_context))

        def answered(response: ModelResponse) -> DetailsProvider:
            asked = _asked(request_context)  # Other capabilities may have added to it.
            return lambda: _answered(asked(), response)

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
            TELLER,
            "tool",
            call.tool_name,
            parent=self.run,
            call_id=call.tool_call_id,
            tell=lambda: StepDetails(inputs=call.args_as_json_str()),
        )
        return await _followed(
            begun, partial(handler, args), lambda result: lambda: StepDetails(outputs=_result(result))
        )


def _end(
    step: Step | None, tell: DetailsProvider | None = None, *, error: BaseException | StepError | None = None
) -> None:
    if step is not None:
        step.end(tell, error=error)


async def _followed(
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
def _writer() -> InstrumentationSettings:
    """What writes messages as OpenTelemetry would have them, and sends nothing anywhere."""
    return InstrumentationSettings(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())


def _written(messages: Sequence[ModelMessage]) -> list[Any]:
    return list(_writer().messages_to_otel_messages(list(messages)))


def _asked(request: Any) -> DetailsProvider:
    messages, settings = list(request.messages), dict(request.model_settings or {})
    model, given = request.model, request.model_request_parameters

    def tell() -> StepDetails:
        told = next((each.instructions for each in reversed(messages) if isinstance(each, ModelRequest)), None)
        leading = [{"role": "system", "parts": [{"type": "text", "content": told}]}] if told else []
        tools = [*given.function_tools, *given.output_tools]
        return StepDetails(
            messages_in=[*leading, *_written(messages)],
            model=model.model_name,
            provider=model.system,
            parameters=plain(shown(settings)),
            tools=[
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
                for tool in tools
            ],
        )

    return tell


def _answered(asked: StepDetails, response: ModelResponse) -> StepDetails:
    usage = usage_of(response.usage)
    return StepDetails(
        messages_in=asked.messages_in,
        messages_out=_written([response]),
        usage=usage if usage.total_tokens else None,
        model=response.model_name,
        provider=response.provider_name,
        finish=response.finish_reason,
    )


def _came_to(result: Any, before: int) -> StepDetails:
    output = result.output
    said = _written(result.all_messages()[before:])
    return StepDetails(messages_out=said, outputs=None if isinstance(output, str) else plain(output))


def _result(result: Any) -> Any:
    return plain(getattr(result, "return_value", result))
