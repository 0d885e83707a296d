"""Trace the steps of the OpenAI Agents SDK: agents, models, tools, handoffs and guardrails.

A span processor sees all traced runs of the SDK. Adopted agents are traced by a separate provider, because the SDK's
would send messages to OpenAI; hooks add what their spans lack. Tasks and turns are not shown.
"""

import logging
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from types import CoroutineType
from typing import Any

from agents import Handoff, RunHooks
from agents.tracing import Span, Trace, TracingProcessor, add_trace_processor, get_current_span, set_trace_provider
from agents.tracing.provider import DefaultTraceProvider, TraceProvider
from agents.tracing.setup import get_trace_provider

from palaver.core.json import as_list, dict_or_empty, optional_int, optional_str
from palaver.core.messages import Usage
from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepKind, StepListener, current_listener
from palaver.frameworks.base import visible_parameters
from palaver.frameworks.openai_agents.reader import sdk_usage, to_json_value

_PROVIDER = "openai"


def span_details(data: Any) -> DetailsProvider:
    """Return a function that reads the details of a span; mutable values are copied now."""
    match data.type:
        case "generation":
            arguments = (_copy_list(data.input), _copy_list(data.output), data.model, data.model_config, data.usage)
            return partial(_generation_details, *arguments)
        case "response":
            return partial(_response_details, _copy_list(data.input), data.response, data.usage)
        case "function":
            return partial(_value_details, data.input, data.output)
        case "guardrail":
            return partial(_value_details, None, {"triggered": data.triggered})
        case "handoff":
            return partial(_value_details, None, {"from": data.from_agent, "to": data.to_agent})
        case "mcp_tools":
            return partial(_value_details, None, data.result)
        case "custom":
            return partial(_value_details, dict(data.data), None)
        case _:
            return StepDetails


def span_name(data: Any) -> str:
    match data.type:
        case "generation":
            return data.model or ""
        case "response":
            return ""
        case "handoff":
            return f"handoff to {data.to_agent}" if data.to_agent else "handoff"
        case "mcp_tools":
            return f"list tools of {data.server}" if data.server else "list tools"
        case _:
            return optional_str(getattr(data, "name", None)) or str(data.type)


def request_details(model: Any, instructions: str | None, items: Sequence[Any], settings: Any) -> DetailsProvider:
    items_copy = list(items)

    def details() -> StepDetails:
        return StepDetails(
            messages_in=[*_system_message(instructions), *to_json_value(items_copy)],
            model=optional_str(model) or optional_str(getattr(model, "model", None)),
            parameters=_parameters(settings),
        )

    return details


def response_details(response: Any) -> DetailsProvider:
    return lambda: StepDetails(
        messages_out=[to_json_value(item) for item in response.output], usage=_known_usage(sdk_usage(response.usage))
    )


def _generation_details(inputs: Any, outputs: Any, model: str | None, settings: Any, usage: Any) -> StepDetails:
    responses = [
        response for response in as_list(to_json_value(outputs)) if dict_or_empty(response).get("object") == "response"
    ]
    output_items = [item for response in responses for item in as_list(response.get("output"))]
    return StepDetails(
        messages_in=as_list(to_json_value(inputs)),
        messages_out=output_items or as_list(to_json_value(outputs)),
        model=next((optional_str(response.get("model")) for response in responses if response.get("model")), None)
        or model,
        parameters=_parameters(settings),
        tools=[tool for response in responses for tool in as_list(response.get("tools"))],
        usage=_parse_usage(usage),
        finish=_finish_reason(responses[0]) if responses else None,
    )


def _response_details(input_value: Any, response: Any, usage: Any) -> StepDetails:
    input_messages = (
        [{"role": "user", "content": input_value}]
        if isinstance(input_value, str)
        else as_list(to_json_value(input_value))
    )
    if response is None:
        return StepDetails(messages_in=input_messages, usage=_parse_usage(usage))
    fields = dict_or_empty(to_json_value(response))
    return StepDetails(
        messages_in=[*_system_message(fields.get("instructions")), *input_messages],
        messages_out=as_list(fields.get("output")),
        model=optional_str(fields.get("model")),
        provider=_PROVIDER,
        parameters=visible_parameters(fields),
        tools=as_list(fields.get("tools")),
        usage=_known_usage(sdk_usage(response.usage)) if response.usage else _parse_usage(usage),
        finish=_finish_reason(fields),
    )


def _value_details(inputs: Any, outputs: Any) -> StepDetails:
    return StepDetails(inputs=to_json_value(inputs), outputs=to_json_value(outputs))


