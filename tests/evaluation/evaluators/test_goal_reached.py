"""goal_reached: whether the user of a conversation reached the goal, and in which turn."""

import re
from typing import Any

import msgspec
import pytest

from palaver.evaluation.case import Case
from palaver.testsets.scripts import read_script
from tests.evaluation.evaluator_helpers import answer
from tests.evaluation.fake_services import completion, make_context, openai, score_in_context, service

TURNS: list[dict[str, Any]] = [
    {"user": "Which adaptor?", "output": "The http adaptor."},
    {"user": "Why?", "output": "It speaks HTTP."},
]
REACHED_VERDICT = {"passed": True, "score": 1, "reason": "Told.", "turn": 1}


def conversation_case(**more: Any) -> Case:
    return answer(turns=TURNS, **more)


def scripted_case(goal: str) -> Case:
    script = read_script({"turns": [{"user": "Which adaptor?"}], "expect": {"goal": goal}})
    return msgspec.structs.replace(conversation_case(expected={"goal": "another"}), script=script)


async def score_goal(case: Case, verdicts: Any = REACHED_VERDICT, **parameters: Any) -> tuple[Any, str]:
    verdicts = verdicts if isinstance(verdicts, list) else [verdicts]
    async with service([completion(one) for one in verdicts]) as fake:
        one = await score_in_context(
            "goal_reached", case, make_context(openai(fake.url), default_judge="openai/m"), **parameters
        )
    prompts = [request.body["messages"][1]["content"] for request in fake.requests]
    return one, re.sub(r" \w{16}>>>", ">>>", prompts[0]) if prompts else ""


async def test_the_details_have_the_turn_in_which_the_goal_was_reached() -> None:
    one, prompt = await score_goal(conversation_case(), goal="Know the adaptor.")

    assert (one.passed, one.score, one.reason, one.details) == (True, 1, "Told.", {"turn": 1})
    assert "The goal: <<<goal>>>Know the adaptor.<<<end>>>" in prompt
    assert (
        "<<<conversation>>>\n<<<turn 0>>>\n<<<user>>>\nWhich adaptor?\n<<<assistant>>>\nThe http adaptor.\n"
        "<<<turn 1>>>\n<<<user>>>\nWhy?\n<<<assistant>>>\nIt speaks HTTP.\n<<<end>>>" in prompt
    )


@pytest.mark.parametrize(
    ("case", "goal"),
    [
        (conversation_case(expected={"goal": "Of the row."}), "Of the row."),
        (scripted_case("Of the script."), "Of the script."),
    ],
)
async def test_the_goal_comes_from_the_script_or_the_row(case: Case, goal: str) -> None:
    _, prompt = await score_goal(case)

    assert f"<<<goal>>>{goal}<<<end>>>" in prompt


@pytest.mark.parametrize("expected", [{}, {"expected": "text"}, {"expected": {"goal": " "}}])
async def test_a_case_without_a_goal_is_skipped(expected: dict[str, Any]) -> None:
    one, prompt = await score_goal(conversation_case(**expected))

    assert (one.status, one.reason, prompt) == (
        "skipped",
        "no_goal: neither the parameters nor the row specify a goal",
        "",
    )


@pytest.mark.parametrize(
    ("verdict", "turn"),
    [
        ({"passed": False, "score": 0, "reason": "", "turn": 0}, None),
        ({"passed": True, "score": 1, "reason": "", "turn": 7}, None),
        ({"passed": True, "score": 1, "reason": "", "turn": None}, None),
        ({"passed": True, "score": 1, "reason": ""}, None),
        ({"passed": True, "score": 1, "reason": "", "turn": 0}, 0),
    ],
)
async def test_a_turn_is_reported_only_if_it_exists_and_the_goal_was_reached(
    verdict: dict[str, Any], turn: int | None
) -> None:
    one, _ = await score_goal(conversation_case(), verdict, goal="Any.")

    assert one.details == {"turn": turn}


async def test_of_several_verdicts_the_turn_is_the_one_named_most_often() -> None:
    verdicts = [{**REACHED_VERDICT, "turn": turn} for turn in (0, 1, 1)]

    one, _ = await score_goal(conversation_case(), verdicts, goal="Any.", samples=3)

    assert (one.passed, one.score, one.details["turn"]) == (True, 1, 1)


async def test_the_prompt_can_be_customized() -> None:
    _, prompt = await score_goal(conversation_case(expected="E"), goal="G", prompt="{{goal}} {{text}} {{expected}}")

    assert prompt.endswith("<<<goal>>>G<<<end>>> <<<text>>>It speaks HTTP.<<<end>>> <<<expected>>>E<<<end>>>")
