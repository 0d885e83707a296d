"""Scripted conversations: played turn by turn, with canned tool results, and turns that were not reached."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import UNSET

from palaver import chat
from palaver.core.messages import Message, Text, Usage
from palaver.core.runs import Call, Origin
from palaver.engine.engine import Engine
from palaver.evaluation.case import Case, case_with_turns
from palaver.evaluation.context import record_spending
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.evaluators.expectations import check_turn
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.runner.call import WorkflowAnswer, WorkflowCaller
from palaver.evaluation.runner.script import (
    FIRST_PROMPT,
    MAX_TOOL_ROUNDS,
    CallSimulatedUser,
    CallWorkflow,
    PlayedScript,
    play_script,
)
from palaver.evaluation.score import ScoringError
from palaver.testsets.scripts import read_script
from tests.evaluation.evaluators.fake_judge import call

Histories = list[list[str]]


def format_messages(messages: Sequence[Message]) -> list[str]:
    """Return each message in short: `user: Hi`, `assistant: search({})`, `tool: 3`."""
    return [
        f"{message.role}: "
        + " ".join(
            [part.text for part in message.parts if isinstance(part, Text)]
            + [f"{part.name}({part.arguments})" for part in message.tool_calls]
            + [repr(part.output) for part in message.tool_results]
        )
        for message in messages
    ]


def scripted_workflow(*answers: WorkflowAnswer | Message | str) -> tuple[CallWorkflow, Histories]:
    """A workflow that gives these answers in order, and the histories it is called with."""
    requests: Histories = []
    remaining = list(answers)

    async def answer(history: tuple[Message, ...]) -> WorkflowAnswer:
        requests.append(format_messages(history))
        next_answer = remaining.pop(0)
        if isinstance(next_answer, WorkflowAnswer):
            return next_answer
        return WorkflowAnswer(
            messages=(Message.assistant(next_answer) if isinstance(next_answer, str) else next_answer,)
        )

    return answer, requests


async def play(
    script: dict[str, Any], answer: CallWorkflow, play_user: CallSimulatedUser | None = None
) -> PlayedScript:
    return await play_script(read_script(script), answer, OfflineContext(), play_user=play_user)


async def test_each_user_turn_is_a_call_with_the_history_so_far() -> None:
    answer, requests = scripted_workflow("A", "B")

    result = await play(
        {
            "start": [{"role": "system", "content": "S"}],
            "turns": [{"user": "a", "expect": {"text": "A"}}, {"assistant": "fixed"}, {"user": "b"}],
        },
        answer,
    )

    assert requests == [
        ["system: S", "user: a"],
        ["system: S", "user: a", "assistant: A", "assistant: fixed", "user: b"],
    ]
    assert format_messages(result.messages) == [*requests[1], "assistant: B"]
    assert [(turn.user and turn.user.text, turn.text, turn.expect) for turn in result.turns] == [
        ("a", "A", {"text": "A"}),
        ("b", "B", None),
    ]
    assert result.error is None


SEARCH_MESSAGE = Message.assistant(call("search", {"q": "http"}, "c1"))


async def test_a_client_tool_call_gets_its_canned_result() -> None:
    answer, requests = scripted_workflow(SEARCH_MESSAGE, "Found.")

    result = await play({"turns": [{"user": "a", "tool_results": {"search": {"output": {"hits": 1}}}}]}, answer)

    assert requests[1] == ["user: a", 'assistant: search({"q":"http"})', "tool: {'hits': 1}"]
    (turn,) = result.turns
    assert (turn.text, format_messages(turn.messages)) == ("Found.", [*requests[1][1:], "assistant: Found."])
    assert [(tool_call.name, tool_call.result) for tool_call in turn.tool_calls] == [("search", {"hits": 1})]


@pytest.mark.parametrize(
    ("turn_results", "script_results", "output"),
    [
        ({"search": {"output": 1}}, {"search": {"output": 2}}, "tool: 1"),
        ({}, {"search": {"output": 2}}, "tool: 2"),
        ({"search": [{"when": {"q": "ftp"}, "output": 1}, {"when": {"q": "http"}, "output": 2}]}, {}, "tool: 2"),
        ({"search": [{"when": {"q": "ftp"}, "output": 1}]}, {"search": {"output": 3}}, "tool: 3"),
        ({"search": {"output": None}}, {}, "tool: None"),
    ],
)
async def test_canned_results_of_the_turn_take_precedence_over_those_of_the_script(
    turn_results: Any, script_results: Any, output: str
) -> None:
    answer, requests = scripted_workflow(SEARCH_MESSAGE, "Found.")

    await play({"turns": [{"user": "a", "tool_results": turn_results}], "tool_results": script_results}, answer)

    assert requests[1][-1] == output


async def test_a_turn_ends_at_a_tool_call_without_a_canned_result() -> None:
    both = Message.assistant(call("search", {}, "c1"), call("save", {}, "c2"))
    answer, requests = scripted_workflow(both, "B")

    result = await play({"turns": [{"user": "a", "tool_results": {"search": {"output": 1}}}, {"user": "b"}]}, answer)

    assert requests[1] == ["user: a", "assistant: search({}) save({})", "user: b"]
    assert [tool_call.result for tool_call in result.turns[0].tool_calls] == [UNSET, UNSET]


async def test_parallel_tool_calls_get_canned_results_unless_they_have_a_result() -> None:
    reply = WorkflowAnswer(
        messages=(
            Message.assistant(call("own", {}, "c0"), call("search", {}, "c1"), call("save", {}, "c2")),
            Message.tool("c0", "mine"),
        )
    )
    answer, requests = scripted_workflow(reply, "Done.")

    result = await play(
        {"turns": [{"user": "a"}], "tool_results": {"search": {"output": 1}, "save": {"output": 2}}}, answer
    )

    assert requests[1][2:] == ["tool: 'mine'", "tool: 1", "tool: 2"]
    assert [tool_call.result for tool_call in result.turns[0].tool_calls] == ["mine", 1, 2]


async def test_tool_rounds_are_limited() -> None:
    answer, requests = scripted_workflow(*[SEARCH_MESSAGE] * 20)

    result = await play({"turns": [{"user": "a"}], "tool_results": {"search": {"output": 1}}}, answer)

    assert len(requests) == MAX_TOOL_ROUNDS + 1
    assert len(result.turns[0].tool_calls) == MAX_TOOL_ROUNDS + 1


async def test_usage_and_latency_of_a_turns_calls_are_summed() -> None:
    first = WorkflowAnswer(
        messages=(SEARCH_MESSAGE,),
        usage=Usage(input_tokens=1, output_tokens=2),
        finish="tool-calls",
        latency=0.5,
        first_output=0.25,
    )
    second = WorkflowAnswer(
        messages=(Message.assistant("A"),),
        usage=Usage(input_tokens=3, output_tokens=4),
        finish="length",
        latency=0.25,
        first_output=0.1,
    )
    answer, _ = scripted_workflow(first, second)

    result = await play({"turns": [{"user": "a"}], "tool_results": {"search": {"output": 1}}}, answer)

    (turn,) = result.turns
    assert (turn.usage, turn.finish, turn.latency, turn.first_output) == (
        Usage(input_tokens=4, output_tokens=6),
        "length",
        0.75,
        0.25,
    )


THREE_TURNS = [
    {"user": "a", "expect": {"text": "A"}},
    {"assistant": "f"},
    {"user": "b", "expect": {"text": "B"}},
    {"user": "c"},
]


@pytest.mark.parametrize(
    ("answers", "stop", "reached"),
    [
        (["A", "B", "C"], "on-failure", [True, True, True]),
        (["X"], "on-failure", [True, False, False]),
        (["A", "X"], "on-failure", [True, True, False]),
        (["X", "X", "X"], "never", [True, True, True]),
    ],
)
async def test_a_script_may_stop_at_the_first_failed_turn(answers: list[str], stop: str, reached: list[bool]) -> None:
    answer, requests = scripted_workflow(*answers)

    result = await play({"turns": THREE_TURNS, "stop": stop}, answer)

    assert [turn.reached for turn in result.turns] == reached
    assert [turn.user and turn.user.text for turn in result.turns] == ["a", "b", "c"]
    assert [turn.expect for turn in result.turns] == [{"text": "A"}, {"text": "B"}, None]
    assert len(requests) == len(answers)


async def test_a_check_that_cannot_be_made_does_not_stop_the_script() -> None:
    answer, requests = scripted_workflow("A", "B")

    await play({"turns": [{"user": "a", "expect": {"judge": "Polite."}}, {"user": "b"}], "stop": "on-failure"}, answer)

    assert len(requests) == 2


class JudgeContext(OfflineContext):
    """A judge that passes answers with an A, and has a cost per verdict."""

    def __init__(self, *faults: ScoringError) -> None:
        super().__init__()
        self.requests = 0
        self.faults = list(faults)

    async def judge(self, judge: str, prompt: str, *, schema: Any, retries: int = 2) -> Any:
        self.requests += 1
        if self.faults:
            raise self.faults.pop()
        record_spending(Usage(10, 2), 0.5)
        return {"passed": ">A<" in prompt, "reason": f"verdict {self.requests}"}


JUDGED_TURNS: list[dict[str, Any]] = [{"user": text, "expect": {"judge": "It is an A."}} for text in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("answers", "stop", "judge_calls", "reason"),
    [
        (["A", "B"], "on-failure", 2, "turn 2, judge: verdict 2; turn 3, judge: not_reached"),
        (["A", "A", "A"], "on-failure", 3, ""),
        (["A", "B", "A"], "never", 3, "turn 2, judge: verdict 2"),
    ],
)
async def test_a_judge_is_called_once_per_turn_for_stopping_and_for_the_score(
    answers: list[str], stop: str, judge_calls: int, reason: str
) -> None:
    answer, _ = scripted_workflow(*answers)
    context = JudgeContext()

    result = await play_script(read_script({"turns": JUDGED_TURNS, "stop": stop}), answer, context)
    (score,) = await built_in()["turn_expectations"].bind({}, context).score(case_with_turns(Case(), result.turns))

    assert (context.requests, score.reason, score.passed) == (judge_calls, reason, not reason)
    assert (score.usage, score.cost) == (Usage(10 * judge_calls, 2 * judge_calls), 0.5 * judge_calls)


async def test_a_judge_that_failed_during_the_script_is_called_again_for_the_score() -> None:
    answer, _ = scripted_workflow("A", "A", "A")
    context = JudgeContext(ScoringError("judge_failed", "it is away"))

    result = await play_script(read_script({"turns": JUDGED_TURNS, "stop": "on-failure"}), answer, context)
    (score,) = await built_in()["turn_expectations"].bind({}, context).score(case_with_turns(Case(), result.turns))

    assert (context.requests, score.passed) == (4, True)


async def test_a_failed_call_ends_the_script_and_keeps_the_partial_answer() -> None:
    answer, _ = scripted_workflow(
        "A", WorkflowAnswer(messages=(Message.assistant("Half"),), finish="error", error={"code": "timeout"})
    )

    result = await play({"turns": THREE_TURNS}, answer)

    assert result.error == {"code": "timeout"}
    assert [(turn.text, turn.reached, turn.finish) for turn in result.turns] == [
        ("A", True, "stop"),
        ("Half", True, "error"),
        ("", False, "stop"),
    ]


async def test_tool_calls_of_a_failed_answer_get_no_canned_results() -> None:
    answer, requests = scripted_workflow(WorkflowAnswer(messages=(SEARCH_MESSAGE,), error={"code": "gone"}))

    result = await play({"turns": [{"user": "a"}], "tool_results": {"search": {"output": 1}}}, answer)

    assert (result.error, len(requests)) == ({"code": "gone"}, 1)


# Simulated users


def simulated_user(*texts: str | WorkflowAnswer) -> tuple[CallSimulatedUser, Histories]:
    answer, requests = scripted_workflow(*texts)

    async def speak(name: str, history: tuple[Message, ...]) -> WorkflowAnswer:
        assert name == "persona"
        return await answer(history)

    return speak, requests


def simulated_turn(**more: Any) -> dict[str, Any]:
    return {"simulate": {"workflow": "persona", "goal": "Know the adaptor.", **more}}


async def test_a_workflow_simulates_the_user_with_roles_swapped() -> None:
    answer, requests = scripted_workflow("A", "B", "C")
    speak, received = simulated_user("What?", "Why?", "Thanks\n [DONE] ")

    result = await play(
        {"start": [{"role": "system", "content": "S"}], "turns": [{"user": "a"}, simulated_turn(persona="a nurse.")]},
        answer,
        speak,
    )

    system_prompt = (
        "system: You play the user in a conversation with an assistant. Write only what the user says next, nothing "
        "else.\nYou are a nurse.\nWhat you want: Know the adaptor.\n"
        "When you have it, or see that you will not get it, answer exactly [done]"
    )
    assert received == [
        [system_prompt, f"user: {FIRST_PROMPT}", "assistant: a", "user: A"],
        [system_prompt, f"user: {FIRST_PROMPT}", "assistant: a", "user: A", "assistant: What?", "user: B"],
        [
            system_prompt,
            f"user: {FIRST_PROMPT}",
            "assistant: a",
            "user: A",
            "assistant: What?",
            "user: B",
            "assistant: Why?",
            "user: C",
        ],
    ]
    assert requests[2] == ["system: S", "user: a", "assistant: A", "user: What?", "assistant: B", "user: Why?"]
    assert [(turn.user and turn.user.text, turn.text) for turn in result.turns] == [
        ("a", "A"),
        ("What?", "B"),
        ("Why?", "C"),
    ]


async def test_a_simulated_user_can_start_the_conversation_and_stops_after_max_turns() -> None:
    answer, requests = scripted_workflow("A", "B")
    speak, received = simulated_user("a", "b", "c")

    result = await play({"turns": [{**simulated_turn(max_turns=2), "expect": {"text": "B"}}]}, answer, speak)

    assert received[0][1:] == [f"user: {FIRST_PROMPT}"]
    assert (len(received), len(requests)) == (2, 2)
    assert [turn.expect for turn in result.turns] == [None, {"text": "B"}]


@pytest.mark.parametrize("message", ["[done]", "  \n"])
async def test_a_turn_is_not_reached_if_the_simulated_user_has_no_message(message: str) -> None:
    answer, _ = scripted_workflow()
    speak, _ = simulated_user(message)

    result = await play({"turns": [{**simulated_turn(), "expect": {"text": "B"}}]}, answer, speak)

    assert [(turn.user, turn.reached, turn.expect) for turn in result.turns] == [(None, False, {"text": "B"})]


async def test_canned_tool_results_apply_to_simulated_turns() -> None:
    answer, requests = scripted_workflow(SEARCH_MESSAGE, "Found.")
    speak, _ = simulated_user("a", "[done]")

    await play({"turns": [{**simulated_turn(), "tool_results": {"search": {"output": 1}}}]}, answer, speak)

    assert requests[1] == ["user: a", 'assistant: search({"q":"http"})', "tool: 1"]


async def test_a_failing_simulated_user_ends_the_script() -> None:
    answer, _ = scripted_workflow("A")
    speak, _ = simulated_user(
        WorkflowAnswer(messages=(Message.assistant("a"),)), WorkflowAnswer(error={"code": "gone"})
    )

    result = await play({"turns": [simulated_turn()]}, answer, speak)

    assert (result.error, [turn.text for turn in result.turns]) == ({"code": "gone"}, ["A"])


async def test_a_simulated_turn_without_a_user_workflow_is_rejected() -> None:
    with pytest.raises(ValueError, match="requires `play_user`"):
        await play({"turns": [simulated_turn()]}, scripted_workflow()[0])


# With a real workflow


@chat
async def weather(messages: list[Message]) -> Any:
    """Leaves the tool call to its client, and then answers with the result."""
    if messages[-1].role == "tool":
        return f"It is {messages[-1].tool_results[0].output['degrees']} degrees."
    return Message.assistant("One moment.", call("look_up", {"city": "Oslo"}, f"call_{len(messages)}"))


async def test_a_real_chat_plays_its_script() -> None:
    caller = WorkflowCaller(Engine(), timeout=60, retries=0)

    async def answer(history: tuple[Message, ...]) -> WorkflowAnswer:
        request = Call(workflow="weather", messages=history)
        return (await caller.call(weather, request, Origin(protocol="evaluation"))).answer

    expect = {"tools": [{"name": "look_up", "arguments": {"city": "Oslo"}}], "text": "21 degrees", "finish": "stop"}
    turn = {"user": "How warm is it?", "expect": expect}
    result = await play(
        {"turns": [turn, turn], "tool_results": {"look_up": {"output": {"degrees": 21}}}, "stop": "on-failure"}, answer
    )

    assert result.error is None
    assert [
        [check.passed for check in await check_turn(turn.expect, turn, OfflineContext())] for turn in result.turns
    ] == [
        [True, True, True],
        [True, True, True],
    ]
    assert format_messages(result.messages)[:4] == [
        "user: How warm is it?",
        'assistant: One moment. look_up({"city":"Oslo"})',
        "tool: {'degrees': 21}",
        "assistant: It is 21 degrees.",
    ]
