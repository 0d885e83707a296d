"""per_turn: an evaluator applied to each turn of a conversation as a separate case."""

from typing import Any

import msgspec
import pytest

from palaver.core.messages import Message, Usage
from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluators.fake_judge import (
    bind_error,
    call,
    chat,
    conversation_case,
    score_record,
    score_summary,
    turn,
)

SEARCH_TURN = turn(Message.assistant(call("search")), user=Message.user("one"))
TEXT_TURN = turn(Message.assistant("Hi"), user=Message.user("two"))
UNREACHED_TURN = msgspec.structs.replace(TEXT_TURN, reached=False, messages=(), text="")
SEARCH_CALLED = {"evaluator": {"key": "tool_called", "parameters": {"names": "search"}}}


@pytest.mark.parametrize(
    ("turns", "aggregate", "expected"),
    [
        ([SEARCH_TURN, SEARCH_TURN], "mean", (True, 1, "")),
        ([SEARCH_TURN, TEXT_TURN], "mean", (False, 0.5, "failed in turn 2")),
        ([SEARCH_TURN, TEXT_TURN], "min", (False, 0, "failed in turn 2")),
        ([TEXT_TURN, SEARCH_TURN, TEXT_TURN], "min", (False, 0, "failed in turns 1, 3")),
        ([TEXT_TURN, SEARCH_TURN], "last", (True, 1, "")),
        ([SEARCH_TURN, TEXT_TURN], "last", (False, 0, "failed in turn 2")),
        ([SEARCH_TURN, UNREACHED_TURN], "mean", (False, 0.5, "failed in turn 2")),
        ([SEARCH_TURN, UNREACHED_TURN], "last", (False, 0, "failed in turn 2")),
        ([SEARCH_TURN], "mean", (True, 1, "")),
    ],
)
async def test_turns_are_scored_separately_and_aggregated(turns: list[Any], aggregate: str, expected: Any) -> None:
    assert (
        await score_summary("per_turn", conversation_case(*turns), {**SEARCH_CALLED, "aggregate": aggregate})
        == expected
    )


async def test_a_plain_case_is_one_turn() -> None:
    assert await score_summary("per_turn", chat(Message.assistant(call("search"))), SEARCH_CALLED) == (True, 1, "")


async def test_skipped_turns_are_left_out() -> None:
    budget = {"evaluator": {"key": "token_budget", "parameters": {"max_total": 5}}}
    with_usage = turn(Message.assistant("Hi"), usage=Usage(input_tokens=1, output_tokens=1))

    assert await score_summary("per_turn", conversation_case(with_usage, TEXT_TURN), budget) == (True, 1, "")
    assert await score_summary("per_turn", conversation_case(TEXT_TURN), budget) == (
        None,
        None,
        "no_turns: no turn could be scored",
    )


async def test_each_turn_is_a_case_with_all_earlier_messages_as_history() -> None:
    observed: list[Any] = []

    @evaluator
    async def looks(case: Case) -> bool:
        observed.append(([message.text for message in case.history], case.text, len(case.turns), case.expected))
        return True

    case = conversation_case(
        turn(Message.assistant("A"), user=Message.user("a")),
        turn(Message.assistant("B"), user=Message.user("b")),
        history=(Message.system("s"),),
        expected="E",
    )
    scored = await score_record("per_turn", case, {"evaluator": {"key": "looks"}}, OfflineContext([looks]))

    assert scored.passed
    assert observed == [(["s", "a"], "A", 1, "E"), (["s", "a", "A", "b"], "B", 1, "E")]


async def test_the_scores_of_each_turn_are_in_the_details() -> None:
    scored = await score_record("per_turn", conversation_case(SEARCH_TURN, UNREACHED_TURN), SEARCH_CALLED)

    assert scored.details == {
        "turns": [
            {
                "turn": 0,
                "scores": [
                    {
                        "evaluator": "tool_called",
                        "status": "scored",
                        "passed": True,
                        "score": 1,
                        "label": None,
                        "reason": "",
                        "details": {"counts": {"search": 1}},
                    }
                ],
            },
            {"turn": 1, "reached": False},
        ]
    }


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"evaluator": {"key": "gone"}}, "/parameters/evaluator/key"),
        ({"evaluator": {"key": "tool_called"}}, "/parameters/evaluator/parameters/names"),
        ({**SEARCH_CALLED, "aggregate": "max"}, "/parameters/aggregate"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("per_turn", parameters)[0] == pointer
