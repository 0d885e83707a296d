"""human: questions to reviewers; skipped until they are answered."""

from typing import Any

import pytest

from palaver.core.messages import Message
from tests.evaluation.evaluators.fake_judge import bind_error, chat, score_record

QUESTION = {"key": "correct", "type": "boolean"}


async def test_the_score_is_skipped_until_reviewers_have_answered() -> None:
    scored = await score_record("human", chat(Message.assistant("Hi")), {"questions": [QUESTION]})

    assert (scored.status, scored.reason) == ("skipped", "awaiting_review: unanswered questions: 1")


@pytest.mark.parametrize(
    "question",
    [
        {"key": "tone", "type": "choice", "choices": ["warm", "cold"]},
        {"key": "grade", "type": "score", "range": [1, 5], "required": False},
        {"key": "note", "type": "text"},
    ],
)
async def test_questions_of_each_type_are_accepted(question: dict[str, Any]) -> None:
    assert (await score_record("human", chat(), {"questions": [QUESTION, question]})).status == "skipped"


@pytest.mark.parametrize(
    ("question", "pointer"),
    [
        ({"key": "tone", "type": "choice"}, "/parameters/questions/1/choices"),
        ({"key": "tone", "choices": ["a"]}, "/parameters/questions/1/choices"),
        ({"key": "tone", "range": [1, 5]}, "/parameters/questions/1/range"),
        ({"key": "tone", "type": "score", "range": [5, 1]}, "/parameters/questions/1/range"),
        ({"key": "correct"}, "/parameters/questions/1/key"),
        ({"key": "tone", "type": "stars"}, "/parameters/questions/1/type"),
    ],
)
def test_an_invalid_question_is_rejected(question: dict[str, Any], pointer: str) -> None:
    assert bind_error("human", {"questions": [QUESTION, question]})[0] == pointer
