"""Speed and remaining time of an evaluation."""

from datetime import datetime

import msgspec

from palaver.storage.evaluations.repository import Evaluation

RecentCells = tuple[int, datetime, datetime]
"""The number of cells recorded last, and when the first and the last of them ended."""


class EvaluationProgress(msgspec.Struct, frozen=True):
    """Both are None until two cells have ended, and once the evaluation has ended."""

    rate: float | None = None
    """Cells per second."""
    eta_seconds: float | None = None


def estimate_progress(evaluation: Evaluation, recent: RecentCells | None, now: datetime) -> EvaluationProgress:
    """Estimate speed and remaining time from the last cells. Idle time counts, so that a stall is visible."""
    if evaluation.ended_at is not None or recent is None or recent[0] < 2:
        return EvaluationProgress()
    count, first_end, last_end = recent
    seconds = (max(now, last_end) - first_end).total_seconds()
    if seconds <= 0:
        return EvaluationProgress()
    rate = count / seconds
    remaining = evaluation.total - evaluation.done - evaluation.failed
    return EvaluationProgress(round(rate, 3), round(remaining / rate, 1))
