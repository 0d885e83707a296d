"""LangGraph graphs and LangChain agents served as workflows."""

import asyncio
import operator
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send
from pydantic import BaseModel

from palaver import Data, Message, ToolCall, ToolResult, Usage, chat
from palaver.core.events import RunCancelled
from palaver.engine.run import Run
from palaver.errors import ChatWithoutMessages
from tests.engine.run_factory import (
    QUESTION,
    last_event,
    new_engine,
    reply,
    reply_of,
    run_to_end,
    wait_ended,
    wait_until,
)
from tests.engine.run_factory import call as asked_for
from tests.frameworks.langchain_models import Scripted, call, lines, texts, tool_call_chunks, tool_call_message, words

OLD_ANSWER = Message.assistant("Old.")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def broken() -> str:
    """Raise."""
    raise ToolException("No luck.")


broken.handle_tool_error = True


def assistant_reply(*parts: Any, **fields: Any) -> Any:
    return reply(Message.assistant(*parts), **fields)


def one_node_graph(node: Any, state: Any = MessagesState, **options: Any) -> Any:
    return StateGraph(state).add_node("node", node).add_edge(START, "node").compile(**options)


def return_messages(state: Any) -> Any:
    return {"messages": state["messages"]}


def graph_returning(*messages: Any) -> Any:
    return one_node_graph(lambda state: {"messages": list(messages)})


def normalized_lines(run: Run) -> list[str]:
    """Return the event lines with the ids that LangChain generates replaced by m1, m2 … in order."""
    names: dict[str, str] = {}
    output: list[str] = []
    for event in run.log:
        for field in ("message", "item"):
            event_id = getattr(event, field, "")
            if event_id.startswith("lc_run--") or (field == "message" and event_id and event_id not in names):
                names.setdefault(event_id, f"m{len(names) + 1}")
    for line in lines(run):
        for event_id, name in names.items():
            line = line.replace(event_id, name)
        output.append(line)
    return output


# Streams


async def test_an_agent_streams_text_tool_calls_and_results() -> None:
    model = Scripted(
        turns=[
            [*words("Let ", "me."), *tool_call_chunks((0, "c1", "add", '{"a":1,'), (0, None, None, '"b":2}'))],
            words("It is", " 3."),
        ]
    )

    assert normalized_lines(await run_to_end(chat(create_agent(model, [add])), QUESTION)) == [
        "text m1 of m1",
        "m1 + Let ",
        "m1 + me.",
        "m1 ends",
        "call fc_c1 of m1: add",
        'fc_c1 + {"a":1,',
        'fc_c1 + "b":2}',
        "fc_c1 ends",
        "result fco_c1: 3",
        "text m3 of m3",
        "m3 + It is",
        "m3 +  3.",
        "m3 ends",
        "stop",
    ]
    assert texts(model.asked[0]) == [("human", "Well?")]


async def test_a_model_that_does_not_stream_returns_complete_messages() -> None:
    model = Scripted(turns=[tool_call_message(call("add", "c1", a=1, b=2), content="So:"), AIMessage("3.")])

    assert reply_of(await run_to_end(chat(create_agent(model, [add])), QUESTION)) == reply(
        Message.assistant("So:", ToolCall(call_id="c1", name="add", arguments='{"a":1,"b":2}')),
        Message.tool("c1", "3"),
        Message.assistant("3."),
    )


async def test_parallel_calls_and_tool_errors_are_returned() -> None:
    first = tool_call_chunks(
        (0, "c1", "add", '{"a":1,"b":1}'), (1, "c2", "broken", "{}"), (2, "c3", "add", '{"a":2,"b":2}')
    )
    model = Scripted(turns=[first, words("Done.")])
    answer = reply_of(await run_to_end(chat(create_agent(model, [add, broken])), QUESTION))
    results = {result.call_id: result for message in answer.messages for result in message.tool_results}

    assert answer.messages[0].tool_calls == [
        ToolCall(call_id="c1", name="add", arguments='{"a":1,"b":1}'),
        ToolCall(call_id="c2", name="broken", arguments="{}"),
        ToolCall(call_id="c3", name="add", arguments='{"a":2,"b":2}'),
    ]
    assert results == {
        "c1": ToolResult(call_id="c1", output="2"),
        "c2": ToolResult(call_id="c2", output="No luck.", is_error=True),
        "c3": ToolResult(call_id="c3", output="4"),
    }
    assert answer.messages[-1] == Message.assistant("Done.")


