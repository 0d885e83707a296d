"""A candidate beside a base: is it worse? The same rows are compared with each other, evaluator by evaluator.

Rows are paired by their id, if their content is the same. Passes without repeats have McNemar's exact test; all else,
and every interval, is a bootstrap over pairs. Who asks about several evaluators at once is told p by Holm, too.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from palaver.evaluation.planning.plans import ROW_BYTES
from palaver.evaluation.reading.columns import Floats, Results, ScoreColumns, by_row, counted
from palaver.evaluation.reading.figures import (
    Comparison,
    EvaluatorComparison,
    Interval,
    RowChange,
    ScoreDifference,
    Verdict,
)
from palaver.evaluation.reading.statistics.bootstrap import RESAMPLES, interval_of, resampled
from palaver.evaluation.reading.statistics.holm import holm
from palaver.evaluation.reading.statistics.mcnemar import mcnemar
from palaver.evaluation.reading.statistics.needed import cases_needed
from palaver.testsets.rows import format_row_id

MARGIN = 0.02
"""A difference that does not matter."""
WORST = 100
"""Rows that are named of those that got worse, and of those that changed."""
_ID = 16


class Side(NamedTuple):
    """One variant of a run."""

    results: Results
    variant: int

    @property
    def name(self) -> str:
        """How it is asked for."""
        return f"{self.results.id}:{self.results.variants[self.variant]}"


class Pairs(NamedTuple):
    """Rows of both sides, by their places in each."""

    base: NDArray[np.int64]
    candidate: NDArray[np.int64]
    unpaired: int
    """Rows that only one of them has."""
    changed: list[bytes]
    """Ids of rows of both whose content is not the same."""


class _Sides(NamedTuple):
    """What an evaluator said of all pairs, and of those that both have, how each row stands."""

    name: str
    base: Floats
    candidate: Floats
    """Of pairs that count on both sides: each row's share of passes, or its mean score."""
    rows: NDArray[np.int64]
    """Their places among the pairs."""
    unpaired: int
    is_binary: bool
    """Does it say what passed?"""
    is_repeated: bool
    scores: tuple[Floats, Floats] | None
    """Beside passes, scores that say more."""
    of_rows: tuple[Floats, Floats]
    """The mean scores of the same rows as `base` and `candidate`; NaN where there are none."""

    @property
    def differences(self) -> Floats:
        return self.candidate - self.base


@np.errstate(over="ignore", invalid="ignore")  # Scores may be any numbers.
def compared(base: Side, candidate: Side, margin: float = MARGIN) -> Comparison:
    """The comparison of two variants, of one run or of two."""
    pairs = paired(base.results.rows, candidate.results.rows)
    there = {scores.name: scores for scores in candidate.results.scores}
    here = {scores.name for scores in base.results.scores}
    found = [
        _sides(base, scores, candidate, there[scores.name], pairs)
        for scores in base.results.scores
        if scores.name in there
    ]
    seed = f"{base.name} {candidate.name}"
    columns = [sides.differences for sides in found]
    columns += [sides.scores[1] - sides.scores[0] for sides in found if sides.scores is not None]
    drawn = resampled(columns, seed)
    beside = iter(drawn[len(found) :])
    told = [
        _told(sides, means, None if sides.scores is None else next(beside), margin, pairs, base.results.rows)
        for sides, means in zip(found, drawn, strict=False)
    ]
    return Comparison(
        base=base.name,
        candidate=candidate.name,
        margin=margin,
        evaluators=_adjusted(told),
        changed=[format_row_id(one) for one in pairs.changed[:WORST]],
        changed_count=len(pairs.changed),
        only_in_base=[scores.name for scores in base.results.scores if scores.name not in there],
        only_in_candidate=[scores.name for scores in candidate.results.scores if scores.name not in here],
    )