def _copy_list(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # Any items


def _system_message(instructions: Any) -> list[Any]:
    return [{"role": "system", "content": instructions}] if instructions and isinstance(instructions, str) else []


def _parameters(settings: Any) -> dict[str, Any]:
    to_json: Callable[[], Any] | None = getattr(settings, "to_json_dict", None)
    return visible_parameters(dict_or_empty(to_json_value(settings if to_json is None else to_json())))


def _finish_reason(response: Any) -> str:
    fields = dict_or_empty(response)
    reason = optional_str(dict_or_empty(fields.get("incomplete_details")).get("reason"))
    has_calls = any(dict_or_empty(item).get("type") == "function_call" for item in as_list(fields.get("output")))
    return reason or ("tool_calls" if has_calls else "stop")


def _parse_usage(usage: Any) -> Usage | None:
    fields = dict_or_empty(usage)
    input_details, output_details = (
        dict_or_empty(fields.get("input_tokens_details")),
        dict_or_empty(fields.get("output_tokens_details")),
    )
    return _known_usage(
        Usage(
            input_tokens=optional_int(fields.get("input_tokens")) or 0,
            output_tokens=optional_int(fields.get("output_tokens")) or 0,
            cached_input_tokens=optional_int(input_details.get("cached_tokens")) or None,
            reasoning_tokens=optional_int(output_details.get("reasoning_tokens")) or None,
        )
    )


def _known_usage(usage: Usage) -> Usage | None:
    """Return None for unknown usage, which the SDK reports as zeros."""
    return usage if usage.total_tokens else None


log = logging.getLogger("palaver.frameworks")

SOURCE = ("openaiagents",)
_HIDDEN_TYPES = ("task", "turn")
_MODEL_TYPES = ("generation", "response")
_KIND_BY_SPAN_TYPE: dict[str, StepKind] = {
    "agent": "agent",
    "function": "tool",
    "generation": "llm",
    "guardrail": "guardrail",
    "response": "llm",
}
"""All other spans are tasks."""
_MAX_OPEN_SPANS = 10_000
"""Maximum number of open spans, in case some never end."""


def install_listener() -> None:
    """Add the processor to the SDK, for runs that workflow code starts."""
    add_trace_processor(_PROCESSOR)


@contextmanager
def step_hooks() -> "Generator[_Hooks | None]":
    """Trace SDK runs in this context with the yielded hooks, without reporting to OpenAI.

    Yields None if the run is not traced: then the SDK's tracing should be off.
    """
    step_listener = current_listener()
    if step_listener is None:
        yield None
        return
    if not isinstance(default := get_trace_provider(), _SwitchingProvider):
        set_trace_provider(_SwitchingProvider(default))
    hooks = _Hooks(step_listener)
    token = _HOOKS.set(hooks)
    try:
        yield hooks
    finally:
        _HOOKS.reset(token)


# Spans


class _OpenSpan:
    __slots__ = ("handled_exception", "owns_step", "step")

    def __init__(self, step: Step | None, *, owns_step: bool) -> None:
        self.step = step  # For a hidden span, the step around it.
        self.owns_step = owns_step
        self.handled_exception = sys.exception()  # Already being handled when the span starts.


class _Processor(TracingProcessor):
    def __init__(self) -> None:
        self._open: dict[str, _OpenSpan] = {}

    def step_of(self, span: "Span[Any] | None") -> Step | None:
        open_span = None if span is None else self._open.get(span.span_id)
        return None if open_span is None else open_span.step

    def on_trace_start(self, trace: Trace) -> None:
        pass

    def on_trace_end(self, trace: Trace) -> None:
        pass

    def on_span_start(self, span: "Span[Any]") -> None:
        step_listener = current_listener()
        if step_listener is None:
            return
        if len(self._open) >= _MAX_OPEN_SPANS:
            self._open.pop(next(iter(self._open)), None)
        self._open[span.span_id] = self._open_span(span, step_listener)

    def _open_span(self, span: "Span[Any]", step_listener: StepListener) -> _OpenSpan:
        data, hooks = span.span_data, _HOOKS.get()
        outer = self._open.get(span.parent_id or "")
        parent = None if outer is None else outer.step
        if data.type in _HIDDEN_TYPES:
            return _OpenSpan(parent, owns_step=False)
        if (
            data.type in _MODEL_TYPES
            and hooks is not None
            and (model_step := hooks.model_steps.get(span.parent_id)) is not None
        ):
            return _OpenSpan(model_step, owns_step=True)
        kind = _KIND_BY_SPAN_TYPE.get(data.type, "task")
        call_id = hooks.handoff_call_id if hooks is not None and data.type == "handoff" else None
        step = step_listener.begin(
            SOURCE, kind, span_name(data), parent=parent, call_id=call_id, details=span_details(data)
        )
        return _OpenSpan(step, owns_step=True)

    def on_span_end(self, span: "Span[Any]") -> None:
        open_span = self._open.pop(span.span_id, None)
        if open_span is None or open_span.step is None or not open_span.owns_step:
            return
        data, step, raised = span.span_data, open_span.step, sys.exception()
        error: BaseException | StepError | None = None if raised is open_span.handled_exception else raised
        if error is None and span.error is not None:
            error = StepError("tool_error" if data.type == "function" else "error", _error_text(span.error))
        if step.kind != "llm":
            step.name = span_name(data)  # The target of a handoff is known only now.
        elif error is None and _HOOKS.get() is not None and not _has_output(data):
            step.details = (*step.details, span_details(data))
            return  # A hook will report the response.
        step.end(span_details(data), error=error)

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


_PROCESSOR = _Processor()


def _has_output(data: Any) -> bool:
    """Whether a model's span has the response. Some models leave it out."""
    return bool(data.response if data.type == "response" else data.output)


def _error_text(error: Any) -> str:
    details = dict_or_empty(error.get("data")).get("error")
    return f"{error['message']}: {details}" if details else str(error["message"])


# Adopted agents


_Hook = Callable[..., "CoroutineType[Any, Any, None]"]


def _suppress_errors(hook: _Hook) -> _Hook:
    """Log exceptions of a hook instead of raising them: they would break the run."""

    @wraps(hook)
    async def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            await hook(*args, **kwargs)
        except Exception:
            log.debug("Failed to record a step", exc_info=True)

    return wrapper


class _Hooks(RunHooks[Any]):
    """Reports details that are missing in the spans."""

    def __init__(self, step_listener: StepListener) -> None:
        self._listener = step_listener
        self.model_steps: dict[str | None, Step] = {}
        """The model calls in progress, by the span around them."""
        self.handoff_call_id: str | None = None
        """The last call for a handoff: it is shown as the handoff, not as a tool."""

    @_suppress_errors
    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]) -> None:  # noqa: ARG002
        details = request_details(agent.model, system_prompt, input_items, agent.model_settings)
        span = get_current_span()
        step = self._listener.begin(SOURCE, "llm", "", parent=_PROCESSOR.step_of(span), details=details)
        if step is not None:
            self.model_steps[None if span is None else span.span_id] = step

    @_suppress_errors
    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
        names = [getattr(target, "tool_name", None) or Handoff.default_tool_name(target) for target in agent.handoffs]
        calls = [item.call_id for item in response.output if getattr(item, "name", None) in names]
        self.handoff_call_id = calls[0] if calls else None
        span = get_current_span()
        step = self.model_steps.pop(None if span is None else span.span_id, None)
        if step is not None:
            step.end(response_details(response))

    @_suppress_errors
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:  # noqa: ARG002
        """Set the call id of the step, because the span of a tool does not have it."""
        step = _PROCESSOR.step_of(get_current_span())
        if step is not None and step.kind == "tool":
            step.call_id = getattr(context, "tool_call_id", None)

    def fail_models(self, error: BaseException) -> None:
        """End the model calls in progress when the run has failed."""
        for step in self.model_steps.values():
            step.end(error=error)


