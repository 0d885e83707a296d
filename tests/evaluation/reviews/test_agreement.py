"""Agreement between reviewers, and between reviewers and a judge."""

from palaver.evaluation.review_questions import Question
from palaver.evaluation.reviews import Agreement, measure_agreement
from palaver.storage.evaluations.reviews import EvaluatorVerdict

CORRECT = Question(key="correct")
STYLE = Question(key="style", type="score", range=(1, 5))
TONE = Question(key="tone", type="choice", choices=["kind", "curt"])
WHY = Question(key="why", type="text", required=False)


def test_reviewers_are_compared_on_the_cells_that_both_answered() -> None:
    answers = {
        "bob": {0: {"correct": True}, 1: {"correct": True}, 2: {"correct": False}, 3: {"correct": True}},
        "ann": {0: {"correct": True}, 1: {"correct": False}, 2: {"correct": False}, 9: {"correct": True}},
        "cyd": {0: {"why": "Because."}},
    }

    [result] = measure_agreement([CORRECT, WHY], answers, {})

    assert result == Agreement(
        question="correct",
        type="boolean",
        raters=("ann", "bob"),
        kind="reviewers",
        n=3,
        percent=100 * 2 / 3,
        kappa=0.4,
    )


def test_reviewers_without_common_answers_are_listed_without_figures() -> None:
    answers = {"ann": {0: {"correct": True}}, "bob": {1: {"correct": True}}}

    [result] = measure_agreement([CORRECT], answers, {})

    assert (result.n, result.percent, result.kappa) == (0, None, None)


def test_a_judge_is_compared_by_the_verdict_field_of_the_question_type() -> None:
    answers = {
        "ann": {
            0: {"correct": True, "style": 5, "tone": "kind"},
            1: {"correct": False, "style": 1, "tone": "curt"},
            2: {"correct": True, "style": 3, "tone": "kind"},
        }
    }
    judge = {
        0: EvaluatorVerdict(True, 0.97, "kind"),
        1: EvaluatorVerdict(False, 0.0, "kind"),
        2: EvaluatorVerdict(False, 0.45, None),
        3: EvaluatorVerdict(True, 1.0, "kind"),
    }

    result = measure_agreement([CORRECT, STYLE, TONE], answers, {"judge": judge})

    assert [(one.question, one.kind, one.raters, one.n) for one in result] == [
        ("correct", "judge", ("ann", "judge"), 3),
        ("style", "judge", ("ann", "judge"), 3),
        ("tone", "judge", ("ann", "judge"), 2),
    ]
    assert [one.percent for one in result] == [100 * 2 / 3, 100.0, 50.0]
    assert result[1].kappa == 1.0
    assert result[2].kappa is None


def test_a_judge_without_a_comparable_verdict_is_left_out() -> None:
    assert (
        measure_agreement([TONE], {"ann": {0: {"tone": "kind"}}}, {"judge": {0: EvaluatorVerdict(True, 1.0, None)}})
        == []
    )
