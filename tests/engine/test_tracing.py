"""Traces of runs: built in a thread after the end of the run."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest

from palaver import chat, workflow
from palaver.core.messages import Message, ToolCall, ToolResult
from palaver.core.runs import Origin, Secret
from palaver.engine.engine import Engine
from palaver.engine.recorder import MemoryRunStore, RunHandedOver
from palaver.engine.run import Run
from palaver.engine.tracing import RunTracer
from palaver.traces.model import Span
from tests.engine.run_factory import NOW, QUESTION, call, run_to_end, wait_ended

Spans = list[Span]


def stepping_clock(step: float = 0.001) -> Callable[[], datetime]:
    """Return a clock that advances by `step` seconds on every call."""
    calls = count()
    return lambda: NOW + timedelta(seconds=step * next(calls))


async def trace_workflow(target: Any, *messages: Message, **options: Any) -> Spans:
    """Run a workflow to its end and return its spans."""
    spans: Spans = []
    tracing = RunTracer(spans.extend)
    await run_to_end(target, *messages, engine=Engine(tracer=tracing, now=stepping_clock()), **options)
    await tracing.close()
    return spans


@chat
async def answer(messages: list[Message]) -> AsyncIterator[str]:
    yield "Hel"
    yield "lo."


async def test_a_run_gives_a_span_with_its_input_and_output_messages() -> None:
    [span] = await trace_workflow(answer, QUESTION, user="u-1", session="s-1")

    assert (span.name, span.kind, span.status) == ("invoke_workflow answer", "workflow", "ok")
    assert (span.messages_in, span.messages_out) == ((QUESTION,), (Message.assistant("Hello."),))
    assert (span.session, span.user, span.finish) == ("s-1", "u-1", "stop")
    assert span.attributes["palaver.is_chat"] is True
    assert span.duration_ms > 0


async def test_the_span_has_the_ids_of_the_run() -> None:
    spans: Spans = []
    tracing = RunTracer(spans.extend)

    run = await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing), trace_parent=f"00-{'a' * 32}-{'b' * 16}-01")
    await tracing.close()

    assert [(span.trace_id, span.span_id, span.parent_id) for span in spans] == [
        ("a" * 32, run.started.span_id, "b" * 16)
    ]


async def test_a_tool_span_lasts_from_the_call_to_its_result() -> None:
    @chat
    async def looks(messages: Any) -> AsyncIterator[Any]:
        yield "Let me see."
        yield ToolCall("c1", "weather", '{"city":"Oslo"}')
        yield ToolCall("c2", "time", "")
        yield ToolResult("c2", "noon")
        yield ToolResult("c1", {"degrees": 3})

    root, second, first = await trace_workflow(looks, QUESTION)

    # The clock: start, first output, then each event of a tool, and the end.
    assert [(span.name, (span.start - root.start) / timedelta(milliseconds=1)) for span in (first, second)] == [
        ("execute_tool weather", 2.0),
        ("execute_tool time", 3.0),
    ]
    assert [round(span.duration_ms, 3) for span in (root, first, second)] == [6.0, 3.0, 1.0]
    assert (first.parent_id, second.parent_id) == (root.span_id, root.span_id)


async def test_an_emitted_tool_call_becomes_a_span() -> None:
    @workflow
    async def emits(ctx: Any) -> int:
        ctx.emit(ToolCall("c1", "add", "{}"))
        ctx.emit(ToolResult("c1", 3))
        return 3

    root, tool = await trace_workflow(emits)

    # The clock was read once in between, for the first output of the run.
    assert (root.outputs, tool.outputs, tool.duration_ms, tool.notes) == (3, 3, 2.0, ())


async def test_the_span_of_a_cancelled_run_has_its_partial_answer() -> None:
    spans: Spans = []
    tracing, output_sent = RunTracer(spans.extend), asyncio.Event()

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "On and"
        output_sent.set()
        await asyncio.Event().wait()

    run = Engine(tracer=tracing).start(endless, call(QUESTION))
    await output_sent.wait()
    run.cancel()
    await wait_ended(run)
    await tracing.close()

    assert [(span.status, span.messages_out) for span in spans] == [("cancelled", (Message.assistant("On and"),))]


async def test_the_span_of_a_failed_run_contains_no_secrets_of_the_caller() -> None:
    @chat
    async def fails(messages: Any) -> AsyncIterator[str]:
        yield "Well, open-sesame-42"
        raise ValueError("open-sesame-42")

    [span] = await trace_workflow(fails, QUESTION, secrets={"key": Secret("open-sesame-42")})

    assert (span.status, span.messages_out) == ("error", (Message.assistant("Well, ***"),))
    assert b"sesame" not in msgspec.json.encode(span)


@pytest.mark.parametrize("record", ["off", "metadata", "full"])
async def test_the_record_mode_of_a_workflow_limits_its_spans(record: Any) -> None:
    @chat(record=record)
    async def discreet(messages: Any) -> AsyncIterator[Any]:
        yield ToolCall("c1", "f")
        yield ToolResult("c1", 1)

    spans = await trace_workflow(discreet, QUESTION)

    assert [(span.kind, bool(span.messages_in)) for span in spans] == {
        "off": [],
        "metadata": [("workflow", False), ("tool", False)],
        "full": [("workflow", True), ("tool", False)],
    }[record]


async def test_a_run_handed_over_to_another_process_gives_no_span() -> None:
    class Leaving(MemoryRunStore):
        async def record_end(self, run: Any, last: Any) -> None:
            raise RunHandedOver

    spans: Spans = []
    tracing = RunTracer(spans.extend)

    await run_to_end(answer, engine=Engine(tracer=tracing, store=Leaving()))
    await tracing.close()

    assert spans == []


async def test_spans_reach_the_sink_after_the_end_and_in_the_thread_of_the_caller() -> None:
    threads: list[str] = []
    tracing = RunTracer(lambda spans: threads.append(threading.current_thread().name), delay=60)

    run = await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing))
    assert (run.is_finished, threads) == (True, [])
    await tracing.flush()

    assert threads == [threading.current_thread().name]  # Built in another thread, but passed to the sink in this one.
    await tracing.close()


async def test_spans_are_delivered_without_a_flush() -> None:
    deliveries: asyncio.Queue[Sequence[Span]] = asyncio.Queue()
    tracing = RunTracer(deliveries.put_nowait)

    await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing))
    async with asyncio.timeout(60):
        [span] = await deliveries.get()

    assert span.workflow == "answer"
    await tracing.close()
    await tracing.close()


async def test_spans_of_runs_in_quick_succession_are_all_delivered() -> None:
    spans: Spans = []
    tracing = RunTracer(spans.extend, delay=0)
    engine = Engine(tracer=tracing)

    for _ in range(20):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert len(spans) == 20


async def test_runs_above_the_pending_limit_are_dropped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    spans: Spans = []
    tracing = RunTracer(spans.extend, delay=60, max_pending=2)
    engine = Engine(tracer=tracing)

    for _ in range(5):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert (len(spans), tracing.dropped) == (2, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "Runs end faster than their traces can be stored. Some traces are dropped."
    ]


async def test_pending_events_are_limited_but_one_run_is_always_accepted() -> None:
    spans: Spans = []
    tracing = RunTracer(spans.extend, delay=60, max_pending_events=3)
    engine = Engine(tracer=tracing)

    for _ in range(2):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert (len(spans), tracing.dropped) == (1, 1)


async def test_a_sink_that_raises_loses_only_the_spans_of_that_call(caplog: pytest.LogCaptureFixture) -> None:
    spans: Spans = []

    def picky(new_spans: Sequence[Span]) -> None:
        if not tracing.dropped:
            raise ValueError("not these")
        spans.extend(new_spans)

    tracing = RunTracer(picky)
    engine = Engine(tracer=tracing)
    await run_to_end(answer, QUESTION, engine=engine)
    await tracing.flush()
    await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert (len(spans), tracing.dropped) == (1, 1)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_run_whose_spans_cannot_be_built_loses_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from palaver.traces import run_spans

    build_run_spans = run_spans.build_run_spans
    numbers = count()

    def fragile(facts: Any, content: Any) -> list[Span]:
        if next(numbers) == 0:
            raise RuntimeError("a mistake")
        return build_run_spans(facts, content)

    monkeypatch.setattr(run_spans, "build_run_spans", fragile)
    spans: Spans = []
    tracing = RunTracer(spans.extend, delay=60)
    engine = Engine(tracer=tracing)
    for _ in range(2):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert len(spans) == 1
    assert [record.getMessage() for record in caplog.records] == ["Failed to build the spans of a run"]


# OpenTelemetry


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A tracer of the process's tracer provider."""
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield provider.get_tracer("shop")
    provider.shutdown()