_HOOKS: ContextVar[_Hooks | None] = ContextVar("palaver-openai-agents", default=None)


def _forward_to_default(name: str) -> Callable[..., Any]:
    """Return a method of `_SwitchingProvider` that calls the method of the process's provider."""

    def method(provider: "_SwitchingProvider", *args: Any, **kwargs: Any) -> Any:
        return getattr(provider.default, name)(*args, **kwargs)

    return method


class _SwitchingProvider(TraceProvider):
    """Wraps the process's provider; adopted agents are traced by another one, whatever the settings."""

    def __init__(self, default: TraceProvider) -> None:
        self.default = default
        self._provider = DefaultTraceProvider()
        self._provider.set_disabled(False)
        self._provider.register_processor(_PROCESSOR)

    def create_trace(self, *args: Any, **kwargs: Any) -> Trace:
        return self._current.create_trace(*args, **kwargs)

    def create_span(self, *args: Any, **kwargs: Any) -> "Span[Any]":
        return self._current.create_span(*args, **kwargs)

    @property
    def _current(self) -> TraceProvider:
        return self.default if _HOOKS.get() is None else self._provider

    # Settings apply to the process's provider.

    register_processor = _forward_to_default("register_processor")
    set_processors = _forward_to_default("set_processors")
    set_disabled = _forward_to_default("set_disabled")
    get_current_trace = _forward_to_default("get_current_trace")
    get_current_span = _forward_to_default("get_current_span")
    time_iso = _forward_to_default("time_iso")
    gen_trace_id = _forward_to_default("gen_trace_id")
    gen_span_id = _forward_to_default("gen_span_id")
    gen_group_id = _forward_to_default("gen_group_id")
    force_flush = _forward_to_default("force_flush")
    shutdown = _forward_to_default("shutdown")
