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

MADE = (
    ToolCall(call_id="c1", name="delete", arguments='{"x":1}'),
    ToolCall(call_id="c2", name="look", arguments="{}"),
    ToolCall(call_id="c3", name="delete", arguments='{"x":2}'),
)


@tool
async def delete(x: int) -> str:  # In no thread: of two that run at once, the first would be a matter of chance.
    """Delete a thing."""
    return f"deleted {x}"


@tool
async def look() -> str:
    """Look around."""
    return "nothing here"


def careful(*, again: bool = False) -> Any:
    """An agent that asks before it deletes."""
    pieces = [(index, created.call_id, created.name, created.arguments) for index, created in enumerate(MADE)]
    more = [tool_call_chunks((0, "c4", "delete", '{"x":3}'))] if again else []
    model = Scripted(turns=[[*words("So:"), *tool_call_chunks(*pieces)], *more, words("Done.")])
    review = HumanInTheLoopMiddleware(interrupt_on={"delete": {"allowed_decisions": ["approve", "reject"]}})
    return chat(create_agent(model, [delete, look], middleware=[review], checkpointer=InMemorySaver()), name="careful")


def answered(own: Any, approve: Any = True, **reason: str) -> Data:
    return Data(name="approval-response", value={"id": own, "approve": approve, **reason})


def requests(run: Run) -> list[Any]:
    parts = [part for message in reply_of(run).messages for part in message.parts]
    return [part.value for part in parts if isinstance(part, Data) and part.name == "approval-request"]


def failure(run: Run) -> tuple[str, str, int | None]:
    end = run.log[-1]
    assert isinstance(end, RunFailed)
    return end.code, end.message, end.status


def question(own: str, arguments: str, interrupt: str) -> dict[str, Any]:
    return {
        "id": own,
        "call_id": own,
        "name": "delete",
        "arguments": arguments,
        "message": f"Tool execution requires approval\n\nTool: delete\nArgs: {{'x': {arguments[5]}}}",
        "decisions": ["approve", "reject"],
        "interrupt": interrupt,
    }


# Actions that wait for approval


async def test_each_action_is_asked_about_by_the_call_that_it_is() -> None:
    run = await run_to_end(careful(), QUESTION, session="s")
    http_request = requests(run)
    own = http_request[0]["interrupt"]

    assert http_request == [question("c1", '{"x":1}', own), question("c3", '{"x":2}', own)]
    assert reply_of(run).messages[0].tool_calls == list(MADE)
    assert reply_of(run).finish == "tool-calls"


async def test_the_graph_goes_on_when_all_are_answered() -> None:
    bot = careful()
    await run_to_end(bot, QUESTION, session="s")
    answers = Message.user(answered("c3", False, reason="Keep it."), answered("c1"))

    # The client sent the calls along: those that it answers are not said again.
    run = await run_to_end(bot, QUESTION, Message.assistant("So:", *MADE), answers, session="s")
    results = {result.call_id: result for message in reply_of(run).messages for result in message.tool_results}

    assert results["c1"] == ToolResult(call_id="c1", output="deleted 1")
    assert (results["c3"].output.endswith("Keep it."), results["c3"].is_error) == (True, True)
    assert [call.call_id for message in reply_of(run).messages for call in message.tool_calls] == ["c2"]
    assert reply_of(run).messages[-1] == Message.assistant("Done.")
    assert reply_of(run).finish == "stop"


async def test_calls_that_the_client_did_not_send_are_announced_with_their_results() -> None:
    bot = careful()
    await run_to_end(bot, QUESTION, session="s")
    run = await run_to_end(bot, Message.user(answered("c1"), answered("c3")), session="s")
    messages = reply_of(run).messages

    assert {call for message in messages for call in message.tool_calls} == set(MADE)
    assert {result.call_id for message in messages for result in message.tool_results} == {"c1", "c2", "c3"}
    assert messages[-1] == Message.assistant("Done.")


async def test_a_run_that_goes_on_may_ask_again() -> None:
    bot = careful(again=True)
    await run_to_end(bot, QUESTION, session="s")
    run = await run_to_end(bot, Message.user(answered("c1"), answered("c3")), session="s")
    http_request = requests(run)

    assert http_request == [question("c4", '{"x":3}', http_request[0]["interrupt"])]
    assert reply_of(await run_to_end(bot, Message.user(answered("c4")), session="s")).messages[-1] == Message.assistant(
        "Done."
    )


