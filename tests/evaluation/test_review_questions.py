"""Review questions, and valid answers to them."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.review_questions import Question, check_answers, check_questions

CORRECT = Question(key="correct")
STYLE = Question(key="style", type="score", range=(1, 5), required=False)
TONE = Question(key="tone", type="choice", choices=["kind", "curt"], required=False)
WHY = Question(key="why", type="text", required=False)
QUESTIONS = [CORRECT, STYLE, TONE, WHY]


def test_answers_are_returned_in_the_order_of_the_questions() -> None:
    submitted = {"why": "So.", "tone": "kind", "style": 4.5, "correct": False}

    answers = check_answers(QUESTIONS, submitted)

    assert list(answers.items()) == [("correct", False), ("style", 4.5), ("tone", "kind"), ("why", "So.")]
    assert check_answers(QUESTIONS, {"correct": True, "style": None}) == {"correct": True}


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "Question 'correct' requires an answer."),
        ({"correct": 1}, "The answer to 'correct' must be true or false."),
        ({"correct": True, "style": True}, "The answer to 'style' must be a number from 1 to 5."),
        ({"correct": True, "style": 6}, "The answer to 'style' must be a number from 1 to 5."),
        ({"correct": True, "style": "4"}, "The answer to 'style' must be a number from 1 to 5."),
        ({"correct": True, "tone": "rude"}, "The answer to 'tone' must be one of kind, curt."),
        ({"correct": True, "tone": ["kind"]}, "The answer to 'tone' must be one of kind, curt."),
        ({"correct": True, "why": 3}, "The answer to 'why' must be text of at most 20,000 characters."),
        ({"correct": True, "rest": 3}, "Unknown question 'rest'."),
    ],
)
def test_invalid_answers_are_rejected(answers: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        check_answers(QUESTIONS, answers)

    assert (raised.value.message, raised.value.pointer) == (message, "/answers")


def test_an_empty_set_of_answers_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="Answer at least one question"):
        check_answers([WHY], {})


@pytest.mark.parametrize(
    ("questions", "pointer"),
    [
        ([CORRECT, CORRECT], "/q/1/key"),
        ([Question(key="a", type="choice")], "/q/0/choices"),
        ([Question(key="a", choices=["b"])], "/q/0/choices"),
        ([Question(key="a", range=(0, 1))], "/q/0/range"),
        ([Question(key="a", type="score", range=(2, 2))], "/q/0/range"),
    ],
)
def test_invalid_questions_are_rejected(questions: list[Question], pointer: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        check_questions(questions, "/q")

    assert raised.value.pointer == pointer
