"""Agent frameworks as clients of /v1/responses, of a workflow that runs its own tool.

An agent loop runs every function call that it receives and calls the model again. So a tool that the workflow has run
must not look like one: each client finishes after one response, and shows the call where it has a place for it.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, MaxTurnsExceeded, OpenAIResponsesModel, RunConfig, Runner, ToolCallItem, function_tool
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic import SecretStr
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.conformance.scenarios import call, result
from tests.server_process import ServerProcess

OWN_TOOL = json.dumps(
    [{"text": "Let me check."}, call("get_time", id="c1", tz="UTC"), result("c1", "12:00"), {"text": "It is noon."}]
)
CLIENT_TOOL = json.dumps([call("look_up", id="c1", word="palaver")])


@pytest.fixture
async def openai_client(server: ServerProcess) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


# --- OpenAI Agents SDK


def openai_agent(client: AsyncOpenAI, tools: list[Any] | None = None) -> Agent[None]:
    model = OpenAIResponsesModel("scripted", client)
    return Agent(name="caller", model=model, tools=tools or [])


@pytest.mark.parametrize("streams", [False, True])
async def test_openai_agents_shows_the_workflows_own_call(openai_client: AsyncOpenAI, streams: bool) -> None:
    config = RunConfig(tracing_disabled=True)
    if streams:
        streamed = Runner.run_streamed(openai_agent(openai_client), OWN_TOOL, run_config=config)
        async for _ in streamed.stream_events():
            pass
        items, output = streamed.new_items, streamed.final_output
    else:
        finished = await Runner.run(openai_agent(openai_client), OWN_TOOL, run_config=config)
        items, output = finished.new_items, finished.final_output

    [call_item] = [item for item in items if isinstance(item, ToolCallItem)]
    raw: Any = call_item.raw_item
    assert (raw.type, raw.name, raw.arguments, raw.output) == ("mcp_call", "get_time", '{"tz":"UTC"}', "12:00")
    assert output == "It is noon."


async def test_openai_agents_runs_the_tools_that_it_sends(openai_client: AsyncOpenAI) -> None:
    words: list[str] = []

    @function_tool
    def look_up(word: str) -> str:
        """Look up a word."""
        words.append(word)
        return "a long talk"

    agent = openai_agent(openai_client, [look_up])
    with pytest.raises(MaxTurnsExceeded):  # The script calls the tool in every turn.
        await Runner.run(agent, CLIENT_TOOL, max_turns=1, run_config=RunConfig(tracing_disabled=True))
    assert words == ["palaver"]


# --- Pydantic AI


@pytest.mark.parametrize("streams", [False, True])
async def test_pydantic_ai_shows_the_workflows_own_call(openai_client: AsyncOpenAI, streams: bool) -> None:
    model = PydanticResponsesModel("scripted", provider=OpenAIProvider(openai_client=openai_client))
    agent = PydanticAgent(model)
    if streams:
        async with agent.run_stream(OWN_TOOL) as stream:
            await stream.get_output()
        messages = stream.all_messages()
    else:
        messages = (await agent.run(OWN_TOOL)).all_messages()

    [response] = [message for message in messages if isinstance(message, ModelResponse)]
    native = [part for part in response.parts if part.part_kind in ("builtin-tool-call", "builtin-tool-return")]
    assert len(native) == 2
    assert "12:00" in str(native[1].content)  # pyright: ignore[reportAttributeAccessIssue]
    assert "It is noon." in str(response.text)


# --- LangChain


async def test_a_langchain_agent_shows_the_workflows_own_call(server: ServerProcess) -> None:
    @tool
    def look_up(word: str) -> str:
        """Look up a word."""
        return word

    model = ChatOpenAI(
        model="scripted", base_url=f"{server.url}/v1", api_key=SecretStr("none"), use_responses_api=True, max_retries=0
    )
    state: Any = await create_agent(model, [look_up]).ainvoke({"messages": [HumanMessage(OWN_TOOL)]})

    answer = state["messages"][-1]
    assert isinstance(answer, AIMessage)
    assert not any(isinstance(message, ToolMessage) for message in state["messages"])
    kinds = [block["type"] for block in answer.content_blocks]
    assert kinds == ["text", "server_tool_call", "server_tool_result", "text"]
    assert answer.tool_calls == []
