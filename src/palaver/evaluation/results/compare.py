"""A candidate beside a base: is it worse? The same rows are compared with each other, evaluator by evaluator.

Rows are paired by their id, if their content is the same. Passes without repeats have McNemar's exact test; all else,
and every interval, is a bootstrap over pairs. Who asks about several evaluators at once is told p by Holm, too.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from palaver.evaluation.plan.plan import ROW_BYTES
from palaver.evaluation.results.arrays import FloatArray, ResultArrays, ScoreArrays, count_scores, row_means
from palaver.evaluation.results.figures import (
    Comparison,
    EvaluatorComparison,
    Interval,
    RowChange,
    ScoreDifference,
    Verdict,
)
from palaver.evaluation.results.statistics import (
    RESAMPLES,
    cases_needed,
    holm_adjust,
    mcnemar_test,
    percentile_interval,
    resample_means,
)
from palaver.testsets.rows import format_row_id

DEFAULT_MARGIN = 0.02
"""A difference that does not matter."""
MAX_LISTED_ROWS = 100
"""Rows that are named of those that got worse, and of those that changed."""
_ID_BYTES = 16


class ComparedVariant(NamedTuple):
    """One variant of a run."""

    results: ResultArrays
    variant: int

    @property
    def name(self) -> str:
        """How it is asked for."""
        return f"{self.results.id}:{self.results.variants[self.variant]}"


class RowPairs(NamedTuple):
    """Rows of both sides, by their places in each."""

    base: NDArray[np.int64]
    candidate: NDArray[np.int64]
    unpaired: int
    """Rows that only one of them has."""
    changed: list[bytes]
    """Ids of rows of both whose content is not the same."""


class _PairedScores(NamedTuple):
    """What an evaluator said of all pairs, and of those that both have, how each row stands."""

    name: str
    base: FloatArray
    candidate: FloatArray
    """Of pairs that count on both sides: each row's share of passes, or its mean score."""
    rows: NDArray[np.int64]
    """Their places among the pairs."""
    unpaired: int
    is_binary: bool
    """Does it say what passed?"""
    is_repeated: bool
    scores: tuple[FloatArray, FloatArray] | None
    """Beside passes, scores that say more."""
    of_rows: tuple[FloatArray, FloatArray]
    """The mean scores of the same rows as `base` and `candidate`; NaN where there are none."""

    @property
    def differences(self) -> FloatArray:
        return self.candidate - self.base


@np.errstate(over="ignore", invalid="ignore")  # Scores may be any numbers.
def compare_variants(base: ComparedVariant, candidate: ComparedVariant, margin: float = DEFAULT_MARGIN) -> Comparison:
    """The comparison of two variants, of one run or of two."""
    pairs = pair_rows(base.results.rows, candidate.results.rows)
    there = {scores.name: scores for scores in candidate.results.scores}
    here = {scores.name for scores in base.results.scores}
    found = [
        _pair_scores(base, scores, candidate, there[scores.name], pairs)
        for scores in base.results.scores
        if scores.name in there
    ]
    seed = f"{base.name} {candidate.name}"
    columns = [sides.differences for sides in found]
    columns += [sides.scores[1] - sides.scores[0] for sides in found if sides.scores is not None]
    drawn = resample_means(columns, seed)
    beside = iter(drawn[len(found) :])
    told = [
        _compare_evaluator(
            sides, means, None if sides.scores is None else next(beside), margin, pairs, base.results.rows
        )
        for sides, means in zip(found, drawn, strict=False)
    ]
    return Comparison(
        base=base.name,
        candidate=candidate.name,
        margin=margin,
        evaluators=_adjust_p(told),
        changed=[format_row_id(one) for one in pairs.changed[:MAX_LISTED_ROWS]],
        changed_count=len(pairs.changed),
        only_in_base=[scores.name for scores in base.results.scores if scores.name not in there],
        only_in_candidate=[scores.name for scores in candidate.results.scores if scores.name not in here],
    )


