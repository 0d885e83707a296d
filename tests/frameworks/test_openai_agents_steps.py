"""Steps reported by the OpenAI Agents SDK, with real agents, tools, handoffs and guardrails."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import msgspec
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    custom_span,
    function_tool,
    generation_span,
    input_guardrail,
    mcp_tools_span,
    output_guardrail,
    set_trace_processors,
    set_tracing_disabled,
    speech_group_span,
    trace,
)
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.tracing import Span, Trace, TracingProcessor, get_trace_provider, response_span, set_trace_provider
from agents.tracing.provider import DefaultTraceProvider
from agents.usage import Usage as SdkUsage
from openai import AsyncOpenAI

from palaver import Message, chat
from palaver.core.messages import Usage
from palaver.frameworks import base
from palaver.frameworks.openai_agents import steps
from palaver.testing import client, scripted
from palaver.traces.model import SpanException, Tool
from tests.frameworks.span_trees import kinds, trace_cancelled_run, trace_run, tree, words


class Exporter(TracingProcessor):
    """A trace processor of the workflow's author, which records what it would export."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.heard.append(trace.name)

    def on_trace_end(self, trace: Trace) -> None: ...

    def on_span_start(self, span: Span[Any]) -> None:
        self.heard.append(span.span_data.type)

    def on_span_end(self, span: Span[Any]) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@pytest.fixture(autouse=True)
def exporter() -> Iterator[Exporter]:
    """The SDK's default trace provider, without an exporter that leaves the process."""
    base.install_step_listeners()  # Otherwise the first test would add the listener twice.
    before, trace_provider, exporter = get_trace_provider(), DefaultTraceProvider(), Exporter()
    trace_provider.register_processor(exporter)
    set_trace_provider(trace_provider)
    trace_provider.register_processor(steps._PROCESSOR)  # As `listen` does.
    yield exporter
    set_trace_provider(before)


@function_tool
def double(x: int) -> int:
    """Twice as much."""
    if x < 0:
        raise ValueError("negative")
    return 2 * x


def sdk_usage(input_tokens: int, output_tokens: int) -> SdkUsage:
    return SdkUsage(
        requests=1, input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )


def tool_call_step(*id_argument_pairs: tuple[str, int], usage: SdkUsage | None = None) -> ModelStep:
    calls = [function_call("double", {"x": x}, call_id=call_id) for call_id, x in id_argument_pairs]
    return ModelStep(output=calls, usage=usage or sdk_usage(3, 4))


def text_step(text: str) -> ModelStep:
    return ModelStep(output=[assistant_message(text)], usage=sdk_usage(5, 6))


def agent(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(**{"name": "Maths", "model": ScriptedModel(steps), "tools": [double], **options})


async def test_an_agent_with_a_tool_is_recorded_as_a_tree_of_spans() -> None:
    settings = ModelSettings(temperature=0.2, extra_headers={"x-key": "hidden"})
    spans = await trace_run(
        chat(agent(tool_call_step(("c1", 2)), text_step("It is 4."), instructions="Be kind.", model_settings=settings))
    )
    _, _, first, tool, second = spans

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: ok",
        ["agent invoke_agent Maths: ok", ["llm chat: ok", "tool execute_tool double: ok", "llm chat: ok"]],
    ]
    assert words(first.messages_in) == ["system: Be kind.", "user: Well?"]
    assert words(first.messages_out) == ['assistant: double{"x":2}#c1']
    assert words(second.messages_in)[2:] == [words(first.messages_out)[0], "tool: 4#c1"]
    assert words(second.messages_out) == ["assistant: It is 4."]
    assert (first.usage, second.usage) == (Usage(3, 4), Usage(5, 6))
    assert first.parameters == {"temperature": 0.2}
    assert (tool.tool, tool.inputs, tool.outputs) == (Tool(name="double", call_id="c1"), {"x": 2}, 4)
    assert "hidden" not in repr(spans)


async def test_usage_of_the_model_spans_sums_up_to_the_usage_of_the_run() -> None:
    spans = await trace_run(chat(agent(tool_call_step(("c1", 2)), text_step("4"))))

    usages = [span.usage for span in spans if span.kind == "llm" and span.usage is not None]
    assert sum(usages[1:], usages[0]) == spans[0].usage == Usage(8, 10)
    assert [span.usage for span in spans if span.kind not in ("llm", "workflow")] == [None, None]


async def test_parallel_tools_are_recorded_as_siblings_with_their_call_ids() -> None:
    spans = await trace_run(chat(agent(tool_call_step(("c1", 2), ("c2", -3)), text_step("So."))))

    assert sorted((span.tool.call_id, span.inputs["x"], span.status) for span in spans if span.tool) == [
        ("c1", 2, "ok"),
        ("c2", -3, "error"),
    ]
    assert tree(spans)[1][1] == ["chat", "execute_tool double", "execute_tool double", "chat"]


