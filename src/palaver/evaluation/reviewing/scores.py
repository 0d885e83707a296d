"""What people said becomes the score of a run's `human` evaluator, for which its results wait."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import fsum
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from palaver.evaluation.judging.questions import Question
from palaver.evaluation.planning.plans import Plan
from palaver.evaluation.reviewing.choosing import asked_by
from palaver.evaluation.scoring.scores import Score
from palaver.storage.evaluations import repository as evaluation_ends
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations.tables import evaluation_results as results
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.reviews.items import ReviewAnswer, ReviewItem
from palaver.storage.schema import storable_text


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """A question whose answers are the score of an evaluator."""

    question: Question
    evaluator: int
    """Its place in the plan."""
    waiting: str
    """The name of the score that waits until people have said something,"""
    name: str
    """and that of the one which there is then."""
    threshold: float | None


def fills(plan: Plan, questions: Iterable[Question]) -> list[Fill]:
    """Which questions are those of `human` evaluators: called like one of them, or like what it asks."""
    asked = {question.key: question for question in questions}
    found: list[Fill] = []
    for place, one in enumerate(plan.evaluators):
        if one.key != "human":
            continue
        own = [question.key for question in asked_by(one.parameters)]
        names = {key: f"{one.name}.{key}" if len(own) > 1 else one.name for key in own} | {one.name: one.name}
        threshold = one.parameters.get("threshold")
        for key, name in names.items():
            if key in asked and all(fill.name != name or fill.evaluator != place for fill in found):
                fill = Fill(question=asked[key], evaluator=place, waiting=one.name, name=name, threshold=threshold)
                found.append(fill)
    return found


def scored(fill: Fill, said: Sequence[Any]) -> Score | None:
    """What all who answered a question say together; None if nobody did."""
    if not said:
        return None
    count = f"{len(said)} {'person' if len(said) == 1 else 'people'}"
    details: Mapping[str, Any] = {"answers": list(said)}
    if fill.question.type in ("boolean", "score"):
        mean = fsum(_share(fill.question, value) for value in said) / len(said)
        # Of as many who say yes as who say no, nobody knows: it has not passed.
        by_most = mean > 0.5 if fill.question.type == "boolean" else None
        passed = mean >= fill.threshold if fill.threshold is not None else by_most
        return Score(passed=passed, score=mean, reason=f"by {count}", details=details)
    if fill.question.type == "choice":
        label = Counter(cast("Sequence[str]", said)).most_common(1)[0][0]
        return Score(label=label, reason=f"by {count}", details=details)
    return Score(reason="\n".join(map(str, said))[:2_000], details=details)


def _share(question: Question, value: Any) -> float:
    """A number from 0 to 1, where it is known of which range it is."""
    if question.range is None:
        return float(value)
    low, high = question.range
    return (value - low) / (high - low)


def fill_in(
    db: Connection,
    project: str,
    evaluation: str,
    item: ReviewItem,
    wanted: Sequence[Fill],
    said: Sequence[ReviewAnswer],
    at: datetime,
) -> bool:
    """Put what people said last of an item into its result; False if that is gone, or was run again since."""
    if not wanted or item.cell is None:
        return False
    evaluations.lock_evaluation(db, project, evaluation)
    here = (results.c.project == project, results.c.evaluation == evaluation, results.c.cell == item.cell)
    if db.scalar(select(results.c.seq).where(*here)) != item.seq:
        return False
    last = {one.reviewer: one for one in said}
    for fill in wanted:
        given = [one.answers[fill.question.key] for one in last.values() if fill.question.key in one.answers]
        if (score := scored(fill, given)) is not None:
            _put(db, project, evaluation, item.cell, fill, score)
    evaluation_ends.update_evaluation(db, project, evaluation, at)
    return True


def _put(db: Connection, project: str, evaluation: str, cell: int, fill: Fill, score: Score) -> None:
    mine = (scores.c.project == project, scores.c.evaluation == evaluation, scores.c.cell == cell)
    mine = (*mine, scores.c.evaluator == fill.evaluator)
    values = {
        "status": "scored",
        "passed": score.passed,
        "score": score.score,
        "label": None if score.label is None else storable_text(score.label),
        "reason": storable_text(score.reason),
        "details": score.details,
    }
    if fill.name != fill.waiting:
        db.execute(delete(scores).where(*mine, scores.c.name == storable_text(fill.waiting)))
    if not db.execute(update(scores).where(*mine, scores.c.name == storable_text(fill.name)).values(values)).rowcount:
        row = {"project": project, "evaluation": evaluation, "cell": cell, "evaluator": fill.evaluator}
        db.execute(insert(scores).values(**row, name=storable_text(fill.name), seconds=0.0, **values))
