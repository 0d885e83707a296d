"""Outcomes: what a cell came to, made into what is kept of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from palaver.evaluation.planning.plans import Place
from palaver.evaluation.running import bodies
from palaver.evaluation.running.bodies import Redactor
from palaver.evaluation.running.calling import Called, error_of
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.scores import Scored
from palaver.storage.evaluations.results import NewResult, NewScore


class Cell(NamedTuple):
    """Which one it is."""

    cell: int
    place: Place
    row: str
    started_at: datetime


class Calls:
    """What the calls of one cell came to so far."""

    def __init__(self) -> None:
        self.run: str | None = None
        self.trace_id: str | None = None
        self.attempts = 1
        self.error: Mapping[str, Any] | None = None
        self.events: list[Any] = []

    def note(self, called: Called, *, keeps_events: bool) -> None:
        """One more was made: the first is the one that is linked to."""
        self.run = self.run or called.run
        self.trace_id = self.trace_id or called.trace_id
        self.attempts += called.attempts - 1
        self.error = None if called.answered.failed is None else error_of(called.answered.failed)
        if keeps_events:
            self.events += called.answered.events


def result_of(
    one: Cell,
    case: Case,
    calls: Calls,
    error: Mapping[str, Any] | None,
    scores: Sequence[NewScore],
    *,
    redactor: Redactor | None,
    ended_at: datetime,
) -> NewResult:
    """What is kept of a cell; evaluators have seen what a redactor takes out."""
    if redactor is not None:
        case = bodies.redacted(case, redactor)
        scores = [_redacted(score, redactor) for score in scores]
    kept = bodies.kept(case)
    return NewResult(
        cell=one.cell,
        row=one.row,
        variant=one.place.variant,
        repeat=one.place.repeat,
        status="done" if error is None else "failed",
        error=error,
        latency=case.latency if calls.run is not None else None,
        first_output=case.first_output,
        usage=case.usage,
        cost=None if case.usage is None else case.usage.cost,
        finish=case.finish if case.turns else None,
        attempts=calls.attempts,
        trace_id=calls.trace_id,
        run=calls.run,
        started_at=one.started_at,
        ended_at=max(ended_at, one.started_at),
        preview_in=kept.preview_in,
        preview_out=kept.preview_out,
        words=kept.words,
        body=kept.body,
        scores=scores,
    )


def score_of(place: int, scored: Scored) -> NewScore:
    """What an evaluator said, at its place in the plan."""
    return NewScore(
        evaluator=place,
        name=scored.evaluator,
        status=scored.status,
        passed=scored.passed,
        score=scored.score,
        label=scored.label,
        reason=scored.reason,
        details=scored.details,
        seconds=scored.seconds,
        usage=scored.usage,
        cost=scored.cost,
    )


def _redacted(score: NewScore, redactor: Redactor) -> NewScore:
    """Reasons and details may repeat what was said."""
    return msgspec.structs.replace(
        score,
        label=None if score.label is None else bodies.redacted_text(score.label, redactor),
        reason=bodies.redacted_text(score.reason, redactor),
        details=redactor.inputs(score.details, "outputs"),
    )