async def test_usage_and_finish_reason_come_from_the_model() -> None:
    cost: Any = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    last = AIMessageChunk(content="", usage_metadata=cost, response_metadata={"finish_reason": "length"})
    agent = create_agent(Scripted(turns=[[*words("a"), last]]), [])

    assert reply_of(await run_to_end(chat(agent), QUESTION)) == assistant_reply("a", usage=Usage(3, 1), finish="length")


# Updates


@pytest.mark.parametrize(
    ("update", "messages"),
    [
        (None, []),
        ({}, []),
        ({"messages": []}, []),
        ({"messages": AIMessage("a")}, ["a"]),
        ({"messages": [AIMessage("a"), AIMessage("b")]}, ["a", "b"]),
        ({"messages": {"role": "assistant", "content": "a"}}, ["a"]),
        ({"messages": ("ai", "a")}, ["a"]),
        ({"messages": [("ai", "a"), ("user", "x"), ("assistant", "b")]}, ["a", "b"]),
        ({"messages": [HumanMessage("x"), AIMessage("a")]}, ["a"]),
        (Command(update={"messages": [AIMessage("a")]}), ["a"]),
        ([Command(update={"messages": [AIMessage("a")]}), Command(update={"messages": [AIMessage("b")]})], ["a", "b"]),
    ],
    ids=str,
)
async def test_messages_of_a_node_update_are_returned_once(update: Any, messages: list[str]) -> None:
    graph = one_node_graph(lambda state: update)

    assert reply_of(await run_to_end(chat(graph), QUESTION)) == reply(*[Message.assistant(text) for text in messages])


async def test_a_message_returned_by_several_nodes_is_streamed_once() -> None:
    inner = graph_returning(AIMessage("a", id="m"))
    graph = StateGraph(MessagesState)
    graph.add_node("inner", inner)
    graph.add_node("again", return_messages)
    graph.add_edge(START, "inner").add_edge("inner", "again")

    assert lines(await run_to_end(chat(graph.compile()), QUESTION)) == ["text m of m", "m + a", "m ends", "stop"]


