"""code: an author's registered evaluator, by name."""

from typing import Any

import pytest

from palaver.core.messages import Message
from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.score import Score, Skip
from tests.evaluation.evaluators.fake_judge import bind_error, chat, score_record, score_summary

CASE = chat(Message.assistant("please do"))


@evaluator(key="team.polite", threshold=0.5)
def polite(case: Case, words: list[str] = ["please"]) -> float:  # noqa: B006
    return sum(term in case.text for term in words) / len(words)


@evaluator
def several(case: Case) -> list[Score]:
    return [Score(passed=True, name="tone"), Score(score=0.5, name="length")]


@evaluator
def nothing(case: Case) -> None:
    raise Skip("too_short", "two words")


@evaluator
def breaks(case: Case) -> bool:
    raise OSError("gone")


CONTEXT = OfflineContext([polite, several, nothing, breaks])


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"ref": "team.polite"}, (True, 1, "")),
        ({"ref": "team.polite", "parameters": {"words": ["please", "thanks", "dear"]}}, (False, 0.3333, "")),
        ({"ref": "nothing"}, (None, None, "too_short: two words")),
        ({"ref": "breaks"}, (None, None, "evaluator_failed: breaks: OSError: gone")),
    ],
)
async def test_the_score_is_that_of_the_registered_evaluator(parameters: dict[str, Any], expected: Any) -> None:
    assert await score_summary("code", CASE, parameters, CONTEXT) == expected


async def test_skips_and_errors_of_the_registered_evaluator_are_passed_on() -> None:
    assert (await score_record("code", CASE, {"ref": "nothing"}, CONTEXT)).status == "skipped"
    assert (await score_record("code", CASE, {"ref": "breaks"}, CONTEXT)).status == "error"


async def test_several_scores_of_the_registered_evaluator_are_returned() -> None:
    scores = await built_in()["code"].bind({"ref": "several"}, CONTEXT, name="mine").score(CASE)

    assert [(one.evaluator, one.passed, one.score) for one in scores] == [
        ("mine.tone", True, 1),
        ("mine.length", None, 0.5),
    ]


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"ref": "gone"}, "/parameters/ref"),
        ({"ref": "import os"}, "/parameters/ref"),
        ({"ref": "exact_match"}, "/parameters/ref"),
        ({"ref": "code"}, "/parameters/ref"),
        ({"ref": "team.polite", "parameters": {"wörds": []}}, "/parameters/parameters/wörds"),
        ({"ref": "team.polite", "code": "1"}, "/parameters/code"),
        ({}, "/parameters/ref"),
    ],
)
def test_only_registered_evaluators_can_be_referenced(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("code", parameters, CONTEXT)[0] == pointer
