"""human: what people say of a case. It waits until they have said it."""

from typing import Any

from palaver.evaluation.judging.questions import Question, Questions, check
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Skip


def _check(parameters: Any, _reach: Reach) -> None:
    check(parameters.questions, "/parameters/questions")


_CORRECT = Question(key="correct")


@evaluator(check=_check)
async def human(
    case: Case,  # noqa: ARG001 - people look at it, we do not
    questions: Questions = [_CORRECT],  # noqa: B006 - never changed
) -> None:
    """Skipped until people have answered the questions in a review."""
    raise Skip("awaiting_review", f"{len(questions)} questions wait for a person")
