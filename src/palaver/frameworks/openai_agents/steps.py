"""What a span or a hook of the OpenAI Agents SDK tells of a step, as plain values."""

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

from palaver.core.dialects.common import as_list, dict_or_empty, optional_int, optional_str
from palaver.core.messages import Usage
from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepKind, StepListener, current_listener
from palaver.frameworks.base import visible_parameters
from palaver.frameworks.openai_agents.reader import sdk_usage, to_json_value

_PROVIDER = "openai"


def span_details(data: Any) -> DetailsProvider:
    """What a span tells, once it is read; now is what it says."""
    match data.type:
        case "generation":
            given = (_copy_list(data.input), _copy_list(data.output), data.model, data.model_config, data.usage)
            return partial(_generation_details, *given)
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
    """The name of a step: that of its agent, tool, guardrail, or what it does."""
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
    """What a model is about to be asked."""
    given = list(items)

    def tell() -> StepDetails:
        return StepDetails(
            messages_in=[*_system_message(instructions), *to_json_value(given)],
            model=optional_str(model) or optional_str(getattr(model, "model", None)),
            parameters=_parameters(settings),
        )

    return tell


def response_details(response: Any) -> DetailsProvider:
    """What it answered."""
    return lambda: StepDetails(messages_out=_dump_items(response.output), usage=_known_usage(sdk_usage(response.usage)))


def _generation_details(given: Any, came: Any, model: str | None, settings: Any, spent: Any) -> StepDetails:
    responses = [each for each in as_list(to_json_value(came)) if dict_or_empty(each).get("object") == "response"]
    said = [item for each in responses for item in as_list(each.get("output"))]
    return StepDetails(
        messages_in=as_list(to_json_value(given)),
        messages_out=said or as_list(to_json_value(came)),
        model=next((optional_str(each.get("model")) for each in responses if each.get("model")), None) or model,
        parameters=_parameters(settings),
        tools=[tool for each in responses for tool in as_list(each.get("tools"))],
        usage=_parse_usage(spent),
        finish=_finish(responses[0]) if responses else None,
    )


def _response_details(given: Any, response: Any, spent: Any) -> StepDetails:
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(to_json_value(given))
    if response is None:
        return StepDetails(messages_in=asked, usage=_parse_usage(spent))
    told = dict_or_empty(to_json_value(response))
    return StepDetails(
        messages_in=[*_system_message(told.get("instructions")), *asked],
        messages_out=as_list(told.get("output")),
        model=optional_str(told.get("model")),
        provider=_PROVIDER,
        parameters=visible_parameters(told),
        tools=as_list(told.get("tools")),
        usage=_known_usage(sdk_usage(response.usage)) if response.usage else _parse_usage(spent),
        finish=_finish(told),
    )


def _value_details(inputs: Any, outputs: Any) -> StepDetails:
    return StepDetails(inputs=to_json_value(inputs), outputs=to_json_value(outputs))


# Small things