async def test_a_handoff_is_recorded_between_the_spans_of_both_agents() -> None:
    poet = agent(text_step("Roses."), name="Poet", tools=[])
    clerk = agent(
        ModelStep(output=[function_call("transfer_to_poet", {}, call_id="c1")], usage=sdk_usage(1, 1)), handoffs=[poet]
    )
    spans = await trace_run(chat(clerk))

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: ok",
        [
            "agent invoke_agent Maths: ok",
            ["llm chat: ok", "task handoff to Poet: ok"],
            "agent invoke_agent Poet: ok",
            ["llm chat: ok"],
        ],
    ]
    assert [span.outputs for span in spans if span.kind == "task"] == [{"from": "Maths", "to": "Poet"}]


@input_guardrail(run_in_parallel=False)
async def polite(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
async def no_answer(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info="secret reason", tripwire_triggered=True)


async def test_guardrail_spans_record_whether_they_were_triggered() -> None:
    spans = await trace_run(chat(agent(text_step("Hi."), input_guardrails=[polite], output_guardrails=[no_answer])))

    rendered = {span.name: span.outputs for span in spans if span.kind == "guardrail"}
    assert rendered == {"guardrail polite": {"triggered": False}, "guardrail no_answer": {"triggered": True}}
    assert spans[0].status == "error"


async def test_a_failed_model_call_records_its_exception() -> None:
    spans = await trace_run(chat(agent(ConnectionError("gone"))))

    assert kinds(spans)[1][1] == ["llm chat: error"]
    assert spans[2].exception == SpanException("ConnectionError", "gone")
    assert words(spans[2].messages_in) == ["user: Well?"]


async def test_cancelling_a_run_ends_its_open_spans_as_cancelled() -> None:
    tool_started = asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Takes for ever."""
        tool_started.set()
        await asyncio.Event().wait()
        return "never"

    step = ModelStep(output=[function_call("wait", {}, call_id="c1")], usage=sdk_usage(1, 1))
    spans = await trace_cancelled_run(chat(agent(step, tools=[wait])), tool_started)

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: cancelled",
        ["agent invoke_agent Maths: cancelled", ["llm chat: ok", "tool execute_tool wait: cancelled"]],
    ]
    assert spans[-1].tool == Tool(name="wait", call_id="c1")


async def test_metadata_recording_leaves_out_all_content() -> None:
    spans = await trace_run(
        chat(agent(tool_call_step(("c1", -2)), text_step("It is 4."), instructions="Be kind.")), record="metadata"
    )

    assert len(spans) == 5
    for span in spans:
        assert (span.messages_in, span.messages_out, span.inputs, span.outputs) == ((), (), None, None)
        assert (span.parameters, span.status_message) == ({}, "")
    assert [span.usage for span in spans if span.kind == "llm"] == [Usage(3, 4), Usage(5, 6)]
    assert [span.exception for span in spans if span.tool] == [SpanException("tool_error", "")]


@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
async def test_spans_of_the_sdks_openai_models_have_messages_and_parameters(kind: Any) -> None:
    script = [{"text": "Let me see."}, {"tool_call": {"id": "c1", "name": "double", "arguments": {"x": 1}}}]
    question = msgspec.json.encode(script).decode()
    async with client(scripted) as http:
        api = AsyncOpenAI(api_key="none", base_url="http://localhost/scripted/v1", http_client=cast("Any", http))
        model = kind("scripted", api)
        settings = ModelSettings(temperature=0.5)
        helper = agent(model=model, tool_use_behavior="stop_on_first_tool", model_settings=settings)
        spans = await trace_run(chat(helper), Message.user(question))

    _, _, model_span, tool_span = spans
    assert (model_span.name, model_span.status, model_span.model) == ("chat scripted", "ok", "scripted")
    assert words(model_span.messages_in) == [f"user: {question}"]
    assert words(model_span.messages_out) == ['assistant: Let me see. double{"x":1}#c1']
    assert model_span.parameters["temperature"] == 0.5
    assert (tool_span.inputs, tool_span.outputs) == ({"x": 1}, 2)


async def test_a_model_with_empty_sdk_spans_is_recorded_through_hooks() -> None:
    model = ScriptedModel([text_step("Hi."), ConnectionError("gone")], emit_traces=True)
    first = await trace_run(chat(agent(model=model)))
    second = await trace_run(chat(agent(model=model)))

    assert (words(first[2].messages_out), first[2].usage) == (["assistant: Hi."], Usage(5, 6))
    assert (len(first), len(second)) == (3, 3)
    assert (second[2].status, second[2].exception) == ("error", SpanException("ConnectionError", "gone"))


async def test_an_error_in_a_hook_does_not_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(*_: Any) -> Any:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(steps, "request_details", bad)
    spans = await trace_run(chat(agent(tool_call_step(("c1", 2)), text_step("4"))))

    assert tree(spans) == ["invoke_workflow Maths", ["invoke_agent Maths", ["execute_tool double"]]]
    assert words(spans[0].messages_out)[-1] == "assistant: 4"


async def test_spans_that_never_end_are_recorded_as_incomplete_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_MAX_OPEN_SPANS", 2)

    @chat
    async def careless(messages: list[Message]) -> str:
        with trace("mine"):
            for _ in range(5):
                custom_span("open", {}).start()
        return "Done."

    spans = await trace_run(careless)

    assert kinds(spans) == ["workflow invoke_workflow careless: ok", ["task open: incomplete"] * 5]
    assert len(steps._PROCESSOR._open) <= 2
    steps._PROCESSOR._open.clear()


async def test_other_spans_of_the_sdk_are_recorded_with_their_data() -> None:
    @chat
    async def plain(messages: list[Message]) -> str:
        with trace("mine"):
            with mcp_tools_span("files") as listing:
                listing.span_data.result = ["read"]
            with speech_group_span("Hi"):
                pass
            with generation_span(
                [{"role": "user", "content": "Hi"}], model="gpt-9", model_config={"temperature": 1}
            ) as call:
                call.span_data.output = [{"role": "assistant", "content": "Ho"}]
                call.span_data.usage = {"input_tokens": 2, "output_tokens": 1}
            with response_span() as response:
                response.span_data.input = "Hi"
        return "Done."

    _, tools_span, speech, call, response = await trace_run(plain)

    assert (tools_span.name, tools_span.kind, tools_span.outputs) == ("list tools of files", "task", ["read"])
    assert (speech.name, speech.kind) == ("speech_group", "task")
    assert (call.name, words(call.messages_in), words(call.messages_out)) == (
        "chat gpt-9",
        ["user: Hi"],
        ["assistant: Ho"],
    )
    assert (call.usage, call.parameters) == (Usage(2, 1), {"temperature": 1})
    assert (response.name, words(response.messages_in), response.usage) == ("chat", ["user: Hi"], None)


# Where spans are sent


async def test_spans_of_agents_run_by_palaver_are_not_exported_elsewhere(exporter: Exporter) -> None:
    spans = await trace_run(chat(agent(tool_call_step(("c1", 2)), text_step("4"))))

    assert (len(spans), exporter.heard) == (5, [])


async def test_nothing_is_recorded_or_exported_with_recording_off(exporter: Exporter) -> None:
    spans = await trace_run(chat(agent(text_step("4"))), record="off")

    assert (spans, exporter.heard) == ([], [])


async def test_spans_are_recorded_although_tracing_is_disabled_in_the_sdk(exporter: Exporter) -> None:
    await trace_run(chat(agent(text_step("4"))))  # Installs Palaver's provider, which passes settings on.
    set_tracing_disabled(True)
    try:
        spans = await trace_run(chat(agent(text_step("4"))))
    finally:
        set_tracing_disabled(False)

    assert tree(spans) == ["invoke_workflow Maths", ["invoke_agent Maths", ["chat"]]]
    assert exporter.heard == []


async def test_spans_of_an_agent_run_inside_a_function_are_recorded_and_exported(exporter: Exporter) -> None:
    @chat
    async def plain(messages: list[Message]) -> str:
        with trace("mine"), custom_span("thinking", {"about": "tea"}):
            model = ScriptedModel([tool_call_step(("c1", 2)), text_step("4")], emit_traces=True)
            result = await Runner.run(agent(model=model), "Well?")
        return str(result.final_output)

    spans = await trace_run(plain)

    assert tree(spans) == [
        "invoke_workflow plain",
        ["thinking", ["invoke_agent Maths", ["chat", "execute_tool double", "chat"]]],
    ]
    assert spans[1].inputs == {"about": "tea"}
    assert {"mine", "custom", "agent", "generation", "function"} <= set(exporter.heard)


async def test_trace_processors_can_still_be_replaced() -> None:
    await trace_run(chat(agent(text_step("4"))))
    other = Exporter()
    set_trace_processors([other])

    @chat
    async def plain(messages: list[Message]) -> AsyncIterator[str]:
        result = await Runner.run(agent(text_step("4")), "?", run_config=RunConfig(workflow_name="theirs"))
        yield str(result.final_output)

    await trace_run(plain)

    assert "theirs" in other.heard


async def test_palavers_trace_provider_delegates_to_the_original_provider() -> None:
    await trace_run(chat(agent(text_step("4"))))
    provider = get_trace_provider()

    assert (provider.get_current_trace(), provider.get_current_span()) == (None, None)
    assert provider.time_iso() > "2026"
    assert [provider.gen_trace_id()[:6], provider.gen_span_id()[:5], provider.gen_group_id()[:6]] == [
        "trace_",
        "span_",
        "group_",
    ]
    provider.register_processor(other := Exporter())
    provider.force_flush()
    with trace("mine"):
        pass
    provider.shutdown()

    assert other.heard == ["mine"]


async def test_spans_outside_of_a_run_are_exported_but_not_recorded(exporter: Exporter) -> None:
    result = await Runner.run(agent(text_step("4")), "?")

    assert (result.final_output, steps._PROCESSOR._open) == ("4", {})
    assert "agent" in exporter.heard


def test_a_step_listener_that_cannot_be_imported_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener_modules = {"json": "palaver.no_such_module", "no_such_package": "palaver.no_such_module"}
    monkeypatch.setattr(base, "_listener_modules", listener_modules)

    base.install_step_listeners()
    base.install_step_listeners()

    assert list(listener_modules) == ["no_such_package"]
    assert caplog.messages == ["Cannot record the steps of json"]