def pair_rows(base: bytes, candidate: bytes) -> RowPairs:
    """Which rows belong together: by id, with equal hashes."""
    if base == candidate:
        every = np.arange(len(base) // ROW_BYTES)
        return RowPairs(every, every, 0, [])
    there = {one[:_ID_BYTES]: (place, one[_ID_BYTES:]) for place, one in enumerate(_split_rows(candidate))}
    places: list[tuple[int, int]] = []
    changed: list[bytes] = []
    for place, one in enumerate(_split_rows(base)):
        match there.get(one[:_ID_BYTES]):
            case None:
                pass
            case (other, content) if content == one[_ID_BYTES:]:
                places.append((place, other))
            case _:
                changed.append(one[:_ID_BYTES])
    left, right = np.array(places, np.int64).reshape(-1, 2).T
    both = len(places) + len(changed)
    return RowPairs(left, right, (len(base) + len(candidate)) // ROW_BYTES - 2 * both, changed)


def interval_verdict(interval: Interval, margin: float) -> Verdict:
    """What an interval of a difference says."""
    low, high = interval
    if high < 0:
        return "worse"
    if low > 0:
        return "better"
    return "same" if low >= -margin and high <= margin else "unclear"


def is_majority(shares: FloatArray) -> NDArray[np.bool_]:
    """Did a row pass, by the majority of its repeats? As many as not is no majority."""
    return shares > 0.5


# One evaluator


def _pair_scores(
    base: ComparedVariant, before: ScoreArrays, candidate: ComparedVariant, after: ScoreArrays, pairs: RowPairs
) -> _PairedScores:
    """The values of all pairs that count on both sides."""
    old = count_scores(before, base.results.cells, base.results.failed_as)
    new = count_scores(after, candidate.results.cells, candidate.results.failed_as)
    old_passed, new_passed = (
        row_means(old.passed[pairs.base, base.variant]),
        row_means(new.passed[pairs.candidate, candidate.variant]),
    )
    old_score, new_score = (
        row_means(old.score[pairs.base, base.variant]),
        row_means(new.score[pairs.candidate, candidate.variant]),
    )
    has_passes = _both_present(old_passed, new_passed).any()
    is_binary = bool(has_passes) or not _both_present(old_score, new_score).any()
    first, second = (old_passed, new_passed) if is_binary else (old_score, new_score)
    both = _both_present(first, second)
    lone = int(np.count_nonzero(np.isnan(first) != np.isnan(second)))
    scored = _both_present(old_score, new_score)
    says_more = is_binary and bool(scored.any()) and not _are_equal(old_passed, old_score, new_passed, new_score)
    return _PairedScores(
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


def _compare_evaluator(
    sides: _PairedScores, means: FloatArray, beside: FloatArray | None, margin: float, pairs: RowPairs, rows: bytes
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
    difference, interval = float(differences.mean()), percentile_interval(means)
    lost = is_majority(sides.base) & ~is_majority(sides.candidate)
    won = is_majority(sides.candidate) & ~is_majority(sides.base)
    regressions, fixes = (int(np.count_nonzero(one)) if sides.is_binary else 0 for one in (lost, won))
    verdict = interval_verdict(interval, margin)
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
        p=mcnemar_test(regressions, fixes) if test == "mcnemar-exact" else _bootstrap_p(means),
        p_adjusted=None,
        verdict=verdict,
        regressions=regressions,
        fixes=fixes,
        cases_needed=cases_needed(difference, float((differences**2).mean())) if verdict == "unclear" else None,
        score=None if beside is None or sides.scores is None else _score_difference(*sides.scores, beside),
        worst=_worst_rows(sides, np.flatnonzero(lost), pairs, rows) if sides.is_binary else [],
    )


def _bootstrap_p(means: FloatArray) -> float:
    """Twice the share of resamples on the rarer side of 0; those at 0 are on both. It is never 0 of so many draws."""
    rarer = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    return min(1.0, 2 * (int(rarer) + 1) / (RESAMPLES + 1))


def _score_difference(base: FloatArray, candidate: FloatArray, means: FloatArray) -> ScoreDifference:
    old, new = float(base.mean()), float(candidate.mean())
    difference = float((candidate - base).mean())
    return ScoreDifference(base=old, candidate=new, difference=difference, ci=percentile_interval(means))


def _worst_rows(sides: _PairedScores, lost: NDArray[np.int64], pairs: RowPairs, rows: bytes) -> list[RowChange]:
    """Which rows passed no longer: those first whose score fell most."""
    is_scored = _both_present(*sides.of_rows)
    old, new = (np.where(is_scored, *both) for both in zip(sides.of_rows, (sides.base, sides.candidate), strict=True))
    named: list[RowChange] = []
    for place in lost[np.argsort((new - old)[lost], kind="stable")][:MAX_LISTED_ROWS]:
        first = int(pairs.base[sides.rows[place]]) * ROW_BYTES
        row = format_row_id(rows[first : first + _ID_BYTES])
        named.append(RowChange(row=row, base=float(old[place]), candidate=float(new[place])))
    return named


def _adjust_p(told: Sequence[EvaluatorComparison]) -> list[EvaluatorComparison]:
    raised = iter(holm_adjust([one.p for one in told if one.p is not None]))
    return [one if one.p is None else replace(one, p_adjusted=next(raised)) for one in told]


# Pieces


def _split_rows(rows: bytes) -> list[bytes]:
    return [rows[first : first + ROW_BYTES] for first in range(0, len(rows), ROW_BYTES)]


def _both_present(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    return ~(np.isnan(first) | np.isnan(second))


def _are_equal(passed: FloatArray, score: FloatArray, *others: FloatArray) -> bool:
    """Are scores only passes once more, as 1 and 0?"""
    same = bool(np.array_equal(passed, score, equal_nan=True))
    return same and (not others or _are_equal(*others))
