"""combine: several evaluators combined into one."""

from typing import Any

import pytest

from palaver.core.messages import Message
from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.score import Score
from tests.evaluation.evaluators.fake_judge import bind_error, call, case_with_calls, chat, score_record, score_summary

CASE = case_with_calls(call("a"))
PASSING_PART = {"key": "tool_called", "parameters": {"names": "a"}}
FAILING_PART = {"key": "tool_not_called"}
HALF_PASSING_PART = {"key": "tool_called", "parameters": {"names": ["a", "b"]}}
SKIPPED_PART = {"key": "tool_arguments", "parameters": {"tool": "a"}}


@pytest.mark.parametrize(
    ("of", "parameters", "passed", "score"),
    [
        ([PASSING_PART], {}, True, 1),
        ([PASSING_PART, FAILING_PART], {}, False, 0.5),
        ([PASSING_PART, FAILING_PART], {"pass": "any"}, True, 0.5),
        ([FAILING_PART, HALF_PASSING_PART], {"pass": "any"}, False, 0.25),
        ([PASSING_PART, FAILING_PART], {"pass": "weighted"}, True, 0.5),
        ([PASSING_PART, FAILING_PART], {"pass": "weighted", "threshold": 0.6}, False, 0.5),
        ([{**PASSING_PART, "weight": 3}, FAILING_PART], {"pass": "weighted", "threshold": 0.75}, True, 0.75),
        ([PASSING_PART, HALF_PASSING_PART], {}, False, 0.75),
        ([PASSING_PART, SKIPPED_PART], {}, True, 1),
        (
            [{"key": "combine", "parameters": {"of": [PASSING_PART, FAILING_PART], "pass": "any"}}, PASSING_PART],
            {},
            True,
            0.75,
        ),
    ],
)
async def test_the_score_is_the_weighted_mean(of: list[Any], parameters: Any, passed: bool, score: float) -> None:
    scored = await score_record("combine", CASE, {"of": of, **parameters})

    assert (scored.passed, scored.score) == (passed, score)


async def test_the_children_are_in_the_details() -> None:
    scored = await score_record("combine", CASE, {"of": [PASSING_PART, {**FAILING_PART, "weight": 2}]})

    assert scored.reason == "tool_not_called: called a 1×"
    assert scored.details == {
        "of": [
            {
                "evaluator": "tool_called",
                "status": "scored",
                "passed": True,
                "score": 1,
                "label": None,
                "reason": "",
                "details": {"counts": {"a": 1}},
                "weight": 1,
            },
            {
                "evaluator": "tool_not_called",
                "status": "scored",
                "passed": False,
                "score": 0,
                "label": None,
                "reason": "called a 1×",
                "details": {"counts": {"a": 1}},
                "weight": 2,
            },
        ]
    }


async def test_combine_is_skipped_if_all_parts_are_skipped() -> None:
    assert await score_summary("combine", CASE, {"of": [SKIPPED_PART]}) == (
        None,
        None,
        "all_skipped: no_expected: the row has no expected answer",
    )


@evaluator
def breaks(case: Case) -> bool:
    raise OSError("gone")


@evaluator
def near(case: Case) -> float:
    return 0.4


@evaluator
def both(case: Case) -> list[Score]:
    return [Score(score=1, passed=True, name="one"), Score(score=0, passed=False, name="two")]


CONTEXT = OfflineContext([breaks, near, both])


async def test_an_error_of_one_part_is_an_error_of_the_combination() -> None:
    scored = await score_record("combine", CASE, {"of": [PASSING_PART, {"key": "breaks"}]}, CONTEXT)

    assert (scored.status, scored.reason) == ("error", "evaluator_failed: breaks: OSError: gone")


async def test_a_part_with_only_a_score_passes_at_the_threshold() -> None:
    assert await score_summary("combine", CASE, {"of": [{"key": "near"}]}, CONTEXT) == (False, 0.4, "")
    assert await score_summary("combine", CASE, {"of": [{"key": "near"}], "threshold": 0.4}, CONTEXT) == (True, 0.4, "")


async def test_a_part_with_several_scores_counts_as_one() -> None:
    assert await score_summary("combine", chat(Message.assistant("Hi")), {"of": [{"key": "both"}]}, CONTEXT) == (
        False,
        0.5,
        "",
    )


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"of": []}, "/parameters/of"),
        ({"of": [PASSING_PART, {"key": "gone"}]}, "/parameters/of/1/key"),
        ({"of": [{"key": "tool_called", "parameters": {"names": "a", "max": -1}}]}, "/parameters/of/0/parameters/max"),
        ({"of": [{**PASSING_PART, "weight": 0}]}, "/parameters/of/0/weight"),
        ({"of": [{**PASSING_PART, "wait": 1}]}, "/parameters/of/0"),
        ({"of": [PASSING_PART], "pass": "some"}, "/parameters/pass"),
        ({"of": [PASSING_PART], "pass_": "any"}, "/parameters/pass_"),
        ({"of": [PASSING_PART], "threshold": 2}, "/parameters/threshold"),
        ({"of": [{"key": "combine", "parameters": {"of": [{"key": "x"}]}}]}, "/parameters/of/0/parameters/of/0/key"),
    ],
)
def test_invalid_parameters_are_rejected_with_a_pointer(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("combine", parameters)[0] == pointer
