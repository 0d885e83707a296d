"""Steps reported by LangChain and LangGraph, with real graphs, agents, chains, retrievers and models."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from palaver import Message, chat, workflow
from palaver.core.messages import Usage
from palaver.core.runs import Secret
from palaver.frameworks.langchain import steps
from palaver.traces.model import SpanException, Tool
from tests.engine.run_factory import wait_for_event
from tests.frameworks.langchain_models import Scripted, call, tool_call_message, words
from tests.frameworks.span_trees import kinds, trace_cancelled_run, trace_run, tree
from tests.frameworks.span_trees import words as said

USAGE_METADATA = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18, "input_token_details": {"cache_read": 4}}
RESPONSE_METADATA = {"model_name": "gpt-9-2026", "finish_reason": "tool_calls"}


class Model(Scripted):
    """A model that reports its name, provider and parameters."""

    temperature: float = 0.2

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": "gpt-9", "temperature": self.temperature, "api_key": "sk-hidden"}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": "gpt-9", "ls_model_type": "chat"}


@tool
def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@tool
def broken(x: int) -> int:
    """Fails."""
    raise ValueError(f"{x} is too much")


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def agent(*turns: Any, tools: Any = (double,), **options: Any) -> Any:
    return create_agent(Model(turns=list(turns)), list(tools), **options)


def tool_calls_message(*calls: dict[str, Any]) -> AIMessage:
    return tool_call_message(*calls, usage_metadata=USAGE_METADATA, response_metadata=RESPONSE_METADATA)


async def test_an_agent_with_a_tool_is_recorded_as_a_tree_of_spans() -> None:
    spans = await trace_run(
        chat(agent(tool_calls_message(call("double", "c1", x=2)), words("It is", " 4."), name="Maths"))
    )

    assert kinds(spans) == [
        "workflow invoke_workflow Maths: ok",
        [
            "agent invoke_agent Maths: ok",
            [
                "task model: ok",
                ["llm chat gpt-9-2026: ok"],
                "task tools: ok",
                ["tool execute_tool double: ok"],
                "task model: ok",
                ["llm chat gpt-9: ok"],
            ],
        ],
    ]
    assert len({span.span_id for span in spans}) == 8
    assert {span.trace_id for span in spans} == {spans[0].trace_id}
    assert {(span.run_id, span.session) for span in spans} == {(spans[0].run_id, spans[0].session)}
    assert all(span.start >= spans[0].start for span in spans)


async def test_a_model_span_has_its_messages_model_parameters_and_usage() -> None:
    spans = await trace_run(
        chat(agent(tool_calls_message(call("double", "c1", x=2)), words("It is", " 4."), system_prompt="Be kind."))
    )
    first, second = [span for span in spans if span.kind == "llm"]

    assert said(first.messages_in) == ["system: Be kind.", "user: Well?"]
    assert said(first.messages_out) == ['assistant: double{"x":2}#c1']
    assert said(second.messages_in) == [
        "system: Be kind.",
        "user: Well?",
        'assistant: double{"x":2}#c1',
        "tool: 4#c1",
    ]
    assert said(second.messages_out) == ["assistant: It is 4."]
    assert first.usage == Usage(input_tokens=11, output_tokens=7, cached_input_tokens=4)
    assert (first.model, first.provider, first.finish) == ("gpt-9-2026", "openai", "tool-calls")
    assert (first.parameters, second.usage) == ({"temperature": 0.2}, None)
    assert b"sk-hidden" not in repr(spans).encode()


async def test_a_tool_call_is_recorded_as_one_span() -> None:
    spans = await trace_run(chat(agent(tool_calls_message(call("double", "c1", x=2)), words("4"))))
    [tool_span] = [span for span in spans if span.kind == "tool"]

    assert (tool_span.tool, tool_span.inputs, tool_span.outputs, tool_span.notes) == (
        Tool(name="double", call_id="c1"),
        {"x": 2},
        4,
        (),
    )


async def test_parallel_tools_are_recorded_as_siblings() -> None:
    spans = await trace_run(
        chat(agent(tool_calls_message(call("double", "c1", x=2), call("double", "c2", x=3)), words("So.")))
    )

    assert tree(spans)[1][1] == [
        "model",
        ["chat gpt-9-2026"],
        "tools",
        ["execute_tool double"],
        "tools",
        ["execute_tool double"],
        "model",
        ["chat gpt-9"],
    ]
    assert sorted(span.inputs["x"] for span in spans if span.kind == "tool") == [2, 3]


async def test_spans_of_parallel_branches_are_nested_under_their_branch() -> None:
    both_branches = asyncio.Barrier(2)

    async def increment(x: int) -> int:
        if x == 1:  # The first step of a branch ends once the other branch has begun.
            await both_branches.wait()
        return x + 1

    inner = {"left": RunnableLambda(increment) | RunnableLambda(increment), "right": RunnableLambda(increment)}
    spans = await trace_run(workflow(RunnableParallel(inner), name="both"), inputs={"input": 1})

    assert tree(spans) == [
        "invoke_workflow both",
        ["RunnableParallel<left,right>", ["RunnableSequence", ["increment", "increment"], "increment"]],
    ]
    assert [span.outputs for span in spans[1:]] == [{"left": 3, "right": 2}, 3, 2, 2, 3]


async def test_a_failed_tool_records_its_exception_and_its_parents_fail() -> None:
    spans = await trace_run(chat(agent(tool_calls_message(call("broken", "c1", x=2)), tools=[broken])))
    [tool_span] = [span for span in spans if span.kind == "tool"]

    assert kinds(spans)[1] == [
        "agent invoke_agent LangGraph: error",
        [
            "task model: ok",
            ["llm chat gpt-9-2026: ok"],
            "task tools: error",
            ["tool execute_tool broken: error"],
        ],
    ]
    assert (tool_span.exception, tool_span.status_message) == (
        SpanException("ValueError", "2 is too much"),
        "2 is too much",
    )
    assert tool_span.attributes["error.type"] == "ValueError"


async def test_a_failed_model_call_records_its_input_messages() -> None:
    spans = await trace_run(chat(Model(turns=[ConnectionError("gone")]), name="model"))

    assert kinds(spans) == ["workflow invoke_workflow model: error", ["llm chat gpt-9: error"]]
    assert (said(spans[1].messages_in), spans[1].exception) == (
        ["user: Well?"],
        SpanException("ConnectionError", "gone"),
    )


class BlockingModel(Model):
    """Streams two chunks, then blocks."""

    def _should_stream(self, *args: Any, **kwargs: Any) -> bool:
        return True

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in ("On", " and"):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        self.turns[0].set()
        await asyncio.Event().wait()


async def test_a_cancelled_run_records_the_partial_output_of_its_model() -> None:
    speaking = asyncio.Event()
    graph = StateGraph(State)

    async def talk(state: State) -> Any:
        return {"messages": [await BlockingModel(turns=[speaking]).ainvoke(state["messages"])]}

    graph.add_node(talk)
    graph.add_edge(START, "talk")
    spans = await trace_cancelled_run(chat(graph.compile(name="talker")), speaking)

    assert kinds(spans) == [
        "workflow invoke_workflow talker: cancelled",
        ["task talker: cancelled", ["task talk: cancelled", ["llm chat gpt-9: cancelled"]]],
    ]
    assert said(spans[-1].messages_out) == ["assistant: On and"]
    assert all(span.exception is None for span in spans)


async def test_metadata_recording_leaves_out_all_content() -> None:
    spans = await trace_run(
        chat(agent(tool_calls_message(call("double", "c1", x=2)), words("It is 4."), system_prompt="Be kind.")),
        record="metadata",
    )

    assert len(spans) == 8
    for span in spans:
        assert (span.messages_in, span.messages_out, span.inputs, span.outputs) == ((), (), None, None)
        assert (span.parameters, span.tools) == ({}, ())
    assert not [text for text in ("kind", "Well", "It is") if text in repr([span.attributes for span in spans])]
    assert [span.usage for span in spans if span.kind == "llm"] == [Usage(11, 7, cached_input_tokens=4), None]


async def test_metadata_recording_has_the_exception_type_without_its_message() -> None:
    spans = await trace_run(
        chat(agent(tool_calls_message(call("broken", "c1", x=2)), tools=[broken])), record="metadata"
    )
    [tool_span] = [span for span in spans if span.kind == "tool"]

    assert (tool_span.status, tool_span.exception, tool_span.status_message) == (
        "error",
        SpanException("ValueError", ""),
        "",
    )
    assert "too much" not in repr([(span.attributes, span.events) for span in spans])


async def test_nothing_is_recorded_with_recording_off() -> None:
    assert await trace_run(chat(agent(words("Hi."))), record="off") == []


async def test_a_secret_of_the_caller_is_in_no_span() -> None:
    model = Model(turns=[ConnectionError("with open-sesame"), words("never")])
    spans = await trace_run(
        chat(model, name="model"), Message.user("It is open-sesame."), secrets={"k": Secret("open-sesame")}
    )

    assert len(spans) == 2
    assert "sesame" not in repr(spans)


async def test_a_model_called_by_an_async_function_is_recorded() -> None:
    @chat
    async def plain(messages: list[Message]) -> str:
        answer = await Model(turns=[words("Hi", ".")]).ainvoke([HumanMessage("Hello?")])
        return answer.text

    spans = await trace_run(plain)

    assert kinds(spans) == ["workflow invoke_workflow plain: ok", ["llm chat gpt-9: ok"]]
    assert (said(spans[1].messages_in), said(spans[1].messages_out)) == (["user: Hello?"], ["assistant: Hi."])


async def test_a_model_called_by_a_sync_function_in_its_thread_is_recorded() -> None:
    @chat
    def plain(messages: list[Message]) -> Iterator[str]:
        for chunk in Model(turns=[words("Hi", ".")]).stream([HumanMessage("Hello?")]):
            yield chunk.text

    assert tree(await trace_run(plain)) == ["invoke_workflow plain", ["chat gpt-9"]]


async def test_concurrent_runs_record_only_their_own_spans() -> None:
    all_runs = asyncio.Barrier(5)

    @chat
    async def plain(messages: list[Message]) -> str:
        model = Model(turns=[words(f"To {messages[0].text}")])
        await all_runs.wait()
        return (await model.ainvoke([HumanMessage(messages[0].text)])).text

    traces = await asyncio.gather(*(trace_run(plain, Message.user(str(number))) for number in range(5)))

    assert [said(spans[1].messages_in) for spans in traces] == [[f"user: {number}"] for number in range(5)]
    assert [len(spans) for spans in traces] == [2] * 5


async def test_a_chain_records_its_steps_with_a_prompt_and_a_text_model() -> None:
    chain = ChatPromptTemplate.from_messages([("system", "On {topic}."), ("placeholder", "{messages}")]) | FakeListLLM(
        responses=["Done."]
    )
    spans = await trace_run(chat(chain, name="chain"), inputs={"topic": "tea"})

    assert tree(spans) == ["invoke_workflow chain", ["RunnableSequence", ["ChatPromptTemplate", "chat"]]]
    model = spans[-1]
    assert said(model.messages_in) == ["user: System: On tea.\nHuman: Well?"]
    assert said(model.messages_out) == ["assistant: Done."]
    prompt = spans[2]
    assert (prompt.inputs, said(prompt.messages_out)) == ({"topic": "tea"}, ["system: On tea.", "user: Well?"])


class Shelf(BaseRetriever):
    """Two documents."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document("Tea.", metadata={"page": 1}, id="d1"), Document(query)]


