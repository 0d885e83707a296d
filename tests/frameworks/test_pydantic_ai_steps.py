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
from palaver.traces.model import Raised
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
    left = list(responses)

    async def stream(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
        for piece in left.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return FunctionModel(stream_function=stream, model_name="gpt-9")


def calling(*made: tuple[str, int], name: str = "double") -> list[Any]:
    return [
        {
            index: DeltaToolCall(name=name, json_args=f'{{"x":{x}}}', tool_call_id=call_id)
            for index, (call_id, x) in enumerate(made)
        }
    ]


def agent(*responses: list[Any], **given: Any) -> Agent[Any, Any]:
    return Agent(scripted(*responses), **{"tools": [Tool(double), Tool(broken)], "name": "Maths", **given})


async def test_an_agent_that_uses_a_tool_is_a_tree_of_what_it_did() -> None:
    settings: Any = {"temperature": 0.2, "extra_headers": {"x-key": "hidden"}}
    spans = await trace_run(
        chat(agent(calling(("c1", 2)), ["It is", " 4."], instructions="Be kind.", model_settings=settings))
    )
    _, complete, first, tool, second = spans

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: ok",
        ["agent invoke_agent Maths: ok", ["llm chat gpt-9: ok", "tool execute_tool double: ok", "llm chat gpt-9: ok"]],
    ]
    assert words(first.messages_in) == ["system: Be kind.", "user: Well?"]
    assert words(first.messages_out) == ['assistant: double{"x":2}#c1']
    assert words(second.messages_in)[2:] == ['assistant: double{"x":2}#c1', "tool: 4#c1"]
    assert words(second.messages_out) == ["assistant: It is 4."]
    assert words(complete.messages_in) == ["user: Well?"]
    assert words(complete.messages_out) == ['assistant: double{"x":2}#c1', "tool: 4#c1", "assistant: It is 4."]
    assert (first.model, first.provider, first.parameters) == ("gpt-9", "function", {"temperature": 0.2})
    assert [one.name for one in first.tools] == ["double", "broken"]
    assert (tool.tool, tool.inputs, tool.outputs) == (Ran(name="double", call_id="c1"), {"x": 2}, 4)
    assert "hidden" not in repr(spans)


async def test_what_was_spent_is_in_the_models_calls_and_sums_up_to_the_runs() -> None:
    spans = await trace_run(chat(agent(calling(("c1", 2)), ["4"])))

    output = [span.usage for span in spans if span.kind == "llm" and span.usage is not None]
    assert len(output) == 2
    assert output[0] + output[1] == spans[0].usage
    assert [span.usage for span in spans if span.kind in ("agent", "tool")] == [None, None]


async def test_tools_that_run_at_once_stand_beside_each_other_each_with_its_call() -> None:
    spans = await trace_run(chat(agent(calling(("c1", 2), ("c2", -3)), ["So."])))

    assert tree(spans)[1][1] == ["chat gpt-9", "execute_tool double", "execute_tool double", "chat gpt-9"]
    assert sorted((span.tool.call_id, span.status, span.exception) for span in spans if span.tool) == [
        ("c1", "ok", None),
        ("c2", "error", Raised("tool_error", "not below zero")),
    ]


async def test_what_fails_says_how_and_the_agent_fails_with_it() -> None:
    spans = await trace_run(chat(agent(calling(("c1", 2), name="broken"))))

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: error",
        ["agent invoke_agent Maths: error", ["llm chat gpt-9: ok", "tool execute_tool broken: error"]],
    ]
    assert spans[-1].exception == Raised("ValueError", "2 is too much")


async def test_a_model_that_fails_leaves_what_it_was_asked() -> None:
    spans = await trace_run(chat(agent([ConnectionError("gone")])))

    assert kinds(spans)[1][1] == ["llm chat gpt-9: error"]
    assert (spans[2].exception, words(spans[2].messages_in)) == (Raised("ConnectionError", "gone"), ["user: Well?"])


