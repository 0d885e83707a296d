"""Steps reported by Pydantic AI, with real agents and the framework's own test models."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, Tool, models
from pydantic_ai.capabilities import Hooks, Instrumentation
from pydantic_ai.exceptions import SkipToolExecution, ToolFailed
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from palaver import chat
from palaver.core.messages import Usage
from palaver.traces.model import SpanException
from palaver.traces.model import Tool as Ran
from tests.frameworks.span_trees import kinds, trace_cancelled_run, trace_run, tree, words


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    before, models.ALLOW_MODEL_REQUESTS = models.ALLOW_MODEL_REQUESTS, False
    yield
    models.ALLOW_MODEL_REQUESTS = before


async def double(x: int) -> int:
    """Twice as much."""
    if x < 0:
        raise ModelRetry("not below zero")
    return 2 * x


async def broken(x: int) -> int:
    """Fails."""
    raise ValueError(f"{x} is too much")


def scripted(*responses: list[Any]) -> FunctionModel:
    """A model that streams these pieces, one list for each request."""
    remaining = list(responses)

    async def stream(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
        for piece in remaining.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return FunctionModel(stream_function=stream, model_name="gpt-9")


def tool_call_response(*id_argument_pairs: tuple[str, int], name: str = "double") -> list[Any]:
    return [
        {
            index: DeltaToolCall(name=name, json_args=f'{{"x":{x}}}', tool_call_id=call_id)
            for index, (call_id, x) in enumerate(id_argument_pairs)
        }
    ]


def agent(*responses: list[Any], **options: Any) -> Agent[Any, Any]:
    return Agent(scripted(*responses), **{"tools": [Tool(double), Tool(broken)], "name": "Maths", **options})


async def test_an_agent_with_a_tool_is_recorded_as_a_tree_of_spans() -> None:
    settings: Any = {"temperature": 0.2, "extra_headers": {"x-key": "hidden"}}
    spans = await trace_run(
        chat(agent(tool_call_response(("c1", 2)), ["It is", " 4."], instructions="Be kind.", model_settings=settings))
    )
    _, agent_span, first, tool_span, second = spans

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: ok",
        ["agent invoke_agent Maths: ok", ["llm chat gpt-9: ok", "tool execute_tool double: ok", "llm chat gpt-9: ok"]],
    ]
    assert words(first.messages_in) == ["system: Be kind.", "user: Well?"]
    assert words(first.messages_out) == ['assistant: double{"x":2}#c1']
    assert words(second.messages_in)[2:] == ['assistant: double{"x":2}#c1', "tool: 4#c1"]
    assert words(second.messages_out) == ["assistant: It is 4."]
    assert words(agent_span.messages_in) == ["user: Well?"]
    assert words(agent_span.messages_out) == ['assistant: double{"x":2}#c1', "tool: 4#c1", "assistant: It is 4."]
    assert (first.model, first.provider, first.parameters) == ("gpt-9", "function", {"temperature": 0.2})
    assert [one.name for one in first.tools] == ["double", "broken"]
    assert (tool_span.tool, tool_span.inputs, tool_span.outputs) == (Ran(name="double", call_id="c1"), {"x": 2}, 4)
    assert "hidden" not in repr(spans)


async def test_usage_of_the_model_spans_sums_up_to_the_usage_of_the_run() -> None:
    spans = await trace_run(chat(agent(tool_call_response(("c1", 2)), ["4"])))

    usages = [span.usage for span in spans if span.kind == "llm" and span.usage is not None]
    assert len(usages) == 2
    assert usages[0] + usages[1] == spans[0].usage
    assert [span.usage for span in spans if span.kind in ("agent", "tool")] == [None, None]


async def test_parallel_tools_are_recorded_as_siblings_with_their_call_ids() -> None:
    spans = await trace_run(chat(agent(tool_call_response(("c1", 2), ("c2", -3)), ["So."])))

    assert tree(spans)[1][1] == ["chat gpt-9", "execute_tool double", "execute_tool double", "chat gpt-9"]
    assert sorted((span.tool.call_id, span.status, span.exception) for span in spans if span.tool) == [
        ("c1", "ok", None),
        ("c2", "error", SpanException("tool_error", "not below zero")),
    ]


async def test_a_failed_tool_records_its_exception_and_the_agent_fails() -> None:
    spans = await trace_run(chat(agent(tool_call_response(("c1", 2), name="broken"))))

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: error",
        ["agent invoke_agent Maths: error", ["llm chat gpt-9: ok", "tool execute_tool broken: error"]],
    ]
    assert spans[-1].exception == SpanException("ValueError", "2 is too much")


async def test_a_failed_model_call_records_its_input_messages() -> None:
    spans = await trace_run(chat(agent([ConnectionError("gone")])))

    assert kinds(spans)[1][1] == ["llm chat gpt-9: error"]
    assert (spans[2].exception, words(spans[2].messages_in)) == (
        SpanException("ConnectionError", "gone"),
        ["user: Well?"],
    )


async def test_cancelling_a_run_ends_its_open_spans_as_cancelled() -> None:
    tool_started = asyncio.Event()

    async def wait(x: int) -> str:
        tool_started.set()
        await asyncio.Event().wait()
        return "never"

    spans = await trace_cancelled_run(
        chat(agent(tool_call_response(("c1", 1), name="wait"), tools=[Tool(wait)])), tool_started
    )

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: cancelled",
        ["agent invoke_agent Maths: cancelled", ["llm chat gpt-9: ok", "tool execute_tool wait: cancelled"]],
    ]


async def test_metadata_recording_leaves_out_all_content() -> None:
    helper = agent(tool_call_response(("c1", -2)), ["It is 4."], instructions="Be kind.")
    spans = await trace_run(chat(helper), record="metadata")

    assert len(spans) == 5
    for span in spans:
        assert (span.messages_in, span.messages_out, span.inputs, span.outputs) == ((), (), None, None)
        assert (span.parameters, span.tools, span.status_message) == ({}, (), "")
    assert all(isinstance(span.usage, Usage) for span in spans if span.kind == "llm")
    assert "kind." not in repr(spans)


async def test_a_tool_that_waits_for_approval_is_recorded_as_ok() -> None:
    async def delete(ctx: RunContext[None], x: int) -> str:
        return "gone"

    helper = agent(
        tool_call_response(("c1", 1), name="delete"),
        tools=[Tool(delete, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
    )
    spans = await trace_run(chat(helper))

    assert {span.status for span in spans} == {"ok"}


async def test_a_failed_tool_is_recorded_as_an_error_and_a_skipped_tool_as_ok() -> None:
    async def gives_up(x: int) -> str:
        raise ToolFailed("out of order")

    hooks = Hooks[Any]()

    @hooks.on.before_tool_execute(tools=["double"])
    async def skip(ctx: Any, /, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise SkipToolExecution("skipped")

    both = [*tool_call_response(("c1", 1), name="gives_up"), *tool_call_response(("c2", 1))]
    helper = agent(both[:1], both[1:], ["So."], tools=[Tool(gives_up), Tool(double)], capabilities=[hooks])
    spans = await trace_run(chat(helper))

    assert [(span.name, span.status, span.exception) for span in spans if span.tool] == [
        ("execute_tool gives_up", "error", SpanException("tool_error", "out of order")),
        ("execute_tool double", "ok", None),
    ]


async def test_a_model_request_refused_by_a_hook_records_the_exception() -> None:
    hooks = Hooks[Any]()

    @hooks.on.before_model_request
    async def refuse(ctx: Any, request_context: Any, /) -> Any:
        raise PermissionError("not today")

    spans = await trace_run(chat(agent(["never"], capabilities=[hooks])))

    assert (spans[2].status, spans[2].exception) == ("error", SpanException("PermissionError", "not today"))


class Weather(BaseModel):
    """A structured answer."""

    city: str


async def test_structured_output_is_the_output_of_the_agent_span() -> None:
    response = [{0: DeltaToolCall(name="final_result", json_args='{"city":"Oslo"}', tool_call_id="c1")}]
    spans = await trace_run(chat(agent(response, output_type=Weather)))

    assert spans[1].outputs == {"city": "Oslo"}
    assert "final_result" in [one.name for one in spans[2].tools]


async def test_spans_of_the_frameworks_instrumentation_replace_palavers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    settings = InstrumentationSettings(tracer_provider=provider)
    spans = await trace_run(
        chat(agent(tool_call_response(("c1", 2)), ["4"], capabilities=[Instrumentation(settings=settings)]))
    )

    assert tree(spans) == [
        "invoke_workflow Maths",
        ["invoke_agent Maths", ["chat gpt-9", "execute_tool double", "chat gpt-9"]],
    ]
    assert {span.scope for span in spans[1:]} == {"pydantic-ai"}


async def test_instrumentation_with_another_tracer_provider_is_ignored() -> None:
    settings = InstrumentationSettings(tracer_provider=TracerProvider(shutdown_on_exit=False))
    spans = await trace_run(chat(agent(["4"], capabilities=[Instrumentation(settings=settings)])))

    assert tree(spans) == ["invoke_workflow Maths", ["invoke_agent Maths", ["chat gpt-9"]]]
    assert {span.scope for span in spans} == {"palaver"}
