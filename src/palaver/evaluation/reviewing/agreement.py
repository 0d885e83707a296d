"""Agreement: how much reviewers agree with each other, and with a judge that is no person. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import msgspec

from palaver.evaluation.judging.questions import Question, QuestionType
from palaver.evaluation.reading.statistics.kappa import kappa, weighted_kappa
from palaver.storage.reviews.items import EvaluatorVerdict

Said = Mapping[int, Any]
"""By the place of an item what somebody said of it."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Two raters, and one question."""

    question: str
    type: QuestionType
    raters: tuple[str, str]
    kind: Literal["reviewers", "judge"]
    """Two reviewers, or a reviewer and a judge of the run."""
    n: int
    """Items that both have answered."""
    percent: float | None
    """Of these, those that both have answered alike."""
    kappa: float | None
    """Cohen's; of scores with quadratic weights. None where one of them always says the same."""


def agreements(
    questions: Iterable[Question],
    said: Mapping[str, Mapping[int, Mapping[str, Any]]],
    judges: Mapping[str, Mapping[int, EvaluatorVerdict]],
) -> list[Agreement]:
    """Of every question but those in words, each pair of reviewers, and each reviewer beside each judge.

    `said` has by reviewer and item what was answered; `judges` by their names what they say of items.
    """
    found: list[Agreement] = []
    for question in questions:
        if question.type == "text":
            continue
        by = {name: _answers(question.key, items) for name, items in sorted(said.items())}
        by = {name: answers for name, answers in by.items() if answers}
        for one, other in combinations(by, 2):
            found.append(_compared(question, (one, other), "reviewers", by[one], by[other]))
        for judge, verdicts in judges.items():
            for name, answers in by.items():
                theirs = _verdicts(question, verdicts, answers.values())
                if theirs:
                    found.append(_compared(question, (name, judge), "judge", answers, theirs))
    return found


def _answers(key: str, items: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
    return {place: given[key] for place, given in items.items() if key in given}


def _compared(
    question: Question, raters: tuple[str, str], kind: Literal["reviewers", "judge"], ours: Said, theirs: Said
) -> Agreement:
    pairs = [(ours[place], theirs[place]) for place in sorted(ours.keys() & theirs.keys())]
    alike = sum(one == other for one, other in pairs)
    measure: Callable[[Sequence[Any]], float | None] = weighted_kappa if question.type == "score" else kappa
    return Agreement(
        question=question.key,
        type=question.type,
        raters=raters,
        kind=kind,
        n=len(pairs),
        percent=100 * alike / len(pairs) if pairs else None,
        kappa=measure(pairs),
    )


def _verdicts(question: Question, verdicts: Mapping[int, EvaluatorVerdict], answers: Iterable[Any]) -> dict[int, Any]:
    """What a judge says, as an answer to the question: its score in the question's range, and as whole as people's."""
    low, high = question.range or (0.0, 1.0)
    is_whole = all(float(value).is_integer() for value in (low, high, *answers)) if question.type == "score" else False

    def meant(judged: EvaluatorVerdict) -> Any:
        match question.type:
            case "boolean":
                return judged.passed
            case "choice":
                return judged.label
            case _:
                if judged.score is None:
                    return None
                score = low + judged.score * (high - low)
                return float(round(score)) if is_whole else score

    return {place: value for place, judged in verdicts.items() if (value := meant(judged)) is not None}