class SlowModel(Scripted):
    """Yields to other tasks after each chunk."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk
            await asyncio.sleep(0)


async def test_messages_of_parallel_nodes_stay_separate() -> None:
    def node(name: str) -> Any:
        async def speak(state: Any) -> Any:
            return {"messages": [await SlowModel(turns=[words(*[name] * 3, id=name)]).ainvoke("x")]}

        return speak

    graph = StateGraph(MessagesState)
    for name in "ab":
        graph.add_node(name, node(name)).add_edge(START, name)
    output = lines(await run_to_end(chat(graph.compile()), QUESTION))

    assert sorted(output) == sorted(
        [
            "stop",
            *[f"text {message_id} of {message_id}" for message_id in "ab"],
            *[f"{message_id} ends" for message_id in "ab"],
        ]
        + ["a + a"] * 3
        + ["b + b"] * 3
    )
    assert output.index("b + b") < output.index("a ends")  # They are interleaved.


async def test_a_message_without_an_id_from_a_subgraph_is_returned_once() -> None:
    inner = one_node_graph(lambda state: {"messages": [{"role": "assistant", "content": "a"}]})
    graph = one_node_graph(inner)

    assert reply_of(await run_to_end(chat(graph), QUESTION)) == assistant_reply("a")


async def test_messages_of_a_model_called_inside_a_tool_are_streamed() -> None:
    @tool
    async def ask() -> str:
        """Ask another model."""
        return (await Scripted(turns=[words("in", "ner")]).ainvoke("x")).text

    agent = create_agent(Scripted(turns=[tool_call_chunks((0, "c1", "ask", "{}")), words("outer")]), [ask])
    run = await run_to_end(chat(agent), QUESTION)
    output = normalized_lines(run)

    assert [message.text for message in reply_of(run).messages] == ["", "inner", "", "outer"]
    assert output.index("m2 ends") < output.index(
        "result fco_c1: inner"
    )  # It ends without waiting for a later message.


async def test_messages_of_branches_made_by_send_are_returned() -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], operator.add]

    def spoken(state: Any) -> Any:
        return {"messages": [AIMessage(state["word"])]}

    graph = StateGraph(State)
    graph.add_node("start", lambda state: {})
    graph.add_node("each", spoken)
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda state: [Send("each", {"word": word}) for word in "abc"], ["each"])

    answer = reply_of(await run_to_end(chat(graph.compile()), QUESTION))
    assert sorted(message.text for message in answer.messages) == ["a", "b", "c"]


async def test_values_that_are_not_messages_are_ignored() -> None:
    class State(TypedDict):
        messages: list[Any]

    graph = one_node_graph(lambda state: {"messages": [{"content": "x"}, 5, "text", None]}, State)

    assert reply_of(await run_to_end(chat(graph), QUESTION)) == reply()


# History


class OverwrittenState(TypedDict):
    messages: list[Any]


def rebuild_message(message: BaseMessage) -> BaseMessage:
    return type(message)(content=message.content)


@pytest.mark.parametrize("state", [MessagesState, OverwrittenState], ids=["add_messages", "overwritten"])
@pytest.mark.parametrize("copy_message", [lambda message: message, rebuild_message], ids=["the same", "built anew"])
async def test_history_in_the_state_returned_by_a_node_is_not_repeated(state: Any, copy_message: Any) -> None:
    graph = one_node_graph(
        lambda state: {"messages": [*map(copy_message, state["messages"]), AIMessage("New.")]}, state
    )

    assert reply_of(await run_to_end(chat(graph), QUESTION, OLD_ANSWER, QUESTION)) == assistant_reply("New.")


async def test_an_answer_may_have_the_same_text_as_an_earlier_one() -> None:
    assert reply_of(
        await run_to_end(chat(graph_returning(AIMessage("Old."))), QUESTION, OLD_ANSWER, QUESTION)
    ) == assistant_reply("Old.")


async def test_a_graph_without_messages_in_its_output_returns_the_final_state_as_data() -> None:
    class Answer(TypedDict):
        verdict: str

    class State(MessagesState):
        verdict: str

    graph = StateGraph(State, output_schema=Answer)
    graph.add_node("node", lambda state: {"verdict": "good"}).add_edge(START, "node")

    assert reply_of(await run_to_end(chat(graph.compile()), QUESTION)) == assistant_reply(
        Data(name="output", value={"verdict": "good"})
    )


# Inputs


class NamedState(MessagesState):
    name: str


async def test_keys_of_the_state_are_inputs() -> None:
    graph = chat(
        one_node_graph(lambda state: {"messages": [AIMessage(f"Hi {state['name']}.")]}, NamedState), name="greeter"
    )
    described = graph.description

    assert reply_of(await run_to_end(graph, QUESTION, inputs={"name": "Ada"})) == assistant_reply("Hi Ada.")
    assert list(described.schemas.inputs["properties"]) == ["messages", "name"]
    assert described.schemas.inputs["required"] == ["messages"]
    assert described.schemas.inputs["properties"]["name"] == {"type": "string"}


class PydanticState(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    name: str = "nobody"


@dataclass
class DataclassState:
    messages: Annotated[list[AnyMessage], add_messages]
    name: str = "nobody"


@pytest.mark.parametrize("state", [PydanticState, DataclassState])
async def test_the_state_may_be_a_pydantic_model_or_a_dataclass(state: Any) -> None:
    graph = chat(one_node_graph(lambda state: {"messages": [AIMessage(f"Hi {state.name}.")]}, state))

    assert reply_of(await run_to_end(graph, QUESTION)) == assistant_reply("Hi nobody.")
    assert reply_of(await run_to_end(graph, QUESTION, inputs={"name": "Ada"})) == assistant_reply("Hi Ada.")
    assert list(graph.description.schemas.inputs["properties"]) == ["messages", "name"]


async def test_a_graph_without_messages_in_its_state_is_rejected_as_a_chat() -> None:
    class State(TypedDict):
        question: str

    with pytest.raises(ChatWithoutMessages, match="its state has no 'messages'"):
        chat(one_node_graph(lambda state: {}, State))


@pytest.mark.parametrize("as_list", [True, False])
async def test_an_entrypoint_of_the_functional_api_is_a_chat(as_list: bool) -> None:
    if as_list:

        @entrypoint()
        async def answer(messages: list[BaseMessage]) -> Any:
            return [AIMessage(f"{len(messages)}")]
    else:

        @entrypoint()
        async def answer(state: dict[str, Any]) -> Any:
            return {"messages": AIMessage(f"{len(state['messages'])}")}

    assert reply_of(await run_to_end(chat(answer), QUESTION, OLD_ANSWER, QUESTION)) == assistant_reply("3")


# Threads


async def test_a_checkpointed_thread_receives_only_new_messages() -> None:
    model = Scripted(turns=[words("One."), words("Two."), words("Three.")])
    agent = chat(create_agent(model, [], checkpointer=InMemorySaver()))
    first, second = Message.user("1?"), Message.user("2?")

    one = await run_to_end(agent, Message.system("Be kind."), first, session="s")
    two = await run_to_end(agent, Message.system("Be kind."), first, Message.assistant("Forged."), second, session="s")
    other = await run_to_end(agent, first, Message.assistant("Mine."), second, session="t")

    assert [reply_of(run) for run in (one, two, other)] == [
        assistant_reply("One."),
        assistant_reply("Two."),
        assistant_reply("Three."),
    ]
    assert [texts(prompt) for prompt in model.asked] == [
        [("system", "Be kind."), ("human", "1?")],
        [("system", "Be kind."), ("human", "1?"), ("ai", "One."), ("human", "2?")],
        [("human", "1?"), ("ai", "Mine."), ("human", "2?")],
    ]


async def test_a_node_that_returns_the_whole_thread_does_not_repeat_it() -> None:
    graph = one_node_graph(
        lambda state: {"messages": [*state["messages"], AIMessage(f"{len(state['messages'])}")]},
        checkpointer=InMemorySaver(),
    )
    bot = chat(graph)

    answers = [reply_of(await run_to_end(bot, QUESTION, session="s")) for _ in range(3)]
    assert answers == [assistant_reply("1"), assistant_reply("3"), assistant_reply("5")]


async def test_a_client_cannot_replace_messages_of_a_thread_by_reusing_their_ids() -> None:
    model = Scripted(turns=[[AIMessageChunk(content="One.", id="m")], words("Two."), words("Three.")])
    agent = chat(create_agent(model, [], checkpointer=InMemorySaver()))
    await run_to_end(agent, QUESTION, session="s")
    forged = Message(role="user", parts=Message.user("Forged.").parts, id="m")
    repeated = Message(role="user", parts=QUESTION.parts, id="m")

    assert reply_of(await run_to_end(agent, forged, session="s")) == assistant_reply("Two.")
    assert texts(model.asked[1]) == [("human", "Well?"), ("ai", "One."), ("human", "Forged.")]
    assert reply_of(await run_to_end(agent, repeated, session="s")) == assistant_reply("Three.")
    assert [text for _, text in texts(model.asked[2])] == ["Well?", "One.", "Forged.", "Two.", "Well?"]


async def test_a_result_of_a_call_from_an_earlier_run_is_returned_with_its_call() -> None:
    turns = [
        [tool_call_message(call("add", "c1", a=1, b=2), id="m")],
        [ToolMessage("3", tool_call_id="c1"), AIMessage("3.")],
    ]
    graph = one_node_graph(lambda state: {"messages": turns.pop(0)}, checkpointer=InMemorySaver())
    bot = chat(graph)
    await run_to_end(bot, QUESTION, session="s")

    assert reply_of(await run_to_end(bot, QUESTION, session="s")) == reply(
        Message.assistant(ToolCall(call_id="c1", name="add", arguments='{"a":1,"b":2}')),
        Message.tool("c1", "3"),
        Message.assistant("3."),
    )


async def test_a_result_of_an_unknown_call_fails_the_run_with_bad_stream() -> None:
    run = await run_to_end(chat(graph_returning(ToolMessage("3", tool_call_id="c9"))), QUESTION)

    assert lines(run)[-1].startswith("bad_stream:")


# Cancellation and errors


async def test_cancelling_a_run_stops_the_graph() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def wait(state: Any) -> Any:
        try:
            started.set()
            await asyncio.sleep(60)
        finally:
            stopped.set()

    run = new_engine().start(chat(one_node_graph(wait)), asked_for(QUESTION))
    await wait_until(started.is_set)
    run.cancel()

    assert isinstance(last_event(await wait_ended(run)), RunCancelled)
    assert stopped.is_set()


async def test_a_model_error_fails_the_run_without_its_message() -> None:
    model = Scripted(turns=[[*words("Let "), RuntimeError("secret")]])
    run = await run_to_end(chat(create_agent(model, [])), QUESTION)

    assert reply_of(run).messages == (Message.assistant("Let "),)
    assert lines(run)[-1] == f"workflow_failed: The workflow failed (run {run.id})."


async def test_text_that_was_already_streamed_is_not_replaced() -> None:
    model = Scripted(turns=[[AIMessageChunk(content="Yes.", id="m")]])

    async def ask(state: Any) -> Any:
        answer = await model.ainvoke(state["messages"])
        return {"messages": [AIMessage("No.", id=answer.id)]}

    assert reply_of(await run_to_end(chat(one_node_graph(ask)), QUESTION)) == assistant_reply("Yes.")
