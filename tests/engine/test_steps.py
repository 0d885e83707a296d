"""Steps reported by frameworks: each becomes a span when it ends, and open steps end with the run."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from palaver import chat, workflow
from palaver.core import steps
from palaver.core.messages import Message, ToolCall, ToolResult, Usage
from palaver.core.runs import Secret
from palaver.core.steps import Step, StepDetails, StepError, StepListener
from palaver.engine import tracing as step_tracing
from palaver.engine.engine import Engine
from palaver.engine.tracing import RunTracer
from palaver.traces.model import Span, SpanException, Tool, ToolDefinition
from palaver.traces.run_facts import RunSpanContext
from tests.engine.run_factory import NOW, QUESTION, call, run_to_end
from tests.frameworks.span_trees import kinds, trace_cancelled_run, trace_run, tree

FRAMEWORK = ("house",)


def require_listener() -> StepListener:
    listener = steps.current_listener()
    assert listener is not None
    return listener


def chat_with_steps(*reports: Callable[[StepListener], None]) -> Any:
    """Return a chat that reports steps."""

    @chat
    async def teller(messages: list[Message]) -> str:
        for report in reports:
            report(require_listener())
        return "Done."

    return teller


def begin(kind: Any, name: str, **options: Any) -> Step:
    step = require_listener().begin(FRAMEWORK, kind, name, **options)
    assert step is not None
    return step


async def test_a_step_becomes_a_span_with_all_its_details() -> None:
    request_details = StepDetails(
        messages_in=[{"role": "user", "content": "2+2?"}], model="gpt-9", parameters={"temperature": 0}
    )
    response_details = StepDetails(
        messages_out=[{"role": "assistant", "content": "4"}],
        model="gpt-9-2026",
        provider="openai",
        usage=Usage(3, 1, cost=0.5),
        finish="stop",
        tools=[{"name": "add", "parameters": {"type": "object"}}],
    )

    def report_steps(listener: StepListener) -> None:
        step = listener.begin(FRAMEWORK, "llm", "gpt", details=lambda: request_details)
        assert step is not None
        step.end(lambda: response_details)

    root, span = await trace_run(chat_with_steps(report_steps))

    assert span.parent_id == root.span_id
    assert (span.name, span.kind, span.status) == ("chat gpt-9-2026", "llm", "ok")
    assert (span.messages_in, span.messages_out) == ((Message.user("2+2?"),), (Message.assistant("4"),))
    assert (span.model, span.provider, span.finish) == ("gpt-9-2026", "openai", "stop")
    assert (span.parameters, span.tools) == (
        {"temperature": 0},
        (ToolDefinition("add", parameters={"type": "object"}),),
    )
    assert (span.usage, span.cost, span.cost_source) == (Usage(3, 1), 0.5, "reported")
    assert (span.service, span.scope, span.conventions) == ("palaver", "palaver", ("palaver", "gen_ai"))
    assert (span.run_id, span.session, span.notes) == (root.run_id, root.session, ())


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [
        ("agent", "Ann", "invoke_agent Ann"),
        ("llm", "gpt", "chat gpt"),
        ("llm", "", "chat"),
        ("tool", "add", "execute_tool add"),
        ("retrieval", "shelf", "retrieval shelf"),
        ("embedding", "ada", "embeddings ada"),
        ("guardrail", "polite", "guardrail polite"),
        ("task", "node", "node"),
        ("task", "", "unnamed"),
    ],
)
async def test_each_step_kind_has_its_span_name(kind: Any, name: str, title: str) -> None:
    _, span = await trace_run(chat_with_steps(lambda _: begin(kind, name).end()))

    assert (span.name, span.kind) == (title, kind)


async def test_nested_steps_become_nested_spans() -> None:
    def report_steps(_: StepListener) -> None:
        outer = begin("task", "outer")
        begin("task", "first", parent=outer).end()
        second = begin("task", "second", parent=outer)
        begin("task", "inmost", parent=second).end()
        second.end()
        outer.end()
        begin("task", "after").end()

    assert tree(await trace_run(chat_with_steps(report_steps))) == [
        "invoke_workflow teller",
        ["outer", ["first", "second", ["inmost"]], "after"],
    ]


async def test_a_tool_reported_as_a_step_gets_no_second_span_from_its_events() -> None:
    @chat
    async def uses(messages: list[Message]) -> AsyncIterator[Any]:
        yield ToolCall("c1", "add", "{}")
        begin("tool", "add", call_id="c1", details=lambda: StepDetails(inputs="{}")).end(lambda: StepDetails(outputs=3))
        yield ToolResult("c1", 3)
        yield ToolCall("c2", "other", "{}")
        yield ToolResult("c2", 4)

    spans = await trace_run(uses)

    assert tree(spans) == ["invoke_workflow uses", ["execute_tool add", "execute_tool other"]]
    assert (spans[1].tool, spans[1].inputs, spans[1].outputs) == (Tool("add", "c1"), {}, 3)


async def test_a_failed_step_has_its_exception() -> None:
    def report_steps(_: StepListener) -> None:
        begin("tool", "raises").end(error=KeyError("x"))
        begin("tool", "refuses").end(error=StepError("tool_error", "no"))
        begin("tool", "rude").end(error=_Rude())
        begin("task", "left").end(error=GeneratorExit())

    spans = await trace_run(chat_with_steps(report_steps))

    assert [(span.status, span.exception) for span in spans[1:]] == [
        ("error", SpanException("KeyError", "'x'")),
        ("error", SpanException("tool_error", "no")),
        ("error", SpanException(f"{__name__}._Rude", "")),
        ("cancelled", None),
    ]


class _Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not telling")


async def test_an_open_step_of_a_cancelled_run_is_cancelled() -> None:
    started = asyncio.Event()

    @chat
    async def waits(messages: list[Message]) -> AsyncIterator[str]:
        begin("llm", "gpt", details=lambda: StepDetails(messages_out=[{"role": "assistant", "content": "On and"}]))
        yield "On and"
        started.set()
        await asyncio.Event().wait()

    spans = await trace_cancelled_run(waits, started)

    assert kinds(spans) == ["workflow invoke_workflow waits: cancelled", ["llm chat gpt: cancelled"]]
    assert (spans[1].messages_out, spans[1].finish) == ((Message.assistant("On and"),), "cancelled")


async def test_a_step_still_open_at_the_end_of_the_run_is_incomplete() -> None:
    def report_steps(_: StepListener) -> None:
        begin("task", "forgotten")

    spans = await trace_run(chat_with_steps(report_steps))

    assert kinds(spans) == ["workflow invoke_workflow teller: ok", ["task forgotten: incomplete"]]


async def test_steps_after_the_end_of_the_run_are_ignored() -> None:
    captured: list[Any] = []

    def report_steps(listener: StepListener) -> None:
        captured.extend((listener, begin("task", "late")))
        listener.memory["handler"] = object()

    spans = await trace_run(chat_with_steps(report_steps))
    listener, step = captured
    step.end(lambda: StepDetails(outputs="too late"))

    assert listener.begin(FRAMEWORK, "task", "later") is None
    assert (len(spans), spans[1].outputs, listener.memory) == (2, None, {})


async def test_only_the_first_end_of_a_step_is_recorded() -> None:
    def report_steps(_: StepListener) -> None:
        step = begin("task", "once")
        step.end(lambda: StepDetails(outputs=1))
        step.end(lambda: StepDetails(outputs=2), error=ValueError())

    spans = await trace_run(chat_with_steps(report_steps))

    assert [(span.outputs, span.status) for span in spans[1:]] == [(1, "ok")]


def test_without_opentelemetry_each_step_is_passed_on_once() -> None:
    factories: list[Any] = []
    context = RunSpanContext("a" * 32, "b" * 16, "default", "s-1", "run_1", call(QUESTION), "full")
    listener = step_tracing.StepRecorder(context, factories.append, lambda: NOW, max_steps=5)
    step = listener.begin(FRAMEWORK, "llm", "gpt", details=lambda: StepDetails(usage=Usage(3, 1)))
    assert step is not None

    step.end()
    listener.on_ended(step)
    listener.close("cancelled")

    assert [(span.span_id, span.parent_id, span.start, span.usage) for work in factories for span in work()] == [
        (factories[0]()[0].span_id, "b" * 16, NOW, Usage(3, 1))
    ]
    assert (len(factories), listener.tools, listener.is_cut) == (1, [], False)


async def test_steps_above_the_limit_are_left_out_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_tracing, "MAX_STEPS", 3)

    def report_steps(listener: StepListener) -> None:
        for number in range(5):
            if (step := listener.begin(FRAMEWORK, "task", str(number))) is not None:
                step.end()

    spans = await trace_run(chat_with_steps(report_steps))

    assert tree(spans) == ["invoke_workflow teller", ["0", "1", "2"]]
    assert spans[0].notes == ("cut:steps",)


async def test_output_too_long_for_an_attribute_is_stored_in_its_field_up_to_a_limit() -> None:
    long = "x" * 1_100_000

    def report_steps(_: StepListener) -> None:
        begin("task", "long").end(lambda: StepDetails(outputs=long, inputs={"a": 1}))
        begin("task", "longer").end(lambda: StepDetails(outputs=long * 3))

    _, stored, left_out = await trace_run(chat_with_steps(report_steps))

    assert (stored.outputs == long, stored.inputs, stored.notes) == (True, {"a": 1}, ("cut:palaver.value",))
    assert (left_out.outputs, left_out.notes, left_out.dropped) == (None, ("cut:palaver.value",), {"bytes": 3_300_002})


async def test_a_step_with_unreadable_details_is_recorded_with_a_note() -> None:
    def bad() -> StepDetails:
        raise RuntimeError("a mistake")

    def report_steps(_: StepListener) -> None:
        begin("task", "odd", details=lambda: StepDetails(inputs=1)).end(bad)
        begin("task", "mad").end(lambda: StepDetails(outputs=object()))

    _, odd, mad = await trace_run(chat_with_steps(report_steps))

    assert (odd.inputs, odd.outputs, odd.notes) == (1, None, ("unreadable:step",))
    assert (mad.status, mad.outputs, mad.notes) == ("ok", None, ("unwritable:palaver.value",))


async def test_secrets_of_the_caller_are_masked_in_steps() -> None:
    def report_steps(_: StepListener) -> None:
        begin("task", "t", details=lambda: StepDetails(inputs={"key": "open-sesame"})).end(
            error=ValueError("open-sesame!")
        )

    spans = await trace_run(chat_with_steps(report_steps), secrets={"k": Secret("open-sesame")})

    assert (spans[1].inputs, spans[1].exception) == ({"key": "***"}, SpanException("ValueError", "***!"))
    assert "sesame" not in repr(spans)


async def test_a_step_that_ends_in_another_thread_is_recorded() -> None:
    @workflow
    def sync() -> int:
        inside = threading.Thread(target=begin("task", "step").end)
        inside.start()
        inside.join()
        return 3

    assert tree(await trace_run(sync)) == ["invoke_workflow sync", ["step"]]


async def test_a_step_is_passed_on_when_it_ends_and_not_with_its_run() -> None:
    spans: list[Span] = []
    arrived = asyncio.Event()

    def sink(new_spans: Any) -> None:
        spans.extend(new_spans)
        arrived.set()

    tracing = RunTracer(sink)

    @chat
    async def long(messages: list[Message]) -> str:
        begin("task", "early").end()
        async with asyncio.timeout(60):
            await arrived.wait()
        return "Done."

    await run_to_end(long, QUESTION, engine=Engine(tracer=tracing))
    await tracing.close()

    assert [span.name for span in spans] == ["early", "invoke_workflow long"]


async def test_there_is_no_step_listener_without_tracing() -> None:
    seen: list[object] = []

    @chat
    async def looks(messages: list[Message]) -> str:
        seen.append(steps.current_listener())
        return "Hi."

    await run_to_end(looks, QUESTION)
    await trace_run(looks, record="off")

    assert seen == [None, None]
    assert steps.current_listener() is None


# Steps that an instrumentation reports too


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracer_provider)
    return tracer_provider


async def test_spans_of_an_instrumentation_of_the_same_framework_replace_its_steps(provider: TracerProvider) -> None:
    def report_steps(_: StepListener) -> None:
        with provider.get_tracer("opentelemetry.instrumentation.the-house").start_as_current_span("theirs"):
            begin("task", "ours").end()

    assert tree(await trace_run(chat_with_steps(report_steps))) == ["invoke_workflow teller", ["theirs"]]


async def test_spans_of_the_author_do_not_replace_steps(provider: TracerProvider) -> None:
    def report_steps(_: StepListener) -> None:
        with provider.get_tracer("mine").start_as_current_span("mine"):
            begin("task", "ours").end()

    assert tree(await trace_run(chat_with_steps(report_steps))) == ["invoke_workflow teller", ["mine", "ours"]]


async def test_a_model_call_reported_by_its_client_library_replaces_the_step(provider: TracerProvider) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 1}
    tracer = provider.get_tracer("opentelemetry.instrumentation.openai")

    def report_steps(_: StepListener) -> None:
        first = begin("llm", "gpt", details=lambda: StepDetails(usage=Usage(3, 1)))
        with tracer.start_as_current_span("chat theirs", attributes=attributes):
            pass
        first.end()
        begin("llm", "other", details=lambda: StepDetails(usage=Usage(5, 5))).end()

    spans = await trace_run(chat_with_steps(report_steps))

    assert tree(spans) == ["invoke_workflow teller", ["chat theirs", "chat other"]]
    assert [span.usage for span in spans[1:]] == [Usage(3, 1), Usage(5, 5)]


# Imports


def test_a_process_without_frameworks_loads_none_of_them() -> None:
    code = """
import asyncio, sys
from palaver import chat
from palaver.core.runs import Call
from palaver.core.messages import Message
from palaver.engine.engine import Engine
from palaver.engine.tracing import RunTracer

@chat
async def plain(messages):
    yield "Hi."

async def main():
    tracing = RunTracer(lambda spans: print(len(spans)))
    run = Engine(tracer=tracing).start(plain, Call(workflow="plain", messages=(Message.user("?"),)))
    await run.wait_ended()
    await tracing.close()

asyncio.run(main())
names = ("langchain_core", "agents", "pydantic_ai", "opentelemetry.sdk")
print([name for name in sys.modules if name.startswith(names) or name.endswith("_steps")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "1\n[]\n"
