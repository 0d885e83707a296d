"""LangChain's ChatOpenAI as a chat that calls another Palaver server in the same process."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from palaver import Message, Reasoning, ToolCall, Usage, chat
from palaver.core.runs import Reply
from palaver.engine.run import Run
from palaver.testing import client, scripted
from tests.engine.run_factory import reply, reply_of, run_to_end

STEPS = [
    {"reasoning": "H"},
    {"reasoning": "m."},
    {"text": "Let "},
    {"text": "me 😀."},
    {"tool_call": {"name": "f", "arguments": {"a": "ä"}, "id": "c1"}},
    {"tool_call": {"name": "g", "arguments": "{bad", "id": "c2"}},
    {"usage": {"input_tokens": 3, "output_tokens": 4}},
]
PROMPT = Message.user(json.dumps(STEPS))
CALLS = (
    ToolCall(call_id="c1", name="f", arguments='{"a":"ä"}'),
    ToolCall(call_id="c2", name="g", arguments="{bad"),
)

MODEL_OPTIONS: dict[str, dict[str, Any]] = {
    "Responses": {"use_responses_api": True},
    "Responses, LangChain's blocks": {"use_responses_api": True, "output_version": "v1"},
    "Responses, OpenAI's blocks": {"use_responses_api": True, "output_version": "responses/v1"},
    "Chat Completions": {"use_responses_api": False, "stream_usage": True},
}


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    async with client(scripted) as http:
        yield http


TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("f", "g")
]


def model(server: Any, case: str, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="scripted",
        base_url="http://localhost/v1",
        api_key=SecretStr("none"),
        http_async_client=server,
        max_retries=0,
        **MODEL_OPTIONS[case],
        **options,
    )


def comparable_reply(run: Run) -> Reply:
    """Return the reply with only the usage fields that both protocols report."""
    answer = reply_of(run)
    assert answer.usage is not None
    return msgspec.structs.replace(answer, usage=Usage(answer.usage.input_tokens, answer.usage.output_tokens))


@pytest.mark.parametrize("disable_streaming", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize("case", MODEL_OPTIONS)
async def test_chat_openai_gives_the_same_answer_over_every_api_streamed_or_not(
    server: Any, case: str, disable_streaming: bool
) -> None:
    caller = model(server, case, disable_streaming=disable_streaming).bind_tools(TOOLS)
    answer = comparable_reply(await run_to_end(chat(caller, name="model"), PROMPT))
    thought = [Reasoning(text="Hm.")] if "Responses" in case else []  # Chat Completions has no field for it.

    assert answer == reply(Message.assistant(*thought, "Let me 😀.", *CALLS), usage=Usage(3, 4), finish="tool-calls")


@pytest.mark.parametrize("case", MODEL_OPTIONS)
async def test_a_message_that_arrives_under_two_ids_is_returned_once(server: Any, case: str) -> None:
    steps = [step for step in STEPS if "tool_call" not in step]
    agent = create_agent(model(server, case), [])
    answer = comparable_reply(await run_to_end(chat(agent), Message.user(json.dumps(steps))))
    thought = [Reasoning(text="Hm.")] if "Responses" in case else []

    assert answer == reply(Message.assistant(*thought, "Let me 😀."), usage=Usage(3, 4))


@pytest.mark.parametrize("case", MODEL_OPTIONS)
async def test_an_agent_runs_its_tools(server: Any, case: str) -> None:
    @tool(return_direct=True)
    def f(a: str) -> str:
        """Do it."""
        return f"{a}!"

    steps = [STEPS[2], STEPS[4]]
    agent = create_agent(model(server, case), [f])

    assert reply_of(await run_to_end(chat(agent), Message.user(json.dumps(steps)))) == reply(
        Message.assistant("Let ", CALLS[0]), Message.tool("c1", "ä!")
    )
