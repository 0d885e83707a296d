"""OpenTelemetry in this process: a run is its current span, and spans that end below it come to us without HTTP.

So an author's own spans, and those of any instrumentation, nest under the run that they belong to. OpenTelemetry is not
ours: nothing of it is imported here but what the process has loaded already, and a process without it pays one look.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from palaver.traces.facts import ToldTool
from palaver.traces.owner import Owner
from palaver.traces.record import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

log = logging.getLogger("palaver.traces")

Work = Callable[[], Sequence[Span]]
"""Spans that have still to be made: where, and when, is for others to say."""

_KEY = "palaver-run"
_MOST_SCOPES = 1_000
_MOST_OPEN = 10_000
"""Spans that have begun and not ended: one that is forgotten must not be remembered for ever."""


class Place:
    """The run below which a span stands, and where that span goes."""

    __slots__ = ("models", "owner", "put", "scopes", "tools")

    def __init__(self, owner: Owner, put: Callable[[Work], None]) -> None:
        self.owner = owner
        self.put = put  # Takes it from any thread, and at once.
        self.tools: list[ToldTool] = []
        """The tools that ended below the run, as somebody's instrumentation tells: we need not tell of them again."""
        self.models: list[tuple[datetime, datetime]] = []
        """And the calls of models: from when to when."""
        self.scopes: set[str] = set()
        """Whose spans began below the run: the names of instrumentations, and of an author's own tracers."""


def is_loaded() -> bool:
    """Does anybody here have OpenTelemetry?"""
    return "opentelemetry.trace" in sys.modules


def entered(trace_id: str, span_id: str, place: Place | None) -> Token[Any] | None:
    """Make a run the current span of this task; what to leave it with."""
    from opentelemetry import context, trace

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    try:
        own = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
        here = trace.set_span_in_context(trace.NonRecordingSpan(own))
        if place is not None:
            _listen()
            here = context.set_value(_KEY, place, here)
        return context.attach(here)
    except Exception:  # A library that is not as we know it must not cost anybody a run.
        log.debug("The run could not be made OpenTelemetry's current span", exc_info=True)
        return None


def left(token: Token[Any]) -> None:
    """Undo that, in the same task."""
    from opentelemetry import context

    context.detach(token)


# Spans that end in this process

_heard: "WeakSet[object]" = WeakSet()  # The providers that tell us.


def _listen() -> None:
    """Hear of the spans of the process's own provider, if it has one by now."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider) and provider not in _heard:
        _heard.add(provider)
        provider.add_span_processor(_processor())


def _processor() -> "SpanProcessor":
    from opentelemetry import context
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

    from palaver.traces.otlp.spans import moment
    from palaver.traces.sdk_spans import spans_of  # The conventions are many: only now are they wanted.

    class Below(SpanProcessor):
        """Hands on the spans that began below a run. A trace's id, which a caller may choose, says nothing of that."""

        def __init__(self) -> None:
            self._places: dict[tuple[int, int], Place] = {}

        def on_start(self, span: Any, parent_context: Any = None) -> None:
            place = context.get_value(_KEY, parent_context)
            if isinstance(place, Place):
                if len(self._places) >= _MOST_OPEN:
                    self._places.pop(next(iter(self._places)), None)
                self._places[_id(span)] = place
                if (scope := span.instrumentation_scope) is not None and len(place.scopes) < _MOST_SCOPES:
                    place.scopes.add(scope.name)

        def on_end(self, span: ReadableSpan) -> None:
            place = self._places.pop(_id(span), None)
            if place is not None:
                attributes = span.attributes or {}
                if (tool := _tool(attributes)) is not None:
                    place.tools.append(tool)
                elif _is_model(attributes) and span.start_time and span.end_time:
                    place.models.append((moment(span.start_time), moment(span.end_time)))
                place.put(partial(spans_of, span, place.owner))

    return Below()


_TOOL_KINDS = (("gen_ai.operation.name", "execute_tool"), ("openinference.span.kind", "TOOL"))


def _tool(attributes: Mapping[str, Any]) -> ToldTool | None:
    if not any(attributes.get(name) == kind for name, kind in _TOOL_KINDS):
        return None
    call_id = attributes.get("gen_ai.tool.call.id") or attributes.get("tool_call.id")
    name = attributes.get("gen_ai.tool.name") or attributes.get("tool.name")
    return ToldTool(call_id if isinstance(call_id, str) else None, name if isinstance(name, str) else "")


_MODEL_KINDS = (
    ("gen_ai.operation.name", ("chat", "generate_content", "text_completion", "embeddings")),
    ("openinference.span.kind", ("LLM", "EMBEDDING")),
    ("llm.request.type", ("chat", "completion", "embedding")),
)


def _is_model(attributes: Mapping[str, Any]) -> bool:
    """Does it tell of a model's call, and so of what that cost?"""
    return any(attributes.get(name) in kinds for name, kinds in _MODEL_KINDS)


def _id(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id