def _copy_list(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # of whatever


def _system_message(instructions: Any) -> list[Any]:
    return [{"role": "system", "content": instructions}] if instructions and isinstance(instructions, str) else []


def _dump_items(items: Sequence[Any]) -> list[Any]:
    return [to_json_value(item) for item in items]


def _parameters(settings: Any) -> dict[str, Any]:
    read: Callable[[], Any] | None = getattr(settings, "to_json_dict", None)
    return visible_parameters(dict_or_empty(to_json_value(settings if read is None else read())))


def _finish(response: Any) -> str:
    told = dict_or_empty(response)
    why = optional_str(dict_or_empty(told.get("incomplete_details")).get("reason"))
    calls = any(dict_or_empty(item).get("type") == "function_call" for item in as_list(told.get("output")))
    return why or ("tool_calls" if calls else "stop")


def _parse_usage(spent: Any) -> Usage | None:
    """What a span's own words for usage say."""
    told = dict_or_empty(spent)
    given, made = dict_or_empty(told.get("input_tokens_details")), dict_or_empty(told.get("output_tokens_details"))
    return _known_usage(
        Usage(
            input_tokens=optional_int(told.get("input_tokens")) or 0,
            output_tokens=optional_int(told.get("output_tokens")) or 0,
            cached_input_tokens=optional_int(given.get("cached_tokens")) or None,
            reasoning_tokens=optional_int(made.get("reasoning_tokens")) or None,
        )
    )


def _known_usage(usage: Usage) -> Usage | None:
    """The SDK says nothing where nothing is known, which looks like none."""
    return usage if usage.total_tokens else None


log = logging.getLogger("palaver.frameworks")

SOURCE = ("openaiagents",)
_HIDDEN = ("task", "turn")
_MODELS = ("generation", "response")
_KINDS: dict[str, StepKind] = {
    "agent": "agent",
    "function": "tool",
    "generation": "llm",
    "guardrail": "guardrail",
    "response": "llm",
}
"""By the type of a span; whatever else there is, or will be, is a task."""
_MAX_OPEN_SPANS = 10_000
"""Spans that have begun and not ended: one that is forgotten must not be remembered for ever."""


def install_listener() -> None:
    """From now on, in this process, of what authors run themselves."""
    add_trace_processor(_PROCESSOR)


@contextmanager
def step_hooks() -> "Generator[_Hooks | None]":
    """Whatever the SDK begins in here is told to whoever listens, and traced for nobody else; with these hooks.

    None where nobody listens: then it should not be traced at all.
    """
    heard_by = current_listener()
    if heard_by is None:
        yield None
        return
    if not isinstance(theirs := get_trace_provider(), _Provider):
        set_trace_provider(_Provider(theirs))
    hooks = _Hooks(heard_by)
    token = _HOOKS.set(hooks)
    try:
        yield hooks
    finally:
        _HOOKS.reset(token)


# What spans tell


class _OpenSpan:
    """A span that has begun."""

    __slots__ = ("owns", "raised", "step")

    def __init__(self, step: Step | None, *, owns: bool) -> None:
        self.step = step  # Where it is not shown itself, the one that it is in.
        self.owns = owns
        self.raised = sys.exception()  # It may run while something else is being handled.


class _Processor(TracingProcessor):
    """Hears of spans, as they begin and end."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenSpan] = {}

    def step_of(self, span: "Span[Any] | None") -> Step | None:
        """The step in which we are, inside of this span."""
        known = None if span is None else self._open.get(span.span_id)
        return None if known is None else known.step

    def on_trace_start(self, trace: Trace) -> None:
        """Our run is that."""

    def on_trace_end(self, trace: Trace) -> None:
        """As above."""

    def on_span_start(self, span: "Span[Any]") -> None:
        """A step begins."""
        heard_by = current_listener()
        if heard_by is None:
            return
        if len(self._open) >= _MAX_OPEN_SPANS:
            self._open.pop(next(iter(self._open)), None)
        self._open[span.span_id] = self._opened(span, heard_by)

    def _opened(self, span: "Span[Any]", heard_by: StepListener) -> _OpenSpan:
        data, own = span.span_data, _HOOKS.get()
        known = self._open.get(span.parent_id or "")
        parent = None if known is None else known.step
        if data.type in _HIDDEN:
            return _OpenSpan(parent, owns=False)
        if data.type in _MODELS and own is not None and (asking := own.asking.get(span.parent_id)) is not None:
            return _OpenSpan(asking, owns=True)
        kind = _KINDS.get(data.type, "task")
        call_id = own.handing_off if own is not None and data.type == "handoff" else None
        step = heard_by.begin(SOURCE, kind, span_name(data), parent=parent, call_id=call_id, tell=span_details(data))
        return _OpenSpan(step, owns=True)

    def on_span_end(self, span: "Span[Any]") -> None:
        """It is over."""
        known = self._open.pop(span.span_id, None)
        if known is None or known.step is None or not known.owns:
            return
        data, step, raised = span.span_data, known.step, sys.exception()
        error: BaseException | StepError | None = None if raised is known.raised else raised
        if error is None and span.error is not None:
            error = StepError("tool_error" if data.type == "function" else "error", _error_text(span.error))
        if step.kind != "llm":
            step.name = span_name(data)  # Where a handoff goes is known only now.
        elif error is None and _HOOKS.get() is not None and not _has_output(data):
            step.tells = (*step.tells, span_details(data))
            return  # A hook will tell what was answered.
        step.end(span_details(data), error=error)

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self) -> None:
        """As above."""


_PROCESSOR = _Processor()


def _has_output(data: Any) -> bool:
    """Does a model's span say what was answered? Some models leave that out."""
    return bool(data.response if data.type == "response" else data.output)


def _error_text(error: Any) -> str:
    more = dict_or_empty(error.get("data")).get("error")
    return f"{error['message']}: {more}" if more else str(error["message"])


# Agents that we run


_Hook = Callable[..., "CoroutineType[Any, Any, None]"]


def _suppress_errors(tell: _Hook) -> _Hook:
    """What is raised in a hook would break the run."""

    @wraps(tell)
    async def told(*args: Any, **kwargs: Any) -> None:
        try:
            await tell(*args, **kwargs)
        except Exception:
            log.debug("A step could not be told", exc_info=True)

    return told


class _Hooks(RunHooks[Any]):
    """Tells of one run what its spans do not."""

    def __init__(self, heard_by: StepListener) -> None:
        self._heard_by = heard_by
        self.asking: dict[str | None, Step] = {}
        """By the span that it happens in, the call of a model that is under way."""
        self.handing_off: str | None = None
        """The last call that a model made to hand off: it is the handoff, and no tool."""

    @_suppress_errors
    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]) -> None:  # noqa: ARG002
        """A model is asked."""
        tell = request_details(agent.model, system_prompt, input_items, agent.model_settings)
        span = get_current_span()
        step = self._heard_by.begin(SOURCE, "llm", "", parent=_PROCESSOR.step_of(span), tell=tell)
        if step is not None:
            self.asking[None if span is None else span.span_id] = step

    @_suppress_errors
    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
        """It has answered."""
        names = [getattr(to, "tool_name", None) or Handoff.default_tool_name(to) for to in agent.handoffs]
        calls = [item.call_id for item in response.output if getattr(item, "name", None) in names]
        self.handing_off = calls[0] if calls else None
        span = get_current_span()
        step = self.asking.pop(None if span is None else span.span_id, None)
        if step is not None:
            step.end(response_details(response))

    @_suppress_errors
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:  # noqa: ARG002
        """A tool is run: which call it answers, its span does not say."""
        step = _PROCESSOR.step_of(get_current_span())
        if step is not None and step.kind == "tool":
            step.call_id = getattr(context, "tool_call_id", None)

    def broke(self, error: BaseException) -> None:
        """The run has failed: so have the models that have not answered, as their spans may not say."""
        for step in self.asking.values():
            step.end(error=error)


