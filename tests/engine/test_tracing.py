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

Kept = list[Span]


def ticking(step: float = 0.001) -> Callable[[], datetime]:
    """A clock that goes on by a millisecond whenever it is looked at."""
    seen = count()
    return lambda: NOW + timedelta(seconds=step * next(seen))


async def traced(of: Any, *messages: Message, **given: Any) -> Kept:
    """The spans of one run."""
    spans: Kept = []
    tracing = RunTracer(spans.extend)
    await run_to_end(of, *messages, engine=Engine(tracer=tracing, now=ticking()), **given)
    await tracing.close()
    return spans


@chat
async def answer(messages: list[Message]) -> AsyncIterator[str]:
    yield "Hel"
    yield "lo."


async def test_a_run_leaves_a_span_with_what_was_asked_and_answered() -> None:
    [span] = await traced(answer, QUESTION, user="u-1", session="s-1")

    assert (span.name, span.kind, span.status) == ("invoke_workflow answer", "workflow", "ok")
    assert (span.messages_in, span.messages_out) == ((QUESTION,), (Message.assistant("Hello."),))
    assert (span.session, span.user, span.finish) == ("s-1", "u-1", "stop")
    assert span.attributes["palaver.is_chat"] is True
    assert span.duration_ms > 0


async def test_its_span_has_the_ids_that_the_run_tells() -> None:
    spans: Kept = []
    tracing = RunTracer(spans.extend)

    run = await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing), trace_parent=f"00-{'a' * 32}-{'b' * 16}-01")
    await tracing.close()

    assert [(span.trace_id, span.span_id, span.parent_id) for span in spans] == [
        ("a" * 32, run.started.span_id, "b" * 16)
    ]


async def test_a_tool_took_as_long_as_from_its_call_to_its_answer() -> None:
    @chat
    async def looks(messages: Any) -> AsyncIterator[Any]:
        yield "Let me see."
        yield ToolCall("c1", "weather", '{"city":"Oslo"}')
        yield ToolCall("c2", "time", "")
        yield ToolResult("c2", "noon")
        yield ToolResult("c1", {"degrees": 3})

    root, second, first = await traced(looks, QUESTION)

    # The clock: start, first output, then each event of a tool, and the end.
    assert [(span.name, (span.start - root.start) / timedelta(milliseconds=1)) for span in (first, second)] == [
        ("execute_tool weather", 2.0),
        ("execute_tool time", 3.0),
    ]
    assert [round(span.duration_ms, 3) for span in (root, first, second)] == [6.0, 3.0, 1.0]
    assert (first.parent_id, second.parent_id) == (root.span_id, root.span_id)


async def test_what_is_emitted_beside_the_answer_counts_as_well() -> None:
    @workflow
    async def emits(ctx: Any) -> int:
        ctx.emit(ToolCall("c1", "add", "{}"))
        ctx.emit(ToolResult("c1", 3))
        return 3

    root, tool = await traced(emits)

    # In between the clock was looked at once: that was the run's first output.
    assert (root.outputs, tool.outputs, tool.duration_ms, tool.notes) == (3, 3, 2.0, ())


async def test_a_run_that_was_stopped_leaves_what_it_had_said() -> None:
    spans: Kept = []
    tracing, said = RunTracer(spans.extend), asyncio.Event()

    @chat
    async def endless(messages: Any) -> AsyncIterator[str]:
        yield "On and"
        said.set()
        await asyncio.Event().wait()

    run = Engine(tracer=tracing).start(endless, call(QUESTION))
    await said.wait()
    run.cancel()
    await wait_ended(run)
    await tracing.close()

    assert [(span.status, span.messages_out) for span in spans] == [("cancelled", (Message.assistant("On and"),))]


async def test_a_run_that_failed_says_so_without_its_callers_secrets() -> None:
    @chat
    async def fails(messages: Any) -> AsyncIterator[str]:
        yield "Well, open-sesame-42"
        raise ValueError("open-sesame-42")

    [span] = await traced(fails, QUESTION, secrets={"key": Secret("open-sesame-42")})

    assert (span.status, span.messages_out) == ("error", (Message.assistant("Well, ***"),))
    assert b"sesame" not in msgspec.json.encode(span)


@pytest.mark.parametrize("record", ["off", "metadata", "full"])
async def test_an_author_says_how_much_is_recorded(record: Any) -> None:
    @chat(record=record)
    async def discreet(messages: Any) -> AsyncIterator[Any]:
        yield ToolCall("c1", "f")
        yield ToolResult("c1", 1)

    spans = await traced(discreet, QUESTION)

    assert [(span.kind, bool(span.messages_in)) for span in spans] == {
        "off": [],
        "metadata": [("workflow", False), ("tool", False)],
        "full": [("workflow", True), ("tool", False)],
    }[record]


async def test_a_run_that_begins_anew_elsewhere_leaves_no_span_here() -> None:
    class Leaving(MemoryRunStore):
        async def record_end(self, run: Any, last: Any) -> None:
            raise RunHandedOver

    spans: Kept = []
    tracing = RunTracer(spans.extend)

    await run_to_end(answer, engine=Engine(tracer=tracing, store=Leaving()))
    await tracing.close()

    assert spans == []


async def test_spans_are_made_in_a_thread_after_the_end_was_told() -> None:
    threads: list[str] = []
    tracing = RunTracer(lambda spans: threads.append(threading.current_thread().name), delay=60)

    run = await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing))
    assert (run.is_finished, threads) == (True, [])
    await tracing.flush()

    assert threads == [threading.current_thread().name]  # Made elsewhere, they are handed on here.
    await tracing.close()