async def test_a_retriever_span_has_its_query_and_documents() -> None:
    spans = await trace_run(workflow(Shelf(), name="shelf"), inputs={"input": "tea"})

    assert kinds(spans) == ["workflow invoke_workflow shelf: ok", ["retrieval retrieval Shelf: ok"]]
    assert spans[1].inputs == {"query": "tea"}
    assert spans[1].outputs == {
        "documents": [
            {"content": "Tea.", "metadata": {"page": 1}, "id": "d1"},
            {"content": "tea", "metadata": {}},
        ]
    }


async def test_messages_are_recorded_in_any_form_that_a_node_returns() -> None:
    async def first(state: State) -> Any:
        return Command(update={"messages": [AIMessage("One.")], "count": 1}, goto="second")

    async def second(state: State) -> Any:
        def three(inputs: list[HumanMessage]) -> list[Any]:
            return [AIMessage("Three."), HumanMessage(str(len(inputs)))]

        link = RunnableLambda(three)
        await link.ainvoke([HumanMessage("Two.")])
        return {"messages": ("ai", "Four.")}

    class Counted(State):
        count: int

    graph = StateGraph(Counted)
    graph.add_node(first)
    graph.add_node(second)
    graph.add_edge(START, "first")
    spans = await trace_run(chat(graph.compile(name="counter")))

    rendered = {span.name: (said(span.messages_in), said(span.messages_out), span.outputs) for span in spans[1:]}
    assert rendered["first"] == (["user: Well?"], ["assistant: One."], {"count": 1})
    assert rendered["three"] == (["user: Two."], ["assistant: Three.", "user: 1"], None)
    assert rendered["second"][1] == ["assistant: Four."]
    assert rendered["counter"] == (["user: Well?"], ["assistant: One.", "assistant: Four."], {"count": 1})