_HOOKS: ContextVar[_Hooks | None] = ContextVar("palaver-openai-agents", default=None)


class _Provider(TraceProvider):
    """The process's own provider, but for the agents that we run: those are traced for us, whatever it is set to."""

    def __init__(self, theirs: TraceProvider) -> None:
        self._theirs = theirs
        self._ours = DefaultTraceProvider()
        self._ours.set_disabled(False)
        self._ours.register_processor(_PROCESSOR)

    def create_trace(self, *args: Any, **kwargs: Any) -> Trace:
        """By whom it is to be heard."""
        return self._here.create_trace(*args, **kwargs)

    def create_span(self, *args: Any, **kwargs: Any) -> "Span[Any]":
        """As above."""
        return self._here.create_span(*args, **kwargs)

    @property
    def _here(self) -> TraceProvider:
        return self._theirs if _HOOKS.get() is None else self._ours

    # What an author sets is the author's.

    def register_processor(self, processor: TracingProcessor) -> None:
        """To the author's own."""
        self._theirs.register_processor(processor)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Those of the author's own."""
        self._theirs.set_processors(processors)

    def set_disabled(self, disabled: bool) -> None:  # noqa: FBT001 - the SDK's own signature
        """The author's own."""
        self._theirs.set_disabled(disabled)

    def get_current_trace(self) -> Trace | None:
        """Wherever we are."""
        return self._theirs.get_current_trace()

    def get_current_span(self) -> "Span[Any] | None":
        """Wherever we are."""
        return self._theirs.get_current_span()

    def time_iso(self) -> str:
        """Now."""
        return self._theirs.time_iso()

    def gen_trace_id(self) -> str:
        """A name that nobody has yet."""
        return self._theirs.gen_trace_id()

    def gen_span_id(self) -> str:
        """As above."""
        return self._theirs.gen_span_id()

    def gen_group_id(self) -> str:
        """As above."""
        return self._theirs.gen_group_id()

    def force_flush(self) -> None:
        """Of what the author's own hold."""
        self._theirs.force_flush()

    def shutdown(self) -> None:
        """The process ends."""
        self._theirs.shutdown()