REFUSED: dict[str, tuple[list[Data], tuple[str, str, int]]] = {
    "some are missing": (
        [answered("c1")],
        ("approval_pending", "These approvals are not answered yet: c3.", 400),
    ),
    "one that nobody asked for": (
        [answered("c1"), answered("c2"), answered("c3")],
        ("approval_not_found", "Nothing here waits for an approval of 'c2'.", 404),
    ),
    "one that says neither yes nor no": (
        [answered("c1"), answered("c3", "yes")],
        ("approval_pending", "These approvals are not answered yet: c3.", 400),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_answers_that_do_not_fit_are_refused_and_change_nothing(case: str) -> None:
    answers, wrong = REFUSED[case]
    bot = careful()
    await run_to_end(bot, QUESTION, session="s")

    assert failure(await run_to_end(bot, Message.user(*answers), session="s")) == wrong
    assert requests(await run_to_end(bot, Message.user(answered("c1"), answered("c3")), session="s")) == []


async def test_what_is_not_pending_cannot_be_approved() -> None:
    nothing = ("approval_not_found", "Nothing here waits for an approval.", 404)
    bot = careful()

    assert failure(await run_to_end(bot, Message.user(answered("c1")), session="new")) == nothing
    await run_to_end(bot, QUESTION, session="s")
    await run_to_end(bot, Message.user(answered("c1"), answered("c3")), session="s")
    assert failure(await run_to_end(bot, Message.user(answered("c1"), answered("c3")), session="s")) == nothing


async def test_a_run_that_waits_may_be_answered_with_words_instead() -> None:
    bot = careful()
    await run_to_end(bot, QUESTION, session="s")

    assert reply_of(await run_to_end(bot, Message.user("Never mind."), session="s")) == reply(
        Message.assistant("Done.")
    )


# Interrupts with any other value


def asking(*values: Any, **given: Any) -> Any:
    """A graph with a node for each value, which interrupts with it and says what it was resumed with."""
    graph = StateGraph(MessagesState)
    for number, value in enumerate(values):

        def node(state: Any, value: Any = value) -> Any:
            return {"messages": [AIMessage(f"{interrupt(value)!r}")]}

        graph.add_node(f"n{number}", node).add_edge(START, f"n{number}")
    return chat(graph.compile(checkpointer=InMemorySaver(), **given), name="asking")


@pytest.mark.parametrize(
    ("value", "arguments", "message"),
    [("Go on?", '"Go on?"', "Go on?"), ({"q": "ä"}, '{"q":"ä"}', None), (None, "null", None)],
)
async def test_any_other_value_is_one_question(value: Any, arguments: str, message: str | None) -> None:
    bot = asking(value)
    run = await run_to_end(bot, QUESTION, session="s")
    (call,) = requests(run)

    assert call == {
        "id": f"int_{call['interrupt']}",
        "call_id": None,
        "name": "interrupt",
        "arguments": arguments,
        "message": message,
        "decisions": ["approve", "reject"],
        "interrupt": call["interrupt"],
    }
    assert reply_of(run).finish == "tool-calls"
    assert reply_of(await run_to_end(bot, Message.user(answered(call["id"])), session="s")) == reply(
        Message.assistant("True")
    )


async def test_a_rejection_is_what_the_graph_goes_on_with() -> None:
    bot = asking("Go on?")
    (call,) = requests(await run_to_end(bot, QUESTION, session="s"))
    run = await run_to_end(bot, Message.user(answered(call["id"], False)), session="s")

    assert reply_of(run) == reply(Message.assistant("False"))


async def test_the_input_resume_goes_to_the_graph_as_it_is() -> None:
    bot = asking("Go on?")
    nothing = await run_to_end(bot, QUESTION, session="s", inputs={"resume": 1})
    await run_to_end(bot, QUESTION, session="s")
    run = await run_to_end(bot, session="s", inputs={"resume": {"at": "noon"}})

    assert failure(nothing) == ("approval_not_found", "Nothing here waits for an approval.", 404)
    assert reply_of(run) == reply(Message.assistant("{'at': 'noon'}"))


async def test_several_interrupts_are_answered_together() -> None:
    bot = asking("One?", "Two?")
    http_request = {each["message"]: each["id"] for each in requests(await run_to_end(bot, QUESTION, session="s"))}
    answers = [answered(http_request["One?"]), answered(http_request["Two?"], False)]
    run = await run_to_end(bot, Message.user(*answers), session="s")

    assert sorted(message.text for message in reply_of(run).messages) == ["False", "True"]


async def test_an_action_that_is_no_call_is_asked_about_all_the_same() -> None:
    bot = asking({"action_requests": [{"name": "wipe", "args": {}, "description": "Wipe?"}]})
    (call,) = requests(await run_to_end(bot, QUESTION, session="s"))
    run = await run_to_end(bot, Message.user(answered(call["id"], False)), session="s")

    assert (call["id"], call["call_id"]) == (f"int_{call['interrupt']}.1", None)
    assert reply_of(run) == reply(Message.assistant("{'decisions': [{'type': 'reject'}]}"))


async def test_a_graph_without_a_checkpointer_asks_but_cannot_go_on() -> None:
    def node(state: Any) -> Any:
        interrupt("Go on?")

    graph = StateGraph(MessagesState)
    graph.add_node("node", node).add_edge(START, "node")
    bot = chat(graph.compile())
    (call,) = requests(await run_to_end(bot, QUESTION, session="s"))

    assert failure(await run_to_end(bot, Message.user(answered(call["id"])), session="s"))[0] == "approval_not_found"


async def test_an_interrupt_inside_a_subgraph_is_the_graphs() -> None:
    inner = careful().thing.builder.compile()
    graph = StateGraph(MessagesState)
    graph.add_node("inner", inner).add_edge(START, "inner")
    bot = chat(graph.compile(checkpointer=InMemorySaver()))
    http_request = requests(await run_to_end(bot, QUESTION, session="s"))
    run = await run_to_end(bot, Message.user(*[answered(each["id"]) for each in http_request]), session="s")

    assert [each["id"] for each in http_request] == ["c1", "c3"]
    assert reply_of(run).messages[-1] == Message.assistant("Done.")


async def test_a_call_that_the_user_saw_otherwise_is_not_approved() -> None:
    bot = careful()
    await run_to_end(bot, QUESTION, session="s")
    seen = Message.assistant(ToolCall(call_id="c1", name="delete", arguments='{"x":7}'))
    run = await run_to_end(bot, QUESTION, seen, Message.user(answered("c1"), answered("c3")), session="s")

    assert failure(run) == (
        "stale_base",
        "The call 'c1' that waits for approval has other arguments than the one approved.",
        409,
    )


async def test_a_key_of_the_state_may_be_called_resume() -> None:
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


async def test_approvals_over_responses() -> None:
    call = {"role": "user", "content": "Well?"}
    thread = {"thread_id": "s"}

    def answer(own: str, **given: Any) -> dict[str, Any]:
        return {"type": "mcp_approval_response", "approval_request_id": own, **given}

    async with client(careful()) as http:
        first = await http.post("/v1/responses", json={"input": [call], "custom_inputs": thread})
        history = [call, *first.json()["output"], answer("c1", approve=True)]
        some = await http.post("/v1/responses", json={"input": history, "custom_inputs": thread})
        history.append(answer("c3", approve=False, reason="Keep it."))
        all_of_them = await http.post("/v1/responses", json={"input": history, "custom_inputs": thread})

    assert [(item["type"], item["id"]) for item in first.json()["output"][1:]] == [
        ("function_call", "fc_c1"),
        ("function_call", "fc_c2"),
        ("function_call", "fc_c3"),
        ("mcp_approval_request", "c1"),
        ("mcp_approval_request", "c3"),
    ]
    assert (some.status_code, some.json()["error"]["code"]) == (400, "approval_pending")
    assert [(item["type"], item["id"]) for item in all_of_them.json()["output"][:-1]] == [
        ("function_call_output", "fco_c3"),
        ("function_call_output", "fco_c1"),
        ("function_call", "fc_c2"),
        ("function_call_output", "fco_c2"),
    ]


async def test_a_model_may_count_its_calls_anew_in_every_turn() -> None:
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
    (call,) = requests(await run_to_end(bot, QUESTION, *before, QUESTION, session="s"))
    run = await run_to_end(bot, QUESTION, *before, QUESTION, Message.user(answered("c1")), session="s")

    assert (call["id"], call["name"]) == ("c1", "delete")
    assert reply_of(run) == reply(
        Message.assistant(ToolCall(call_id="c1", name="delete", arguments='{"x":1}')),
        Message.tool("c1", "deleted 1"),
        Message.assistant("Done."),
    )
