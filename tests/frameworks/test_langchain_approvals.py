"""Interrupts of a graph shown as approvals, and resuming it with the answers."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from palaver import Data, Message, ToolCall, ToolResult, chat
from palaver.core.events import RunFailed
from palaver.engine.run import Run
from palaver.testing import client
from tests.engine.run_factory import QUESTION, reply, reply_of, run_to_end
from tests.frameworks.langchain_models import Scripted, tool_call_chunks, words

TOOL_CALLS = (
    ToolCall(call_id="c1", name="delete", arguments='{"x":1}'),
    ToolCall(call_id="c2", name="look", arguments="{}"),
    ToolCall(call_id="c3", name="delete", arguments='{"x":2}'),
)


@tool
async def delete(x: int) -> str:  # Async: in threads, the order of two parallel calls would be random.
    """Delete a thing."""
    return f"deleted {x}"


@tool
async def look() -> str:
    """Look around."""
    return "nothing here"


def approval_agent(*, again: bool = False) -> Any:
    """An agent that requests approval before it deletes."""
    pieces = [
        (index, tool_call.call_id, tool_call.name, tool_call.arguments) for index, tool_call in enumerate(TOOL_CALLS)
    ]
    second_round = [tool_call_chunks((0, "c4", "delete", '{"x":3}'))] if again else []
    model = Scripted(turns=[[*words("So:"), *tool_call_chunks(*pieces)], *second_round, words("Done.")])
    review = HumanInTheLoopMiddleware(interrupt_on={"delete": {"allowed_decisions": ["approve", "reject"]}})
    return chat(create_agent(model, [delete, look], middleware=[review], checkpointer=InMemorySaver()), name="careful")


def approval_response(request_id: Any, approve: Any = True, **reason: str) -> Data:
    return Data(name="approval-response", value={"id": request_id, "approve": approve, **reason})


def approval_requests(run: Run) -> list[Any]:
    parts = [part for message in reply_of(run).messages for part in message.parts]
    return [part.value for part in parts if isinstance(part, Data) and part.name == "approval-request"]


def failure(run: Run) -> tuple[str, str, int | None]:
    end = run.log[-1]
    assert isinstance(end, RunFailed)
    return end.code, end.message, end.status


def expected_request(call_id: str, arguments: str, interrupt: str) -> dict[str, Any]:
    return {
        "id": call_id,
        "call_id": call_id,
        "name": "delete",
        "arguments": arguments,
        "message": f"Tool execution requires approval\n\nTool: delete\nArgs: {{'x': {arguments[5]}}}",
        "decisions": ["approve", "reject"],
        "interrupt": interrupt,
    }


# Actions that wait for approval


async def test_each_action_is_an_approval_request_with_the_id_of_its_tool_call() -> None:
    run = await run_to_end(approval_agent(), QUESTION, session="s")
    approvals = approval_requests(run)
    interrupt_id = approvals[0]["interrupt"]

    assert approvals == [
        expected_request("c1", '{"x":1}', interrupt_id),
        expected_request("c3", '{"x":2}', interrupt_id),
    ]
    assert reply_of(run).messages[0].tool_calls == list(TOOL_CALLS)
    assert reply_of(run).finish == "tool-calls"


async def test_the_graph_resumes_once_all_approvals_are_answered() -> None:
    bot = approval_agent()
    await run_to_end(bot, QUESTION, session="s")
    answers = Message.user(approval_response("c3", False, reason="Keep it."), approval_response("c1"))

    # The client sent the calls along: the ones that it answers are not repeated.
    run = await run_to_end(bot, QUESTION, Message.assistant("So:", *TOOL_CALLS), answers, session="s")
    results = {result.call_id: result for message in reply_of(run).messages for result in message.tool_results}

    assert results["c1"] == ToolResult(call_id="c1", output="deleted 1")
    assert (results["c3"].output.endswith("Keep it."), results["c3"].is_error) == (True, True)
    assert [call.call_id for message in reply_of(run).messages for call in message.tool_calls] == ["c2"]
    assert reply_of(run).messages[-1] == Message.assistant("Done.")
    assert reply_of(run).finish == "stop"


async def test_calls_that_the_client_did_not_send_are_returned_with_their_results() -> None:
    bot = approval_agent()
    await run_to_end(bot, QUESTION, session="s")
    run = await run_to_end(bot, Message.user(approval_response("c1"), approval_response("c3")), session="s")
    messages = reply_of(run).messages

    assert {call for message in messages for call in message.tool_calls} == set(TOOL_CALLS)
    assert {result.call_id for message in messages for result in message.tool_results} == {"c1", "c2", "c3"}
    assert messages[-1] == Message.assistant("Done.")


async def test_a_resumed_run_may_request_another_approval() -> None:
    bot = approval_agent(again=True)
    await run_to_end(bot, QUESTION, session="s")
    run = await run_to_end(bot, Message.user(approval_response("c1"), approval_response("c3")), session="s")
    approvals = approval_requests(run)

    assert approvals == [expected_request("c4", '{"x":3}', approvals[0]["interrupt"])]
    assert reply_of(await run_to_end(bot, Message.user(approval_response("c4")), session="s")).messages[
        -1
    ] == Message.assistant("Done.")


INVALID_ANSWERS: dict[str, tuple[list[Data], tuple[str, str, int]]] = {
    "some are missing": (
        [approval_response("c1")],
        ("approval_pending", "Answer all pending approvals together. Missing: c3.", 400),
    ),
    "one that nobody asked for": (
        [approval_response("c1"), approval_response("c2"), approval_response("c3")],
        ("approval_not_found", "Approval 'c2' is not pending.", 404),
    ),
    "one that says neither yes nor no": (
        [approval_response("c1"), approval_response("c3", "yes")],
        ("approval_pending", "Answer all pending approvals together. Missing: c3.", 400),
    ),
}


@pytest.mark.parametrize("case", INVALID_ANSWERS)
async def test_invalid_approval_answers_are_refused_and_leave_the_approvals_pending(case: str) -> None:
    answers, expected_error = INVALID_ANSWERS[case]
    bot = approval_agent()
    await run_to_end(bot, QUESTION, session="s")

    assert failure(await run_to_end(bot, Message.user(*answers), session="s")) == expected_error
    assert (
        approval_requests(
            await run_to_end(bot, Message.user(approval_response("c1"), approval_response("c3")), session="s")
        )
        == []
    )


async def test_approving_a_call_that_is_not_pending_is_refused_with_404() -> None:
    not_found = ("approval_not_found", "No approval is pending.", 404)
    bot = approval_agent()

    assert failure(await run_to_end(bot, Message.user(approval_response("c1")), session="new")) == not_found
    await run_to_end(bot, QUESTION, session="s")
    await run_to_end(bot, Message.user(approval_response("c1"), approval_response("c3")), session="s")
    assert (
        failure(await run_to_end(bot, Message.user(approval_response("c1"), approval_response("c3")), session="s"))
        == not_found
    )


async def test_a_user_message_instead_of_approvals_continues_the_thread() -> None:
    bot = approval_agent()
    await run_to_end(bot, QUESTION, session="s")

    assert reply_of(await run_to_end(bot, Message.user("Never mind."), session="s")) == reply(
        Message.assistant("Done.")
    )


# Interrupts with any other value


def interrupting_graph(*values: Any, **options: Any) -> Any:
    """A graph with a node for each value, which interrupts with it and answers with what it was resumed with."""
    graph = StateGraph(MessagesState)
    for number, value in enumerate(values):

        def node(state: Any, value: Any = value) -> Any:
            return {"messages": [AIMessage(f"{interrupt(value)!r}")]}

        graph.add_node(f"n{number}", node).add_edge(START, f"n{number}")
    return chat(graph.compile(checkpointer=InMemorySaver(), **options), name="asking")


@pytest.mark.parametrize(
    ("value", "arguments", "message"),
    [("Go on?", '"Go on?"', "Go on?"), ({"q": "ä"}, '{"q":"ä"}', None), (None, "null", None)],
)
async def test_an_interrupt_with_any_other_value_is_one_approval_request(
    value: Any, arguments: str, message: str | None
) -> None:
    bot = interrupting_graph(value)
    run = await run_to_end(bot, QUESTION, session="s")
    (approval,) = approval_requests(run)

    assert approval == {
        "id": f"int_{approval['interrupt']}",
        "call_id": None,
        "name": "interrupt",
        "arguments": arguments,
        "message": message,
        "decisions": ["approve", "reject"],
        "interrupt": approval["interrupt"],
    }
    assert reply_of(run).finish == "tool-calls"
    assert reply_of(await run_to_end(bot, Message.user(approval_response(approval["id"])), session="s")) == reply(
        Message.assistant("True")
    )


async def test_a_rejection_resumes_the_graph_with_false() -> None:
    bot = interrupting_graph("Go on?")
    (approval,) = approval_requests(await run_to_end(bot, QUESTION, session="s"))
    run = await run_to_end(bot, Message.user(approval_response(approval["id"], False)), session="s")

    assert reply_of(run) == reply(Message.assistant("False"))


async def test_the_resume_input_is_passed_to_the_graph_unchanged() -> None:
    bot = interrupting_graph("Go on?")
    too_early = await run_to_end(bot, QUESTION, session="s", inputs={"resume": 1})
    await run_to_end(bot, QUESTION, session="s")
    run = await run_to_end(bot, session="s", inputs={"resume": {"at": "noon"}})

    assert failure(too_early) == ("approval_not_found", "No approval is pending.", 404)
    assert reply_of(run) == reply(Message.assistant("{'at': 'noon'}"))


async def test_several_interrupts_are_answered_together() -> None:
    bot = interrupting_graph("One?", "Two?")
    ids_by_message = {
        each["message"]: each["id"] for each in approval_requests(await run_to_end(bot, QUESTION, session="s"))
    }
    answers = [approval_response(ids_by_message["One?"]), approval_response(ids_by_message["Two?"], False)]
    run = await run_to_end(bot, Message.user(*answers), session="s")

    assert sorted(message.text for message in reply_of(run).messages) == ["False", "True"]


async def test_an_action_without_a_matching_tool_call_is_still_an_approval_request() -> None:
    bot = interrupting_graph({"action_requests": [{"name": "wipe", "args": {}, "description": "Wipe?"}]})
    (approval,) = approval_requests(await run_to_end(bot, QUESTION, session="s"))
    run = await run_to_end(bot, Message.user(approval_response(approval["id"], False)), session="s")

    assert (approval["id"], approval["call_id"]) == (f"int_{approval['interrupt']}.1", None)
    assert reply_of(run) == reply(Message.assistant("{'decisions': [{'type': 'reject'}]}"))


async def test_a_graph_without_a_checkpointer_requests_approval_but_cannot_resume() -> None:
    def node(state: Any) -> Any:
        interrupt("Go on?")

    graph = StateGraph(MessagesState)
    graph.add_node("node", node).add_edge(START, "node")
    bot = chat(graph.compile())
    (approval,) = approval_requests(await run_to_end(bot, QUESTION, session="s"))

    assert (
        failure(await run_to_end(bot, Message.user(approval_response(approval["id"])), session="s"))[0]
        == "approval_not_found"
    )


async def test_an_interrupt_inside_a_subgraph_is_answered_through_the_outer_graph() -> None:
    inner = approval_agent().thing.builder.compile()
    graph = StateGraph(MessagesState)
    graph.add_node("inner", inner).add_edge(START, "inner")
    bot = chat(graph.compile(checkpointer=InMemorySaver()))
    approvals = approval_requests(await run_to_end(bot, QUESTION, session="s"))
    run = await run_to_end(bot, Message.user(*[approval_response(each["id"]) for each in approvals]), session="s")

    assert [each["id"] for each in approvals] == ["c1", "c3"]
    assert reply_of(run).messages[-1] == Message.assistant("Done.")


async def test_approving_a_call_with_other_arguments_is_refused_with_409() -> None:
    bot = approval_agent()
    await run_to_end(bot, QUESTION, session="s")
    seen = Message.assistant(ToolCall(call_id="c1", name="delete", arguments='{"x":7}'))
    run = await run_to_end(
        bot, QUESTION, seen, Message.user(approval_response("c1"), approval_response("c3")), session="s"
    )

    assert failure(run) == (
        "stale_base",
        "The pending call 'c1' has different arguments from the one that was approved.",
        409,
    )


async def test_a_state_key_may_be_named_resume() -> None:
    class State(MessagesState):
        resume: str

    def node(state: Any) -> Any:
        return {"messages": [AIMessage(state["resume"])]}

    graph = StateGraph(State)
    graph.add_node("node", node).add_edge(START, "node")
    bot = chat(graph.compile(checkpointer=InMemorySaver()))

    assert reply_of(await run_to_end(bot, QUESTION, session="s", inputs={"resume": "a"})) == reply(
        Message.assistant("a")
    )


async def test_approvals_are_requested_and_answered_over_the_responses_api() -> None:
    user_message = {"role": "user", "content": "Well?"}
    thread = {"thread_id": "s"}

    def answer(request_id: str, **fields: Any) -> dict[str, Any]:
        return {"type": "mcp_approval_response", "approval_request_id": request_id, **fields}

    async with client(approval_agent()) as http:
        first = await http.post("/v1/responses", json={"input": [user_message], "custom_inputs": thread})
        history = [user_message, *first.json()["output"], answer("c1", approve=True)]
        partial_response = await http.post("/v1/responses", json={"input": history, "custom_inputs": thread})
        history.append(answer("c3", approve=False, reason="Keep it."))
        final_response = await http.post("/v1/responses", json={"input": history, "custom_inputs": thread})

    assert [
        (item["type"], item.get("name"), item["status"], item["id"].rpartition("_")[2])
        for item in first.json()["output"][1:]
    ] == [
        ("mcp_call", "delete", "incomplete", "c1"),
        ("mcp_call", "look", "incomplete", "c2"),
        ("mcp_call", "delete", "incomplete", "c3"),
        ("mcp_approval_request", "delete", "completed", "c1"),
        ("mcp_approval_request", "delete", "completed", "c3"),
    ]
    assert (partial_response.status_code, partial_response.json()["error"]["code"]) == (400, "approval_pending")
    assert [
        (item["type"], item["name"], item["status"], item["approval_request_id"], item["id"].rpartition("_")[2])
        for item in final_response.json()["output"][:-1]
    ] == [
        ("mcp_call", "delete", "failed", "c3", "c3"),
        ("mcp_call", "delete", "completed", "c1", "c1"),
        ("mcp_call", "look", "completed", None, "c2"),
    ]


async def test_approval_works_when_a_model_reuses_call_ids_in_every_turn() -> None:
    turns = [
        tool_call_chunks((0, "c1", "look", "{}")),
        words("Nothing."),
        tool_call_chunks((0, "c1", "delete", '{"x":1}')),
        words("Done."),
    ]
    review = HumanInTheLoopMiddleware(interrupt_on={"delete": True})
    agent = create_agent(Scripted(turns=turns), [delete, look], middleware=[review], checkpointer=InMemorySaver())
    bot = chat(agent)
    before = reply_of(await run_to_end(bot, QUESTION, session="s")).messages
    (approval,) = approval_requests(await run_to_end(bot, QUESTION, *before, QUESTION, session="s"))
    run = await run_to_end(bot, QUESTION, *before, QUESTION, Message.user(approval_response("c1")), session="s")

    assert (approval["id"], approval["name"]) == ("c1", "delete")
    assert reply_of(run) == reply(
        Message.assistant(ToolCall(call_id="c1", name="delete", arguments='{"x":1}')),
        Message.tool("c1", "deleted 1"),
        Message.assistant("Done."),
    )
