"""A run as OpenTelemetry's current span, and the spans that end within it."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from palaver.traces import sdk_bridge
from palaver.traces.model import Span
from palaver.traces.run_facts import SpanOwner
from palaver.traces.sdk_bridge import RunSpanSink, SpanFactory

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")

TRACE, RUN_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tracer provider of the process."""
    tracer_provider = sdk.TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracer_provider)
    yield tracer_provider
    tracer_provider.shutdown()


class FactoryList(list[SpanFactory]):
    """A list that collects the span factories of a run."""

    def sink(self) -> RunSpanSink:
        return RunSpanSink(SpanOwner("shop", "s-1", "run_1", "full"), self.append)

    def spans(self) -> list[Span]:
        return [span for work in self for span in work()]


def test_spans_that_end_within_a_run_reach_its_sink_and_later_ones_do_not(provider: Any) -> None:
    factories, tracer = FactoryList(), provider.get_tracer("lib")

    token = sdk_bridge.attach_run(TRACE, RUN_SPAN, factories.sink())
    assert token is not None
    tracer.start_span("below").end()
    sdk_bridge.detach_run(token)
    tracer.start_span("after").end()

    assert [(span.name, span.trace_id, span.parent_id) for span in factories.spans()] == [("below", TRACE, RUN_SPAN)]


def test_each_span_reaches_the_sink_once_after_several_runs(provider: Any) -> None:
    factories = FactoryList()
    for _ in range(3):
        token = sdk_bridge.attach_run(TRACE, RUN_SPAN, factories.sink())
        assert token is not None
        sdk_bridge.detach_run(token)

    token = sdk_bridge.attach_run(TRACE, RUN_SPAN, factories.sink())
    assert token is not None
    provider.get_tracer("lib").start_span("once").end()
    sdk_bridge.detach_run(token)

    assert len(factories) == 1


def test_the_oldest_open_span_is_dropped_above_the_limit(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk_bridge, "_MAX_OPEN_SPANS", 1)
    factories, tracer = FactoryList(), provider.get_tracer("lib")

    token = sdk_bridge.attach_run(TRACE, RUN_SPAN, factories.sink())
    assert token is not None
    first, second = tracer.start_span("first"), tracer.start_span("second")
    first.end()
    second.end()
    sdk_bridge.detach_run(token)

    assert [span.name for span in factories.spans()] == ["second"]


def test_a_run_is_the_current_span_even_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace")

    token = sdk_bridge.attach_run(TRACE, RUN_SPAN, FactoryList().sink())
    span_context = trace.get_current_span().get_span_context()
    assert token is not None
    sdk_bridge.detach_run(token)

    assert (span_context.trace_id, span_context.span_id, span_context.trace_flags.sampled) == (
        int(TRACE, 16),
        int(RUN_SPAN, 16),
        True,
    )


def test_invalid_ids_attach_nothing(provider: Any) -> None:
    assert sdk_bridge.attach_run("what", "ever", FactoryList().sink()) is None


def test_opentelemetry_is_loaded_only_if_its_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sdk_bridge.is_opentelemetry_loaded()
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")

    assert not sdk_bridge.is_opentelemetry_loaded()