async def test_spans_of_the_author_nest_under_the_run(tracer: Any) -> None:
    @chat
    async def looks(messages: Any) -> AsyncIterator[str]:
        kind = {"openinference.span.kind": "RETRIEVER"}
        with tracer.start_as_current_span("look", attributes=kind), tracer.start_as_current_span("inside"):
            pass
        yield "Found."

    spans = {span.name: span for span in await trace_workflow(looks, QUESTION, session="s-1")}
    root, look, inside = (spans[name] for name in ("invoke_workflow looks", "look", "inside"))

    assert {span.trace_id for span in (root, look, inside)} == {root.trace_id}
    assert (look.parent_id, inside.parent_id) == (root.span_id, look.span_id)
    assert (look.kind, look.session, look.run_id, look.scope) == ("retrieval", "s-1", root.run_id, "shop")


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c1"},
        {"openinference.span.kind": "TOOL", "tool.name": "look"},
    ],
)
async def test_a_tool_reported_by_an_instrumentation_has_one_span(tracer: Any, attributes: Any) -> None:
    @chat
    async def looks(messages: Any) -> AsyncIterator[Any]:
        yield ToolCall("c1", "look", "{}")
        with tracer.start_as_current_span("their look", attributes=attributes):
            pass
        yield ToolResult("c1", "seen")

    spans = await trace_workflow(looks, QUESTION)

    assert sorted(span.name for span in spans) == ["invoke_workflow looks", "their look"]