async def test_a_run_that_is_stopped_closes_what_was_open() -> None:
    begun = asyncio.Event()

    async def wait(x: int) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    spans = await trace_cancelled_run(chat(agent(calling(("c1", 1), name="wait"), tools=[Tool(wait)])), begun)

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: cancelled",
        ["agent invoke_agent Maths: cancelled", ["llm chat gpt-9: ok", "tool execute_tool wait: cancelled"]],
    ]


async def test_metadata_are_who_did_what_and_nothing_that_was_said() -> None:
    helper = agent(calling(("c1", -2)), ["It is 4."], instructions="Be kind.")
    spans = await trace_run(chat(helper), record="metadata")

    assert len(spans) == 5
    for span in spans:
        assert (span.messages_in, span.messages_out, span.inputs, span.outputs) == ((), (), None, None)
        assert (span.parameters, span.tools, span.status_message) == ({}, (), "")
    assert all(isinstance(span.usage, Usage) for span in spans if span.kind == "llm")
    assert "kind." not in repr(spans)


async def test_a_tool_that_waits_for_approval_has_not_failed() -> None:
    async def delete(ctx: RunContext[None], x: int) -> str:
        return "gone"

    helper = agent(
        calling(("c1", 1), name="delete"),
        tools=[Tool(delete, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
    )
    spans = await trace_run(chat(helper))

    assert {span.status for span in spans} == {"ok"}


async def test_a_tool_that_gives_up_or_is_skipped_says_what_the_model_was_told() -> None:
    async def gives_up(x: int) -> str:
        raise ToolFailed("out of order")

    hooks = Hooks[Any]()

    @hooks.on.before_tool_execute(tools=["double"])
    async def skip(ctx: Any, /, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise SkipToolExecution("skipped")

    both = [*calling(("c1", 1), name="gives_up"), *calling(("c2", 1))]
    helper = agent(both[:1], both[1:], ["So."], tools=[Tool(gives_up), Tool(double)], capabilities=[hooks])
    spans = await trace_run(chat(helper))

    assert [(span.name, span.status, span.exception) for span in spans if span.tool] == [
        ("execute_tool gives_up", "error", Raised("tool_error", "out of order")),
        ("execute_tool double", "ok", None),
    ]


async def test_a_model_that_is_refused_before_it_streams_says_how() -> None:
    hooks = Hooks[Any]()

    @hooks.on.before_model_request
    async def refuse(ctx: Any, request_context: Any, /) -> Any:
        raise PermissionError("not today")

    spans = await trace_run(chat(agent(["never"], capabilities=[hooks])))

    assert (spans[2].status, spans[2].exception) == ("error", Raised("PermissionError", "not today"))


class Weather(BaseModel):
    """An answer with a shape."""

    city: str


async def test_an_answer_with_a_shape_is_what_the_agent_came_to() -> None:
    created = [{0: DeltaToolCall(name="final_result", json_args='{"city":"Oslo"}', tool_call_id="c1")}]
    spans = await trace_run(chat(agent(created, output_type=Weather)))

    assert spans[1].outputs == {"city": "Oslo"}
    assert "final_result" in [one.name for one in spans[2].tools]


async def test_an_authors_own_instrumentation_is_shown_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    settings = InstrumentationSettings(tracer_provider=provider)
    spans = await trace_run(chat(agent(calling(("c1", 2)), ["4"], capabilities=[Instrumentation(settings=settings)])))

    assert tree(spans) == [
        "invoke_workflow Maths",
        ["invoke_agent Maths", ["chat gpt-9", "execute_tool double", "chat gpt-9"]],
    ]
    assert {span.scope for span in spans[1:]} == {"pydantic-ai"}


async def test_one_that_goes_elsewhere_does_not_count() -> None:
    settings = InstrumentationSettings(tracer_provider=TracerProvider(shutdown_on_exit=False))
    spans = await trace_run(chat(agent(["4"], capabilities=[Instrumentation(settings=settings)])))

    assert tree(spans) == ["invoke_workflow Maths", ["invoke_agent Maths", ["chat gpt-9"]]]
    assert {span.scope for span in spans} == {"palaver"}
