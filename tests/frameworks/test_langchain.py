"""LangChain runnables as workflows: names, inputs and outputs, also over HTTP."""

from collections.abc import AsyncIterator
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from palaver import Message, ToolCall, Usage, chat, workflow
from palaver.core.events import TextDelta
from palaver.errors import ChatWithoutMessages, NotAWorkflow
from palaver.frameworks import langchain
from palaver.testing import client
from tests.engine.run_factory import QUESTION, reply, reply_of, run_to_end
from tests.frameworks.langchain_models import Scripted, texts, tool_call_chunks, words

OLD_ANSWER = Message.assistant("Old.")


def assistant_reply(*parts: Any, **fields: Any) -> Any:
    return reply(Message.assistant(*parts), **fields)


def graph(**options: Any) -> Any:
    node = StateGraph(MessagesState)
    node.add_node("node", lambda state: {"messages": [AIMessage("Hi.")]})
    return node.add_edge(START, "node").compile(**options)


# Names


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (graph(), "langgraph"),
        (graph(name="Tutor"), "Tutor"),
        (graph(name="My tutor"), "My-tutor"),
        (create_agent(FakeListChatModel(responses=["a"]), [], name="helper"), "helper"),
        (FakeListChatModel(responses=["a"]), "fakelistchatmodel"),
        (RunnableLambda(lambda messages: "a", name="shout"), "shout"),
    ],
    ids=["a graph", "its name", "made lawful", "an agent", "a model", "a runnable"],
)
def test_a_workflow_is_named_after_its_runnable_unless_a_name_is_given(thing: Any, name: str) -> None:
    declared = chat(thing)

    assert (declared.description.name, declared.description.is_chat) == (name, True)
    assert declared.place == f"LangChain: {type(thing).__name__}"
    assert chat(thing, name="own", description="Mine.").description.name == "own"


def test_a_tool_is_rejected_as_a_chat() -> None:
    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    with pytest.raises(NotAWorkflow):
        chat(add)


# Models and chains


async def test_a_chat_model_streams_its_answer() -> None:
    model = FakeListChatModel(responses=["Hi."])
    run = await run_to_end(chat(model), QUESTION)

    assert reply_of(run) == assistant_reply("Hi.")
    assert [event.delta for event in run.log if isinstance(event, TextDelta)] == ["H", "i", "."]


async def test_a_model_gets_the_whole_history() -> None:
    model = Scripted(turns=[words("So.")])

    assert reply_of(
        await run_to_end(chat(model), Message.system("S"), QUESTION, OLD_ANSWER, QUESTION)
    ) == assistant_reply("So.")
    assert texts(model.asked[0]) == [("system", "S"), ("human", "Well?"), ("ai", "Old."), ("human", "Well?")]


async def test_tool_calls_of_a_model_are_left_to_the_caller() -> None:
    model = Scripted(turns=[tool_call_chunks((0, "c1", "f", "{}"))])

    assert reply_of(await run_to_end(chat(model), QUESTION)) == assistant_reply(
        ToolCall(call_id="c1", name="f", arguments="{}"), finish="tool-calls"
    )


async def test_a_chain_takes_the_history_and_the_variables_of_its_prompt() -> None:
    prompt = ChatPromptTemplate([("system", "Be {mood}."), ("placeholder", "{messages}")])
    model = Scripted(turns=[words("So.")])
    chain = chat(prompt | model.bind(stop=["x"]), name="chain")

    assert reply_of(await run_to_end(chain, QUESTION, inputs={"mood": "kind"})) == assistant_reply("So.")
    assert texts(model.asked[0]) == [("system", "Be kind."), ("human", "Well?")]
    assert chain.description.schemas.inputs["required"] == ["messages", "mood"]


async def test_a_chain_that_outputs_text_is_a_chat() -> None:
    prompt = ChatPromptTemplate([("placeholder", "{messages}")])
    model = GenericFakeChatModel(messages=iter([AIMessage("So it is.")]))
    run = await run_to_end(chat((prompt | model | StrOutputParser()).with_config(tags=["x"]), name="chain"), QUESTION)

    assert reply_of(run) == assistant_reply("So it is.")


def test_a_chain_without_a_messages_placeholder_is_rejected_as_a_chat() -> None:
    chain = PromptTemplate.from_template("About {topic}") | FakeListChatModel(responses=["a"])

    with pytest.raises(ChatWithoutMessages, match="Add one named 'messages'"):
        chat(chain)


