"""Speed and remaining time of an evaluation."""

from datetime import datetime

import msgspec

from palaver.storage.evaluations.repository import Evaluation

RecentCells = tuple[int, datetime, datetime]
"""Of the cells recorded last: their number, and when the first and the last of them ended."""


class EvaluationProgress(msgspec.Struct, frozen=True):
    """Both are None before two cells have ended, and after the evaluation has."""

    rate: float | None = None
    """Cells per second."""
    eta_seconds: float | None = None


def estimate_progress(evaluation: Evaluation, last: RecentCells | None, now: datetime) -> EvaluationProgress:
    """Estimate by the last cells. Idle time counts, so that a stall is visible."""
    if evaluation.ended_at is not None or last is None or last[0] < 2:
        return EvaluationProgress()
    count, first, end = last
    seconds = (max(now, end) - first).total_seconds()
    if seconds <= 0:
        return EvaluationProgress()
    rate = count / seconds
    remaining = evaluation.total - evaluation.done - evaluation.failed
    return EvaluationProgress(round(rate, 3), round(remaining / rate, 1))