def paired(base: bytes, candidate: bytes) -> Pairs:
    """Which rows belong together: by id, with equal hashes."""
    if base == candidate:
        every = np.arange(len(base) // ROW_BYTES)
        return Pairs(every, every, 0, [])
    there = {one[:_ID]: (place, one[_ID:]) for place, one in enumerate(_rows(candidate))}
    places: list[tuple[int, int]] = []
    changed: list[bytes] = []
    for place, one in enumerate(_rows(base)):
        match there.get(one[:_ID]):
            case None:
                pass
            case (other, content) if content == one[_ID:]:
                places.append((place, other))
            case _:
                changed.append(one[:_ID])
    left, right = np.array(places, np.int64).reshape(-1, 2).T
    both = len(places) + len(changed)
    return Pairs(left, right, (len(base) + len(candidate)) // ROW_BYTES - 2 * both, changed)


def verdict_of(interval: Interval, margin: float) -> Verdict:
    """What an interval of a difference says."""
    low, high = interval
    if high < 0:
        return "worse"
    if low > 0:
        return "better"
    return "same" if low >= -margin and high <= margin else "unclear"


def is_passed(shares: Floats) -> NDArray[np.bool_]:
    """Did a row pass, by the majority of its repeats? As many as not is no majority."""
    return shares > 0.5


# One evaluator


def _sides(base: Side, before: ScoreColumns, candidate: Side, after: ScoreColumns, pairs: Pairs) -> _Sides:
    """The values of all pairs that count on both sides."""
    old = counted(before, base.results.cells, base.results.failed_as)
    new = counted(after, candidate.results.cells, candidate.results.failed_as)
    old_passed, new_passed = (
        by_row(old.passed[pairs.base, base.variant]),
        by_row(new.passed[pairs.candidate, candidate.variant]),
    )
    old_score, new_score = (
        by_row(old.score[pairs.base, base.variant]),
        by_row(new.score[pairs.candidate, candidate.variant]),
    )
    has_passes = _both(old_passed, new_passed).any()
    is_binary = bool(has_passes) or not _both(old_score, new_score).any()
    first, second = (old_passed, new_passed) if is_binary else (old_score, new_score)
    both = _both(first, second)
    lone = int(np.count_nonzero(np.isnan(first) != np.isnan(second)))
    scored = _both(old_score, new_score)
    says_more = is_binary and bool(scored.any()) and not _alike(old_passed, old_score, new_passed, new_score)
    return _Sides(
        name=before.name,
        base=first[both],
        candidate=second[both],
        rows=np.flatnonzero(both),
        unpaired=pairs.unpaired + lone,
        is_binary=is_binary,
        is_repeated=max(base.results.shape.repeats, candidate.results.shape.repeats) > 1,
        scores=(old_score[scored], new_score[scored]) if says_more else None,
        of_rows=(old_score[both], new_score[both]),
    )


def _told(
    sides: _Sides, means: Floats, beside: Floats | None, margin: float, pairs: Pairs, rows: bytes
) -> EvaluatorComparison:
    count = len(sides.base)
    test = "mcnemar-exact" if sides.is_binary and not sides.is_repeated else "paired-bootstrap"
    if not count:
        return EvaluatorComparison(
            name=sides.name,
            measure="pass_rate" if sides.is_binary else "mean",
            paired=0,
            unpaired=sides.unpaired,
            base=None,
            candidate=None,
            difference=None,
            ci=None,
            test=test,
            p=None,
            p_adjusted=None,
            verdict="unclear",
            regressions=0,
            fixes=0,
            cases_needed=None,
        )
    differences = sides.differences
    difference, interval = float(differences.mean()), interval_of(means)
    lost = is_passed(sides.base) & ~is_passed(sides.candidate)
    won = is_passed(sides.candidate) & ~is_passed(sides.base)
    regressions, fixes = (int(np.count_nonzero(one)) if sides.is_binary else 0 for one in (lost, won))
    verdict = verdict_of(interval, margin)
    return EvaluatorComparison(
        name=sides.name,
        measure="pass_rate" if sides.is_binary else "mean",
        paired=count,
        unpaired=sides.unpaired,
        base=float(sides.base.mean()),
        candidate=float(sides.candidate.mean()),
        difference=difference,
        ci=interval,
        test=test,
        p=mcnemar(regressions, fixes) if test == "mcnemar-exact" else _p(means),
        p_adjusted=None,
        verdict=verdict,
        regressions=regressions,
        fixes=fixes,
        cases_needed=cases_needed(difference, float((differences**2).mean())) if verdict == "unclear" else None,
        score=None if beside is None or sides.scores is None else _beside(*sides.scores, beside),
        worst=_worst(sides, np.flatnonzero(lost), pairs, rows) if sides.is_binary else [],
    )


def _p(means: Floats) -> float:
    """Twice the share of resamples on the rarer side of 0; those at 0 are on both. It is never 0 of so many draws."""
    rarer = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    return min(1.0, 2 * (int(rarer) + 1) / (RESAMPLES + 1))


def _beside(base: Floats, candidate: Floats, means: Floats) -> ScoreDifference:
    old, new = float(base.mean()), float(candidate.mean())
    difference = float((candidate - base).mean())
    return ScoreDifference(base=old, candidate=new, difference=difference, ci=interval_of(means))


def _worst(sides: _Sides, lost: NDArray[np.int64], pairs: Pairs, rows: bytes) -> list[RowChange]:
    """Which rows passed no longer: those first whose score fell most."""
    is_scored = _both(*sides.of_rows)
    old, new = (np.where(is_scored, *both) for both in zip(sides.of_rows, (sides.base, sides.candidate), strict=True))
    named: list[RowChange] = []
    for place in lost[np.argsort((new - old)[lost], kind="stable")][:WORST]:
        first = int(pairs.base[sides.rows[place]]) * ROW_BYTES
        row = format_row_id(rows[first : first + _ID])
        named.append(RowChange(row=row, base=float(old[place]), candidate=float(new[place])))
    return named


def _adjusted(told: Sequence[EvaluatorComparison]) -> list[EvaluatorComparison]:
    raised = iter(holm([one.p for one in told if one.p is not None]))
    return [one if one.p is None else replace(one, p_adjusted=next(raised)) for one in told]


# Pieces


def _rows(rows: bytes) -> list[bytes]:
    return [rows[first : first + ROW_BYTES] for first in range(0, len(rows), ROW_BYTES)]


def _both(first: Floats, second: Floats) -> NDArray[np.bool_]:
    return ~(np.isnan(first) | np.isnan(second))


def _alike(passed: Floats, score: Floats, *others: Floats) -> bool:
    """Are scores only passes once more, as 1 and 0?"""
    same = bool(np.array_equal(passed, score, equal_nan=True))
    return same and (not others or _alike(*others))