async def test_without_being_asked_they_come_soon() -> None:
    came: asyncio.Queue[Sequence[Span]] = asyncio.Queue()
    tracing = RunTracer(came.put_nowait)

    await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing))
    async with asyncio.timeout(10):
        [span] = await came.get()

    assert span.workflow == "answer"
    await tracing.close()
    await tracing.close()


async def test_runs_that_end_meanwhile_are_next() -> None:
    spans: Kept = []
    tracing = RunTracer(spans.extend, delay=0)
    engine = Engine(tracer=tracing)

    for _ in range(20):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert len(spans) == 20


async def test_where_too_much_waits_spans_are_dropped_and_no_run_waits(caplog: pytest.LogCaptureFixture) -> None:
    spans: Kept = []
    tracing = RunTracer(spans.extend, delay=60, max_pending=2)
    engine = Engine(tracer=tracing)

    for _ in range(5):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert (len(spans), tracing.dropped) == (2, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "Runs end faster than their traces can be kept: some are dropped."
    ]


async def test_events_that_wait_are_bounded_too_but_one_run_is_always_taken() -> None:
    spans: Kept = []
    tracing = RunTracer(spans.extend, delay=60, max_pending_events=3)
    engine = Engine(tracer=tracing)

    for _ in range(2):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert (len(spans), tracing.dropped) == (1, 1)


async def test_a_sink_that_raises_costs_its_spans_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    spans: Kept = []

    def picky(given: Sequence[Span]) -> None:
        if not tracing.dropped:
            raise ValueError("not these")
        spans.extend(given)

    tracing = RunTracer(picky)
    engine = Engine(tracer=tracing)
    await run_to_end(answer, QUESTION, engine=engine)
    await tracing.flush()
    await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert (len(spans), tracing.dropped) == (1, 1)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_run_that_cannot_be_read_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from palaver.traces import run_spans

    made = run_spans.build_run_spans
    numbers = count()

    def fragile(facts: Any, content: Any) -> list[Span]:
        if next(numbers) == 0:
            raise RuntimeError("a mistake")
        return made(facts, content)

    monkeypatch.setattr(run_spans, "build_run_spans", fragile)
    spans: Kept = []
    tracing = RunTracer(spans.extend, delay=60)
    engine = Engine(tracer=tracing)
    for _ in range(2):
        await run_to_end(answer, QUESTION, engine=engine)
    await tracing.close()

    assert len(spans) == 1
    assert [record.getMessage() for record in caplog.records] == ["The spans of a run could not be made"]


# OpenTelemetry


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An author's own, of a provider that is the process's."""
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield provider.get_tracer("shop")
    provider.shutdown()


async def test_an_authors_own_spans_nest_under_the_run(tracer: Any) -> None:
    @chat
    async def looks(messages: Any) -> AsyncIterator[str]:
        kind = {"openinference.span.kind": "RETRIEVER"}
        with tracer.start_as_current_span("look", attributes=kind), tracer.start_as_current_span("inside"):
            pass
        yield "Found."

    spans = {span.name: span for span in await traced(looks, QUESTION, session="s-1")}
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
async def test_a_tool_that_an_instrumentation_tells_of_is_one_span(tracer: Any, attributes: Any) -> None:
    @chat
    async def looks(messages: Any) -> AsyncIterator[Any]:
        yield ToolCall("c1", "look", "{}")
        with tracer.start_as_current_span("their look", attributes=attributes):
            pass
        yield ToolResult("c1", "seen")

    spans = await traced(looks, QUESTION)

    assert sorted(span.name for span in spans) == ["invoke_workflow looks", "their look"]


async def test_so_do_those_of_sync_code_in_its_thread(tracer: Any) -> None:
    @chat
    def looks(messages: Any) -> str:
        with tracer.start_as_current_span("look"):
            return "Found."

    spans = {span.name: span for span in await traced(looks, QUESTION)}

    assert spans["look"].parent_id == spans["invoke_workflow looks"].span_id


async def test_a_span_below_a_run_is_in_its_project_whatever_trace_a_caller_names(tracer: Any) -> None:
    spans: Kept = []
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


async def test_a_span_that_belongs_to_no_run_is_nobodys(tracer: Any) -> None:
    await traced(answer, QUESTION)
    spans: Kept = []
    tracing = RunTracer(spans.extend)

    with tracer.start_as_current_span("elsewhere"):
        await run_to_end(answer, QUESTION, engine=Engine(tracer=tracing))
    await tracing.close()

    assert [span.name for span in spans] == ["invoke_workflow answer"]


async def test_when_a_run_is_over_its_task_is_where_it_was(tracer: Any) -> None:
    from opentelemetry import trace

    engine = Engine(tracer=RunTracer(lambda _: None))
    run, producer = engine.open(answer, call(QUESTION))
    before = trace.get_current_span()

    await run.drive(producer)

    assert trace.get_current_span() is before


async def test_of_a_run_that_is_not_recorded_its_spans_are_not_either(tracer: Any) -> None:
    seen: list[int] = []

    @chat(record="off")
    async def looks(messages: Any) -> AsyncIterator[str]:
        with tracer.start_as_current_span("look") as span:
            seen.append(span.get_span_context().trace_id)
        yield "Found."

    spans: Kept = []
    tracing = RunTracer(spans.extend)
    run: Run = await run_to_end(looks, QUESTION, engine=Engine(tracer=tracing))
    await tracing.close()

    assert spans == []
    assert seen == [int(run.started.trace_id, 16)]  # They nest all the same: others may record them.


async def test_a_trace_that_is_no_number_does_no_harm(tracer: Any) -> None:
    [span] = await traced(answer, QUESTION, trace_parent="00-what-ever-01")

    assert span.trace_id == "what"


async def test_a_process_without_opentelemetry_has_its_traces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)

    [span] = await traced(answer, QUESTION)

    assert span.workflow == "answer"
