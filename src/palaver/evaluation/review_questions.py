"""Questions for human reviewers, and validation of their answers."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palaver.errors import InvalidValue

QuestionType = Literal["boolean", "choice", "score", "text"]
MAX_TEXT_LENGTH = 20_000


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question for reviewers."""

    key: Annotated[str, Meta(min_length=1, max_length=100)]
    """Name of the question, unique in the review."""
    type: QuestionType = "boolean"
    title: str = ""
    """The question as shown; by default the key."""
    choices: list[str] | None = None
    """Answers to choose from, for the type `choice`."""
    range: tuple[float, float] | None = None
    """Lowest and highest score, for the type `score`."""
    required: bool = True
    """Whether an answer is required."""


Questions = Annotated[list[Question], Meta(min_length=1, max_length=50, description="Questions for reviewers.")]


def check_questions(questions: Sequence[Question], pointer: str) -> None:
    """Raise InvalidValue for questions that cannot be answered."""
    keys = [question.key for question in questions]
    for index, question in enumerate(questions):
        question_pointer = f"{pointer}/{index}"
        if keys.index(question.key) != index:
            raise InvalidValue(f"Duplicate question {question.key!r}.", pointer=f"{question_pointer}/key")
        if (question.type == "choice") != bool(question.choices):
            raise InvalidValue(
                "Questions of type 'choice' require choices; other types don't allow them.",
                pointer=f"{question_pointer}/choices",
            )
        if question.range is not None and (question.type != "score" or question.range[0] >= question.range[1]):
            raise InvalidValue(
                "range must be [lowest, highest], and requires the type 'score'.", pointer=f"{question_pointer}/range"
            )


def check_answers(
    questions: Sequence[Question], answers: Mapping[str, Any], pointer: str = "/answers"
) -> dict[str, Any]:
    """Return the valid answers, in the order of the questions. Raises InvalidValue for invalid or missing ones."""
    known_keys = {question.key for question in questions}
    if unknown := next((key for key in answers if key not in known_keys), None):
        raise InvalidValue(f"Unknown question {unknown[:80]!r}.", pointer=pointer)
    valid: dict[str, Any] = {}
    for question in questions:
        value = answers.get(question.key)
        if value is None:
            if question.required:
                raise InvalidValue(f"Question {question.key!r} requires an answer.", pointer=pointer)
            continue
        if (expectation := _expected_answer(question, value)) is not None:
            raise InvalidValue(f"The answer to {question.key!r} must be {expectation}.", pointer=pointer)
        valid[question.key] = value
    if not valid:
        raise InvalidValue("Answer at least one question, or skip the item.", pointer=pointer)
    return valid


def _expected_answer(question: Question, value: Any) -> str | None:
    """Describe a valid answer; None if `value` is one."""
    match question.type:
        case "boolean":
            return None if isinstance(value, bool) else "true or false"
        case "choice":
            choices = question.choices or []
            return None if value in choices and isinstance(value, str) else f"one of {', '.join(choices)}"
        case "text":
            is_valid = isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH
            return None if is_valid else f"text of at most {MAX_TEXT_LENGTH:,} characters"
        case "score":
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            low, high = question.range or (-math.inf, math.inf)
            range_text = "" if question.range is None else f" from {low:g} to {high:g}"
            return None if is_number and low <= value <= high else f"a number{range_text}"
