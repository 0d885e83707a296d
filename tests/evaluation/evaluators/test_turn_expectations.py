"""turn_expectations: each turn of a script meets the expectations of the script."""

from typing import Any

import msgspec
import pytest

from palaver.core.messages import Message
from palaver.evaluation.case import Turn
from tests.evaluation.evaluators.fake_judge import call, chat, conversation_case, score_record, score_summary, turn


def text_turn(text: str, expect: Any = None) -> Turn:
    return turn(Message.assistant(text), user=Message.user("?"), expect=expect)


def unreached_turn(expect: Any = None) -> Turn:
    return msgspec.structs.replace(text_turn("", expect), reached=False)


HALF_MET = {"text": "Hi", "tools": "any"}


@pytest.mark.parametrize(
    ("turns", "aggregate", "expected"),
    [
        ([text_turn("Hi", {"text": "Hi"})], "mean", (True, 1, "")),
        ([text_turn("Hi", HALF_MET)], "mean", (False, 0.5, "turn 1, tools: no tool was called")),
        (
            [text_turn("Hi", {"text": "Hi"}), text_turn("Hi", HALF_MET)],
            "mean",
            (False, 0.75, "turn 2, tools: no tool was called"),
        ),
        (
            [text_turn("Hi", {"text": "Hi"}), text_turn("Hi", HALF_MET)],
            "min",
            (False, 0.5, "turn 2, tools: no tool was called"),
        ),
        ([text_turn("Hi", {"text": "Hi"}), text_turn("Ho")], "mean", (True, 1, "")),
        (
            [text_turn("Hi", {"text": "Hi"}), unreached_turn(HALF_MET)],
            "mean",
            (False, 0.5, "turn 2, text: not_reached; turn 2, tools: not_reached"),
        ),
        ([text_turn("Hi", {"text": "Hi"}), unreached_turn()], "mean", (False, 0.5, "turn 2, reached: not_reached")),
    ],
)
async def test_checks_of_all_turns_are_aggregated(turns: list[Turn], aggregate: str, expected: Any) -> None:
    assert await score_summary("turn_expectations", conversation_case(*turns), {"aggregate": aggregate}) == expected


async def test_the_checks_of_each_turn_are_in_the_details() -> None:
    scored = await score_record("turn_expectations", conversation_case(text_turn("Ho"), text_turn("Hi", HALF_MET)))

    assert scored.details == {
        "turns": [
            {"score": None, "checks": []},
            {
                "score": 0.5,
                "checks": [
                    {"name": "text", "passed": True, "reason": ""},
                    {"name": "tools", "passed": False, "reason": "no tool was called"},
                ],
            },
        ]
    }


async def test_a_case_without_expectations_is_skipped() -> None:
    assert await score_summary("turn_expectations", chat(Message.assistant(call("a")))) == (
        None,
        None,
        "no_expectations: no turn has expectations",
    )


@pytest.mark.parametrize(
    ("expect", "reason"),
    [
        (
            {"judge": "It is polite."},
            "not_available: turn 1, judge: the judge 'default' is not available in an offline context",
        ),
        ({"txet": "Hi"}, "invalid_expect: turn 1, expect: "),
        ({"text": {"matches": "^(a|a)*$"}}, "regex_timeout: turn 1, text: matching '^(a|a)*$' took longer than 0.1 s"),
    ],
)
async def test_a_check_that_cannot_be_made_is_an_error(expect: Any, reason: str) -> None:
    scored = await score_record("turn_expectations", conversation_case(text_turn("a" * 40 + "!", expect)))

    assert (scored.status, scored.reason[: len(reason)]) == ("error", reason)
