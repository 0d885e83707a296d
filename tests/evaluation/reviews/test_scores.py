"""Answers of several reviewers combined into one score of a `human` evaluator."""

from typing import Any

import pytest

from palaver.evaluation.plan.plan import Plan, PlannedEvaluator, PlannedTestset
from palaver.evaluation.review_questions import Question
from palaver.evaluation.reviews import ScoreSlot, find_score_slots, human_questions, score_answers

CORRECT = Question(key="correct")
STYLE = Question(key="style", type="score", range=(1, 5))
TONE = Question(key="tone", type="choice", choices=["kind", "curt"])
WHY = Question(key="why", type="text")


def plan(*evaluators: tuple[str, str, dict[str, Any]]) -> Plan:
    planned = [PlannedEvaluator(key=key, name=name, parameters=arguments) for key, name, arguments in evaluators]
    return Plan(name="p", testset=PlannedTestset(id="ts_1", name="s", revision=1), variants=[], evaluators=planned)


def test_questions_are_matched_to_evaluators_by_name_or_question_key() -> None:
    several = {"questions": [{"key": "style", "type": "score"}, {"key": "tone", "type": "choice", "choices": ["a"]}]}
    planned = plan(
        ("exact_match", "exact_match", {}), ("human", "human", {}), ("human", "look", {**several, "threshold": 0.5})
    )

    result = find_score_slots(planned, [CORRECT, TONE, WHY, STYLE, Question(key="look")])

    actual = [(one.question.key, one.evaluator, one.pending_name, one.name, one.threshold) for one in result]
    assert actual == [
        ("correct", 1, "human", "human", None),
        ("style", 2, "look", "look.style", 0.5),
        ("tone", 2, "look", "look.tone", 0.5),
        ("look", 2, "look", "look", 0.5),
    ]
    assert [question.key for question in human_questions(planned)] == ["correct", "style", "tone"]
    assert find_score_slots(plan(("exact_match", "correct", {})), [CORRECT]) == []


@pytest.mark.parametrize(
    ("question", "threshold", "answers", "passed", "score", "label"),
    [
        (CORRECT, None, [True], True, 1.0, None),
        (CORRECT, None, [True, False], False, 0.5, None),
        (CORRECT, 0.5, [True, False], True, 0.5, None),
        (CORRECT, None, [True, True, False], True, 2 / 3, None),
        (STYLE, None, [5, 3], None, 0.75, None),
        (STYLE, 0.8, [5, 3], False, 0.75, None),
        (Question(key="n", type="score"), None, [10, 20], None, 15.0, None),
        (TONE, None, ["curt", "kind", "kind"], None, None, "kind"),
        (WHY, None, ["So."], None, None, None),
    ],
)
def test_answers_of_several_reviewers_become_one_score(
    question: Question, threshold: float | None, answers: list[Any], passed: Any, score: Any, label: Any
) -> None:
    slot = ScoreSlot(question=question, evaluator=0, pending_name="h", name="h", threshold=threshold)
    result = score_answers(slot, answers)

    assert result is not None
    assert (result.passed, result.score, result.label) == (passed, score, label)
    assert result.details == {"answers": answers}
    assert score_answers(slot, []) is None
