"""Traces of runs over HTTP: the steps of frameworks, and the outcome of each run."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage as SdkUsage
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from palaver import Message, chat
from palaver.server.app import Server
from tests.frameworks.langchain_models import Scripted, call, tool_call_message, words
from tests.server.thread_client import thread_server

HELLO = {"messages": [{"role": "user", "content": "Well?"}]}
SECRET = "sk-proj-" + "a1B2" * 8
USAGE = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}


async def flush_telemetry(server: Server) -> None:
    await server.runtime.telemetry.flush()


async def only_trace(http: httpx.AsyncClient, server: Server) -> dict[str, Any]:
    """Return the only trace, as listed."""
    await flush_telemetry(server)
    [row] = (await http.get("/api/traces")).json()["data"]
    return row


async def tree(http: httpx.AsyncClient, trace: str, parent: str | None = None) -> list[Any]:
    """Return kind, name and status of the spans, level by level as the page requests them."""
    lines: list[Any] = []
    params = {} if parent is None else {"parent": parent}
    for row in (await http.get(f"/api/traces/{trace}/tree", params=params)).json()["data"]:
        lines.append(f"{row['kind']} {row['name']}: {row['status']}")
        if row["children"]:
            lines.append(await tree(http, trace, row["span_id"]))
    return lines


async def get_span(http: httpx.AsyncClient, row: dict[str, Any]) -> dict[str, Any]:
    answer = await http.get(f"/api/spans/{row['trace_id']}/{row['span_id']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@tool
def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


def langchain_agent() -> Any:
    turns = [
        tool_call_message(call("double", "c1", x=2), usage_metadata=USAGE),
        tool_call_message(content="4", usage_metadata=USAGE),
    ]
    return chat(create_agent(Scripted(turns=turns), [double], name="maths"))


def openai_agent() -> Any:
    usage = SdkUsage(requests=1, input_tokens=11, output_tokens=7, total_tokens=18)
    steps = [
        ModelStep(output=[function_call("double", {"x": 2}, call_id="c1")], usage=usage),
        ModelStep(output=[assistant_message("4")], usage=usage),
    ]

    def doubled(x: int) -> int:
        return 2 * x

    run = function_tool(doubled, name_override="double")
    return chat(OpenAIAgent(name="maths", model=ScriptedModel(steps), tools=[run]))


def pydantic_agent() -> Any:
    replies: list[Any] = [{0: DeltaToolCall("double", '{"x":2}', tool_call_id="c1")}, "4"]

    async def stream(*_: Any) -> AsyncIterator[Any]:
        yield replies.pop(0)

    def doubled(x: int) -> int:
        return 2 * x

    agent = PydanticAgent(FunctionModel(stream_function=stream), name="maths")
    agent.tool_plain(name="double")(doubled)
    return chat(agent)


@pytest.mark.parametrize("create_workflow", [langchain_agent, openai_agent, pydantic_agent])
async def test_an_agent_run_of_any_framework_is_stored_as_a_span_tree(create_workflow: Any) -> None:
    async with thread_server(create_workflow()) as (http, server):
        answer = await http.post("/maths/invoke", json=HELLO)
        row = await only_trace(http, server)
        shown = await tree(http, row["trace_id"])
        view = (await http.get(f"/api/traces/{row['trace_id']}")).json()
        root = await get_span(http, row)

    assert answer.status_code == 200
    assert shown[0] == "workflow invoke_workflow maths: ok"
    assert shown[1][0] == "agent invoke_agent maths: ok"
    assert (view["kinds"]["llm"], view["kinds"]["tool"], view["errors"]) == (2, 1, 0)
    # The run reports the same usage; it is not added to that of its model calls.
    assert (view["input_tokens"], view["output_tokens"]) == (row["input_tokens"], row["output_tokens"])
    assert view["input_tokens"] == root["usage"]["input_tokens"]


async def test_exported_steps_are_imported_as_equal_records() -> None:
    async with thread_server(langchain_agent()) as (http, server):
        (await http.post("/maths/invoke", json=HELLO)).raise_for_status()
        await only_trace(http, server)
        lines = (await http.get("/api/traces/export", params={"format": "otlp"})).text.splitlines()
        before = await export_spans(http)
    async with thread_server() as (http, _):
        for line in lines:
            answer = await http.post("/v1/traces", content=line, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()) == (200, {})
        after = await export_spans(http)

    # Run ids in received spans are ignored.
    assert after == [{**one, "run_id": None} for one in before]
    assert len(after) == 8


async def export_spans(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    lines = (await http.get("/api/traces/export")).text.splitlines()
    return sorted((msgspec.json.decode(line) for line in lines), key=lambda one: one["span_id"])


@pytest.mark.parametrize("content", ["full", "metadata"])
async def test_redaction_and_trace_content_apply_to_steps(content: Any) -> None:
    turns = [tool_call_message(call("double", "c1", x=2)), words(f"The key is {SECRET}.")]
    agent = chat(create_agent(Scripted(turns=turns), [double], name="maths", system_prompt=f"Never say {SECRET}."))
    async with thread_server(agent, trace_content=content) as (http, server):
        (await http.post("/maths/invoke", json=HELLO)).raise_for_status()
        row = await only_trace(http, server)
        skeleton = (await http.get(f"/api/traces/{row['trace_id']}/skeleton")).json()["data"]
        records = [await get_span(http, {**row, **node}) for node in skeleton]

    assert len(records) == 8
    assert SECRET not in str(records)
    assert ("The key is ***." in str(records), "Well?" in str(records)) == (content == "full", content == "full")


async def test_the_span_of_a_failed_run_has_its_error_and_partial_output() -> None:
    async with thread_server() as (http, server):
        answer = await http.post("/broken/invoke", json=HELLO)
        row = await only_trace(http, server)
        span = await get_span(http, row)

    assert answer.status_code == 500
    assert (span["status"], span["finish"], span["exception"]["type"]) == ("error", "error", "workflow_failed")
    assert span["messages_out"] == [{"role": "assistant", "parts": [{"type": "text", "text": "half"}]}]
    assert "palaver.disconnected" not in span["attributes"]


async def open_stream(http: httpx.AsyncClient, name: str) -> tuple[httpx.Response, Any]:
    """Open a stream and read its first text; return the response and the remaining lines."""
    request = http.build_request("POST", f"/{name}/invoke", json=HELLO, headers={"accept": "text/event-stream"})
    answer = await http.send(request, stream=True)
    lines = answer.aiter_lines()
    async for line in lines:
        if "begin" in line:
            break
    return answer, lines


async def wait_until_idle(server: Server) -> None:
    async with asyncio.timeout(60):
        while server.engine.active_count:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)


async def test_the_span_of_a_cancelled_run_has_its_partial_output() -> None:
    async with thread_server() as (http, server):
        answer, lines = await open_stream(http, "slow")
        (await http.post(f"/api/runs/{answer.headers['x-palaver-run-id']}/cancel")).raise_for_status()
        assert [line async for line in lines]
        await wait_until_idle(server)
        span = await get_span(http, await only_trace(http, server))

    assert (span["status"], span["finish"], span["exception"]) == ("cancelled", "cancelled", None)
    assert span["messages_out"] == [{"role": "assistant", "parts": [{"type": "text", "text": "begin "}]}]
    assert ("palaver.disconnected" in span["attributes"], span["events"]) == (False, [])


async def test_the_disconnect_of_a_caller_is_recorded_in_the_span() -> None:
    async with thread_server() as (http, server):
        answer, _ = await open_stream(http, "cancel")
        await answer.aclose()
        await wait_until_idle(server)
        span = await get_span(http, await only_trace(http, server))

    assert (span["status"], span["finish"]) == ("cancelled", "cancelled")
    assert span["messages_out"] == [{"role": "assistant", "parts": [{"type": "text", "text": "begin "}]}]
    assert span["attributes"]["palaver.disconnected"] is True
    assert [event["name"] for event in span["events"]] == ["palaver.disconnected"]


async def test_a_run_that_finishes_after_a_disconnect_records_output_and_disconnect() -> None:
    from tests.server.thread_client import release

    async with thread_server() as (http, server):
        answer, _ = await open_stream(http, "finish")
        await answer.aclose()
        await asyncio.sleep(0.05)
        release("Well?")
        await wait_until_idle(server)
        span = await get_span(http, await only_trace(http, server))

    assert (span["status"], span["finish"]) == ("ok", "stop")
    assert span["messages_out"][0]["parts"] == [{"type": "text", "text": "begin end of Well?"}]
    assert span["attributes"]["palaver.disconnected"] is True


async def test_a_disconnect_cancels_the_steps_of_a_framework() -> None:
    tool_started = asyncio.Event()

    @chat(on_disconnect="cancel")
    async def slow(messages: list[Message]) -> AsyncIterator[str]:
        yield "begin"

        @tool
        async def wait() -> str:
            """Takes for ever."""
            tool_started.set()
            await asyncio.Event().wait()
            return "never"

        graph = create_agent(Scripted(turns=[tool_call_message(call("wait", "c1"))]), [wait], name="waiter")
        await graph.ainvoke({"messages": [HumanMessage("Hi")]})

    async with thread_server(slow) as (http, server):
        answer, _ = await open_stream(http, "slow")
        async with asyncio.timeout(60):
            await tool_started.wait()
        await answer.aclose()
        await wait_until_idle(server)
        row = await only_trace(http, server)
        shown = await tree(http, row["trace_id"])

    assert shown == [
        "workflow invoke_workflow slow: cancelled",
        [
            "agent invoke_agent waiter: cancelled",
            [
                "task model: ok",
                ["llm chat: ok"],
                "task tools: cancelled",
                ["tool execute_tool wait: cancelled"],
            ],
        ],
    ]