async def test_any_runnable_that_takes_messages_is_a_chat() -> None:
    def shout(messages: list[BaseMessage]) -> str:
        return messages[-1].text.upper()

    assert reply_of(await run_to_end(chat(RunnableLambda(shout)), QUESTION)) == assistant_reply("WELL?")


async def test_options_of_a_call_are_not_applied() -> None:
    received: list[dict[str, Any]] = []

    class OptionsModel(Scripted):
        """Records the options of each call."""

        async def _astream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
        ) -> AsyncIterator[ChatGenerationChunk]:
            received.append({"stop": stop, **options})
            async for chunk in super()._astream(messages):
                yield chunk

    model = OptionsModel(turns=[words("So."), words("So.")])
    await run_to_end(chat(model.bind(temperature=0.9), name="bound"), QUESTION)
    run = await run_to_end(chat(model), QUESTION, options={"temperature": 0.1, "stop": ["x"]})

    assert reply_of(run) == assistant_reply("So.")
    assert received == [{"stop": None, "temperature": 0.9}, {"stop": None}]


# Workflows that are not chats


async def test_a_chain_workflow_takes_prompt_variables_and_returns_text() -> None:
    cost: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    model = Scripted(turns=[[*words("Cats, ", "again"), *words("", usage_metadata=cost)]])
    headline = workflow(PromptTemplate.from_template("About {topic}") | model, name="headline")
    run = await run_to_end(headline, inputs={"topic": "cats"})

    assert reply_of(run).value == "Cats, again"
    assert reply_of(run).usage == Usage(1, 2)
    assert texts(model.asked[0]) == [("human", "About cats")]
    assert headline.description.schemas.inputs["properties"] == {"topic": {"type": "string"}}


async def test_any_other_runnable_takes_a_single_input_and_returns_its_value() -> None:
    both: Any = RunnableParallel(twice=RunnableLambda(lambda n: n + n), text=RunnableLambda(str))  # type: ignore[operator]
    values = workflow(both, name="both")

    assert reply_of(await run_to_end(values, inputs={"input": 4})).value == {"twice": 8, "text": "4"}
    assert values.description.schemas.inputs["required"] == ["input"]


async def test_a_json_value_that_is_parsed_incrementally_is_returned_once() -> None:
    model = FakeListChatModel(responses=['{"a": [1, 2]}'])
    chain = workflow(PromptTemplate.from_template("{x}") | model | JsonOutputParser(), name="chain")

    assert reply_of(await run_to_end(chain, inputs={"x": "y"})).value == {"a": [1, 2]}


async def test_a_graph_workflow_takes_and_returns_its_state() -> None:
    class State(TypedDict):
        n: int

    def doubled(state: State) -> Any:
        return {"n": state["n"] * 2}

    double = StateGraph(State)
    double.add_node("node", doubled).add_edge(START, "node")
    declared = workflow(double.compile(), name="double")

    assert reply_of(await run_to_end(declared, inputs={"n": 4})).value == {"n": 8}


# Over HTTP


INVOKE_BODY = {"data": {"inputs": {"messages": [{"role": "user", "content": "Well?"}]}}}


async def test_an_agent_answers_over_http() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = Scripted(turns=[tool_call_chunks((0, "c1", "add", '{"a":1,"b":2}')), words("It is", " 3.")])
    async with client(chat(create_agent(model, [add]), name="adder")) as http:
        answer = await http.post("/adder/invoke", json=INVOKE_BODY)

    assert answer.status_code == 200
    outputs = answer.json()["data"]["outputs"]
    assert [(message["role"], message.get("content")) for message in outputs] == [
        ("assistant", None),
        ("tool", "3"),
        ("assistant", "It is 3."),
    ]


async def test_a_model_error_is_answered_with_500_without_its_message() -> None:
    async with client(chat(Scripted(turns=[RuntimeError("secret")]), name="broken")) as http:
        answer = await http.post("/broken/invoke", json=INVOKE_BODY)

    assert answer.status_code == 500
    assert "secret" not in answer.text


# The module


def test_every_name_in_all_is_an_attribute_of_the_module() -> None:
    for name in langchain.__all__:
        assert getattr(langchain, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(langchain, "nothing")  # noqa: B009 - a missing attribute