async def test_an_agent_executor_is_recorded_as_an_agent() -> None:
    old = RunnableLambda(lambda _: "Done.").with_config(run_name="AgentExecutor")

    assert kinds(await trace_run(chat(old, name="old")))[1] == ["agent invoke_agent AgentExecutor: ok"]


async def test_an_interrupted_graph_is_recorded_as_ok() -> None:
    async def ask(state: State) -> Any:
        return {"messages": [AIMessage(interrupt("May I?"))]}

    graph = StateGraph(State)
    graph.add_node(ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    spans = await trace_run(chat(graph.compile(checkpointer=InMemorySaver(), name="asker")))

    assert {span.status for span in spans} == {"ok"}
    assert tree(spans) == ["invoke_workflow asker", ["asker", ["ask"]]]


async def test_hidden_runnables_are_left_out_but_their_children_are_recorded() -> None:
    hidden = (RunnableLambda(lambda text: text) | Model(turns=[words("Hi.")])).with_config(tags=["langsmith:hidden"])
    spans = await trace_run(chat(RunnableLambda(lambda _: "Hello?") | hidden, name="chain"))

    assert "chat gpt-9" in tree(spans)[1][1]
    assert "RunnableSequence" not in tree(spans)[1][1]


async def test_an_error_while_recording_a_step_does_not_fail_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(*_: Any) -> Any:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(steps, "dump_messages", bad)
    with caplog.at_level(logging.CRITICAL):
        spans = await trace_run(chat(Model(turns=[words("Hi.")]), name="model"))

    assert kinds(spans) == ["workflow invoke_workflow model: ok", ["llm chat gpt-9: ok"]]
    assert (said(spans[0].messages_out), said(spans[1].messages_out)) == (["assistant: Hi."], ["assistant: Hi."])
    assert spans[1].notes == ("unreadable:step",)


async def test_a_model_called_outside_of_a_run_answers_and_is_not_recorded() -> None:
    model_called, outside_answered = asyncio.Event(), asyncio.Event()

    @chat
    async def plain(messages: list[Message]) -> str:
        answer = await Model(turns=[words("So.")]).ainvoke([HumanMessage("Inside?")])
        model_called.set()
        await wait_for_event(outside_answered)
        return answer.text

    run = asyncio.create_task(trace_run(plain))
    await wait_for_event(model_called)
    answer = await Model(turns=[words("Hi.")]).ainvoke([HumanMessage("Hello?")])
    outside_answered.set()
    spans = await run

    assert answer.text == "Hi."
    assert kinds(spans) == ["workflow invoke_workflow plain: ok", ["llm chat gpt-9: ok"]]
    assert said(spans[1].messages_in) == ["user: Inside?"]