async def test_spans_of_sync_code_nest_under_the_run(tracer: Any) -> None:
    @chat
    def looks(messages: Any) -> str:
        with tracer.start_as_current_span("look"):
            return "Found."

    spans = {span.name: span for span in await trace_workflow(looks, QUESTION)}

    assert spans["look"].parent_id == spans["invoke_workflow looks"].span_id


async def test_a_span_within_a_run_is_in_its_project_whatever_trace_the_caller_names(tracer: Any) -> None:
    spans: Spans = []
    tracing = RunTracer(spans.extend)
    engine = Engine(tracer=tracing)

    @chat
    async def looks(messages: Any) -> AsyncIterator[str]:
        with tracer.start_as_current_span("look"):
            await asyncio.sleep(0)
        yield "Found."

    runs = [
        engine.start(looks, call(QUESTION, trace_parent=f"00-{'a' * 32}-{'b' * 16}-01"), origin=Origin(project=project))
        for project in ("here", "there")
    ]
    for run in runs:
        await wait_ended(run)
    await tracing.close()

    assert sorted((span.project, span.run_id) for span in spans if span.name == "look") == [
        ("here", runs[0].id),
        ("there", runs[1].id),
    ]


async def test_a_span_outside_of_a_run_is_not_recorded(tracer: Any) -> None:
    await trace_workflow(answer, QUESTION)
    spans: Spans = []
    tracing = RunTracer(spans.extend)

    with tracer.start_as_current_span("elsewhere"):
        await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing))
    await tracing.close()

    assert [span.name for span in spans] == ["invoke_workflow answer"]


async def test_the_current_span_is_restored_after_a_run(tracer: Any) -> None:
    from opentelemetry import trace

    engine = Engine(tracer=RunTracer(lambda _: None))
    run, producer = engine.open(answer, call(QUESTION))
    before = trace.get_current_span()

    await run.drive(producer)

    assert trace.get_current_span() is before


async def test_spans_within_an_unrecorded_run_are_not_recorded(tracer: Any) -> None:
    seen: list[int] = []

    @chat(record="off")
    async def looks(messages: Any) -> AsyncIterator[str]:
        with tracer.start_as_current_span("look") as span:
            seen.append(span.get_span_context().trace_id)
        yield "Found."

    spans: Spans = []
    tracing = RunTracer(spans.extend)
    run: Run = await run_to_end(looks, QUESTION, engine=Engine(tracer=tracing))
    await tracing.close()

    assert spans == []
    assert seen == [int(run.started.trace_id, 16)]  # They still nest: other exporters may record them.


async def test_a_trace_id_that_is_not_hexadecimal_is_accepted(tracer: Any) -> None:
    [span] = await trace_workflow(answer, QUESTION, trace_parent="00-what-ever-01")

    assert span.trace_id == "what"


async def test_runs_are_traced_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)

    [span] = await trace_workflow(answer, QUESTION)

    assert span.workflow == "answer"
