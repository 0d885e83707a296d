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

from palaver.traces.model import Span
from palaver.traces.run_facts import ReportedTool, SpanOwner

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

log = logging.getLogger("palaver.traces")

SpanFactory = Callable[[], Sequence[Span]]
"""Spans that have still to be made: where, and when, is for others to say."""

_CONTEXT_KEY = "palaver-run"
_MAX_SCOPES = 1_000
_MAX_OPEN_SPANS = 10_000
"""Spans that have begun and not ended: one that is forgotten must not be remembered for ever."""


class RunSpanSink:
    """The run below which a span stands, and where that span goes."""

    __slots__ = ("models", "owner", "put", "scopes", "tools")

    def __init__(self, owner: SpanOwner, put: Callable[[SpanFactory], None]) -> None:
        self.owner = owner
        self.put = put  # Takes it from any thread, and at once.
        self.tools: list[ReportedTool] = []
        """The tools that ended below the run, as somebody's instrumentation tells: we need not tell of them again."""
        self.models: list[tuple[datetime, datetime]] = []
        """And the calls of models: from when to when."""
        self.scopes: set[str] = set()
        """Whose spans began below the run: the names of instrumentations, and of an author's own tracers."""


def is_opentelemetry_loaded() -> bool:
    """Does anybody here have OpenTelemetry?"""
    return "opentelemetry.trace" in sys.modules


def attach_run(trace_id: str, span_id: str, place: RunSpanSink | None) -> Token[Any] | None:
    """Make a run the current span of this task; what to leave it with."""
    from opentelemetry import context, trace

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    try:
        own = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
        here = trace.set_span_in_context(trace.NonRecordingSpan(own))
        if place is not None:
            _install_processor()
            here = context.set_value(_CONTEXT_KEY, place, here)
        return context.attach(here)
    except Exception:  # A library that is not as we know it must not cost anybody a run.
        log.debug("The run could not be made OpenTelemetry's current span", exc_info=True)
        return None


def detach_run(token: Token[Any]) -> None:
    """Undo that, in the same task."""
    from opentelemetry import context

    context.detach(token)


# Spans that end in this process

_instrumented_providers: "WeakSet[object]" = WeakSet()  # The providers that tell us.


def _install_processor() -> None:
    """Hear of the spans of the process's own provider, if it has one by now."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider) and provider not in _instrumented_providers:
        _instrumented_providers.add(provider)
        provider.add_span_processor(_make_processor())


def _make_processor() -> "SpanProcessor":
    from opentelemetry import context
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

    from palaver.traces.otlp.common import to_datetime
    from palaver.traces.sdk_spans import build_sdk_spans  # The conventions are many: only now are they wanted.

    class Below(SpanProcessor):
        """Hands on the spans that began below a run. A trace's id, which a caller may choose, says nothing of that."""

        def __init__(self) -> None:
            self._places: dict[tuple[int, int], RunSpanSink] = {}

        def on_start(self, span: Any, parent_context: Any = None) -> None:
            place = context.get_value(_CONTEXT_KEY, parent_context)
            if isinstance(place, RunSpanSink):
                if len(self._places) >= _MAX_OPEN_SPANS:
                    self._places.pop(next(iter(self._places)), None)
                self._places[_span_key(span)] = place
                if (scope := span.instrumentation_scope) is not None and len(place.scopes) < _MAX_SCOPES:
                    place.scopes.add(scope.name)

        def on_end(self, span: ReadableSpan) -> None:
            place = self._places.pop(_span_key(span), None)
            if place is not None:
                attributes = span.attributes or {}
                if (tool := _reported_tool(attributes)) is not None:
                    place.tools.append(tool)
                elif _is_model_call(attributes) and span.start_time and span.end_time:
                    place.models.append((to_datetime(span.start_time), to_datetime(span.end_time)))
                place.put(partial(build_sdk_spans, span, place.owner))

    return Below()


_TOOL_KINDS = (("gen_ai.operation.name", "execute_tool"), ("openinference.span.kind", "TOOL"))


def _reported_tool(attributes: Mapping[str, Any]) -> ReportedTool | None:
    if not any(attributes.get(name) == kind for name, kind in _TOOL_KINDS):
        return None
    call_id = attributes.get("gen_ai.tool.call.id") or attributes.get("tool_call.id")
    name = attributes.get("gen_ai.tool.name") or attributes.get("tool.name")
    return ReportedTool(call_id if isinstance(call_id, str) else None, name if isinstance(name, str) else "")


_MODEL_KINDS = (
    ("gen_ai.operation.name", ("chat", "generate_content", "text_completion", "embeddings")),
    ("openinference.span.kind", ("LLM", "EMBEDDING")),
    ("llm.request.type", ("chat", "completion", "embedding")),
)


def _is_model_call(attributes: Mapping[str, Any]) -> bool:
    """Does it tell of a model's call, and so of what that cost?"""
    return any(attributes.get(name) in kinds for name, kinds in _MODEL_KINDS)


def _span_key(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id
