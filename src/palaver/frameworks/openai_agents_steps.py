"""The OpenAI Agents SDK tells of its steps: agents, models, tools, handoffs, guardrails.

A processor of ours, beside the author's, hears of every run of the SDK that is traced at all. An agent that we run
ourselves is traced for us alone, by a provider of our own: the SDK's would send what was said to OpenAI. For such a run
hooks tell what the spans leave out. Tasks and turns are not shown: each holds one thing.
"""

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import CoroutineType
from typing import Any

from agents import Handoff, RunHooks
from agents.tracing import Span, Trace, TracingProcessor, add_trace_processor, get_current_span, set_trace_provider
from agents.tracing.provider import DefaultTraceProvider, TraceProvider
from agents.tracing.setup import get_trace_provider

from palaver.core.dialects.common import dict_or_empty
from palaver.core.steps import Step, StepError, StepKind, StepListener, current_listener
from palaver.frameworks.openai_agents_told import answered, asked, name_of, tell_of

log = logging.getLogger("palaver.frameworks")

TELLER = ("openaiagents",)
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
_MOST_OPEN = 10_000
"""Spans that have begun and not ended: one that is forgotten must not be remembered for ever."""


def listen() -> None:
    """From now on, in this process, of what authors run themselves."""
    add_trace_processor(_PROCESSOR)


@contextmanager
def told() -> "Generator[_Hooks | None]":
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
    token = _OWN.set(hooks)
    try:
        yield hooks
    finally:
        _OWN.reset(token)


# What spans tell


class _Open:
    """A span that has begun."""

    __slots__ = ("owns", "raised", "step")

    def __init__(self, step: Step | None, *, owns: bool) -> None:
        self.step = step  # Where it is not shown itself, the one that it is in.
        self.owns = owns
        self.raised = sys.exception()  # It may run while something else is being handled.


class _Processor(TracingProcessor):
    """Hears of spans, as they begin and end."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

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
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)), None)
        self._open[span.span_id] = self._opened(span, heard_by)

    def _opened(self, span: "Span[Any]", heard_by: StepListener) -> _Open:
        data, own = span.span_data, _OWN.get()
        known = self._open.get(span.parent_id or "")
        parent = None if known is None else known.step
        if data.type in _HIDDEN:
            return _Open(parent, owns=False)
        if data.type in _MODELS and own is not None and (asking := own.asking.get(span.parent_id)) is not None:
            return _Open(asking, owns=True)
        kind = _KINDS.get(data.type, "task")
        call_id = own.handing_off if own is not None and data.type == "handoff" else None
        step = heard_by.begin(TELLER, kind, name_of(data), parent=parent, call_id=call_id, tell=tell_of(data))
        return _Open(step, owns=True)

    def on_span_end(self, span: "Span[Any]") -> None:
        """It is over."""
        known = self._open.pop(span.span_id, None)
        if known is None or known.step is None or not known.owns:
            return
        data, step, raised = span.span_data, known.step, sys.exception()
        error: BaseException | StepError | None = None if raised is known.raised else raised
        if error is None and span.error is not None:
            error = StepError("tool_error" if data.type == "function" else "error", _words(span.error))
        if step.kind != "llm":
            step.name = name_of(data)  # Where a handoff goes is known only now.
        elif error is None and _OWN.get() is not None and not _is_whole(data):
            step.tells = (*step.tells, tell_of(data))
            return  # A hook will tell what was answered.
        step.end(tell_of(data), error=error)

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self) -> None:
        """As above."""


_PROCESSOR = _Processor()


def _is_whole(data: Any) -> bool:
    """Does a model's span say what was answered? Some models leave that out."""
    return bool(data.response if data.type == "response" else data.output)


def _words(error: Any) -> str:
    more = dict_or_empty(error.get("data")).get("error")
    return f"{error['message']}: {more}" if more else str(error["message"])


# Agents that we run


_Hook = Callable[..., "CoroutineType[Any, Any, None]"]


def _quietly(tell: _Hook) -> _Hook:
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

    @_quietly
    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]) -> None:  # noqa: ARG002
        """A model is asked."""
        tell = asked(agent.model, system_prompt, input_items, agent.model_settings)
        span = get_current_span()
        step = self._heard_by.begin(TELLER, "llm", "", parent=_PROCESSOR.step_of(span), tell=tell)
        if step is not None:
            self.asking[None if span is None else span.span_id] = step

    @_quietly
    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
        """It has answered."""
        names = [getattr(to, "tool_name", None) or Handoff.default_tool_name(to) for to in agent.handoffs]
        calls = [item.call_id for item in response.output if getattr(item, "name", None) in names]
        self.handing_off = calls[0] if calls else None
        span = get_current_span()
        step = self.asking.pop(None if span is None else span.span_id, None)
        if step is not None:
            step.end(answered(response))

    @_quietly
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:  # noqa: ARG002
        """A tool is run: which call it answers, its span does not say."""
        step = _PROCESSOR.step_of(get_current_span())
        if step is not None and step.kind == "tool":
            step.call_id = getattr(context, "tool_call_id", None)

    def broke(self, error: BaseException) -> None:
        """The run has failed: so have the models that have not answered, as their spans may not say."""
        for step in self.asking.values():
            step.end(error=error)


_OWN: ContextVar[_Hooks | None] = ContextVar("palaver-openai-agents", default=None)


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
        return self._theirs if _OWN.get() is None else self._ours

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
