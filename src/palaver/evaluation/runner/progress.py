"""Pace: how fast the cells of an evaluation come, and when the last of them will have come."""

from datetime import datetime

import msgspec

from palaver.storage.evaluations.repository import Evaluation

RecentCells = tuple[int, datetime, datetime]
"""Of the cells that were recorded last: how many, and when the first and the last of them ended."""


class EvaluationProgress(msgspec.Struct, frozen=True):
    """What is told of it; nothing before there are two cells, and of one that has ended."""

    rate: float | None = None
    """Cells a second."""
    eta_seconds: float | None = None


def estimate_progress(evaluation: Evaluation, last: RecentCells | None, now: datetime) -> EvaluationProgress:
    """How fast it goes, by its last cells. Time in which none came counts too, so that a halt is seen."""
    if evaluation.ended_at is not None or last is None or last[0] < 2:
        return EvaluationProgress()
    count, first, end = last
    seconds = (max(now, end) - first).total_seconds()
    if seconds <= 0:
        return EvaluationProgress()
    rate = count / seconds
    left = evaluation.total - evaluation.done - evaluation.failed
    return EvaluationProgress(round(rate, 3), round(left / rate, 1))
