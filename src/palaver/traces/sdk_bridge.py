"""Connect runs with the OpenTelemetry SDK of this process.

A run is the current span of its task, so that a workflow's own spans and those of instrumentations nest under it; when
they end they are recorded without HTTP. OpenTelemetry is optional: only modules that the process has loaded are used.
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
"""Builds spans; the caller decides where and when."""

_CONTEXT_KEY = "palaver-run"
_MAX_SCOPES = 1_000
_MAX_OPEN_SPANS = 10_000
"""Beyond this number the oldest open span is dropped, because some spans never end."""


class RunSpanSink:
    """Receives the spans that end below a run."""

    __slots__ = ("model_calls", "owner", "scopes", "submit", "tools")

    def __init__(self, owner: SpanOwner, submit: Callable[[SpanFactory], None]) -> None:
        self.owner = owner
        self.submit = submit  # Called from any thread; does not block.
        self.tools: list[ReportedTool] = []
        """Tools that an instrumentation has reported below the run."""
        self.model_calls: list[tuple[datetime, datetime]] = []
        """Start and end of model calls below the run."""
        self.scopes: set[str] = set()
        """Names of the instrumentation scopes that started spans below the run."""


def is_opentelemetry_loaded() -> bool:
    return "opentelemetry.trace" in sys.modules


def attach_run(trace_id: str, span_id: str, sink: RunSpanSink | None) -> Token[Any] | None:
    """Make a run the current span of this task. Returns a token for `detach_run`."""
    from opentelemetry import context, trace

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    try:
        span_context = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
        context_value = trace.set_span_in_context(trace.NonRecordingSpan(span_context))
        if sink is not None:
            _install_processor()
            context_value = context.set_value(_CONTEXT_KEY, sink, context_value)
        return context.attach(context_value)
    except Exception:  # An unknown version of the library must not fail a run.
        log.debug("Failed to set the run's span as the current OpenTelemetry span", exc_info=True)
        return None


def detach_run(token: Token[Any]) -> None:
    """Undo `attach_run`; call it in the same task."""
    from opentelemetry import context

    context.detach(token)


_instrumented_providers: "WeakSet[object]" = WeakSet()


def _install_processor() -> None:
    """Add a span processor to the process's tracer provider, if it has one by now."""
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
    from palaver.traces.sdk_spans import build_sdk_spans  # Slow to import: loads all conventions.

    class RunSpanProcessor(SpanProcessor):
        """Forwards spans below a run, which is found by context, not by trace id: callers may choose any."""

        def __init__(self) -> None:
            self._sinks: dict[tuple[int, int], RunSpanSink] = {}

        def on_start(self, span: Any, parent_context: Any = None) -> None:
            sink = context.get_value(_CONTEXT_KEY, parent_context)
            if isinstance(sink, RunSpanSink):
                if len(self._sinks) >= _MAX_OPEN_SPANS:
                    self._sinks.pop(next(iter(self._sinks)), None)
                self._sinks[_span_key(span)] = sink
                if (scope := span.instrumentation_scope) is not None and len(sink.scopes) < _MAX_SCOPES:
                    sink.scopes.add(scope.name)

        def on_end(self, span: ReadableSpan) -> None:
            sink = self._sinks.pop(_span_key(span), None)
            if sink is not None:
                attributes = span.attributes or {}
                if (tool := _reported_tool(attributes)) is not None:
                    sink.tools.append(tool)
                elif _is_model_call(attributes) and span.start_time and span.end_time:
                    sink.model_calls.append((to_datetime(span.start_time), to_datetime(span.end_time)))
                sink.submit(partial(build_sdk_spans, span, sink.owner))

    return RunSpanProcessor()


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
    """Whether the span is a model call, and so reports its usage."""
    return any(attributes.get(name) in kinds for name, kinds in _MODEL_KINDS)


def _span_key(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id
