"""Compare a candidate with a base, evaluator by evaluator, over the same rows.

Rows are paired by id if their content is equal. Pass rates without repeats use McNemar's exact test; everything else,
and every interval, is a bootstrap over pairs. P-values are adjusted for all evaluators by Holm's method.
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
from palaver.evaluation.results.summary import flaky_rows
from palaver.testsets.rows import format_row_id

DEFAULT_MARGIN = 0.02
"""Differences up to this are too small to matter."""
MAX_LISTED_ROWS = 100
"""Maximum number of regressed and of changed rows that are listed."""
_ID_BYTES = 16


class ComparedVariant(NamedTuple):
    results: ResultArrays
    variant: int

    @property
    def name(self) -> str:
        """The reference `evaluation:variant`."""
        return f"{self.results.id}:{self.results.variants[self.variant]}"


class RowPairs(NamedTuple):
    """Indexes of paired rows on both sides."""

    base: NDArray[np.int64]
    candidate: NDArray[np.int64]
    unpaired: int
    """Rows that only one side has."""
    changed: list[bytes]
    """Ids of rows whose content differs."""


class _PairedScores(NamedTuple):
    """The values of one evaluator for all pairs that count on both sides."""

    name: str
    base: FloatArray
    candidate: FloatArray
    """The pass share or mean score of each row."""
    rows: NDArray[np.int64]
    """Indexes of these rows among the pairs."""
    unpaired: int
    is_binary: bool
    """Whether pass shares are compared, not mean scores."""
    is_repeated: bool
    scores: tuple[FloatArray, FloatArray] | None
    """Scores of base and candidate; None if passes are not compared, or the scores are just passes as 1 and 0."""
    row_scores: tuple[FloatArray, FloatArray]
    """Mean scores of the rows; NaN if unknown."""

    @property
    def differences(self) -> FloatArray:
        return self.candidate - self.base


@np.errstate(over="ignore", invalid="ignore")  # Scores may be any numbers.
def compare_variants(base: ComparedVariant, candidate: ComparedVariant, margin: float = DEFAULT_MARGIN) -> Comparison:
    pairs = pair_rows(base.results.rows, candidate.results.rows)
    candidate_scores = {scores.name: scores for scores in candidate.results.scores}
    base_names = {scores.name for scores in base.results.scores}
    paired = [
        _pair_scores(base, scores, candidate, candidate_scores[scores.name], pairs)
        for scores in base.results.scores
        if scores.name in candidate_scores
    ]
    columns = [sides.differences for sides in paired]
    columns += [sides.scores[1] - sides.scores[0] for sides in paired if sides.scores is not None]
    means_by_column = resample_means(columns)
    score_means = iter(means_by_column[len(paired) :])
    comparisons = [
        _compare_evaluator(
            sides, means, None if sides.scores is None else next(score_means), margin, pairs, base.results.rows
        )
        for sides, means in zip(paired, means_by_column, strict=False)
    ]
    return Comparison(
        base=base.name,
        candidate=candidate.name,
        margin=margin,
        evaluators=_adjust_p(comparisons),
        changed=[format_row_id(row_id) for row_id in pairs.changed[:MAX_LISTED_ROWS]],
        changed_count=len(pairs.changed),
        only_in_base=[scores.name for scores in base.results.scores if scores.name not in candidate_scores],
        only_in_candidate=[scores.name for scores in candidate.results.scores if scores.name not in base_names],
    )


def pair_rows(base: bytes, candidate: bytes) -> RowPairs:
    if base == candidate:
        all_rows = np.arange(len(base) // ROW_BYTES)
        return RowPairs(all_rows, all_rows, 0, [])
    by_id = {row[:_ID_BYTES]: (index, row[_ID_BYTES:]) for index, row in enumerate(_split_rows(candidate))}
    index_pairs: list[tuple[int, int]] = []
    changed: list[bytes] = []
    for index, row in enumerate(_split_rows(base)):
        match by_id.get(row[:_ID_BYTES]):
            case None:
                pass
            case (candidate_index, content) if content == row[_ID_BYTES:]:
                index_pairs.append((index, candidate_index))
            case _:
                changed.append(row[:_ID_BYTES])
    base_rows, candidate_rows = np.array(index_pairs, np.int64).reshape(-1, 2).T
    shared_count = len(index_pairs) + len(changed)
    return RowPairs(base_rows, candidate_rows, (len(base) + len(candidate)) // ROW_BYTES - 2 * shared_count, changed)


def interval_verdict(interval: Interval, margin: float) -> Verdict:
    low, high = interval
    if high < 0:
        return "worse"
    if low > 0:
        return "better"
    return "same" if low >= -margin and high <= margin else "unclear"


def has_majority(shares: FloatArray) -> NDArray[np.bool_]:
    """Whether a row passed in the majority of its repeats. A draw is not a majority."""
    return shares > 0.5


def _pair_scores(
    base: ComparedVariant, old_scores: ScoreArrays, candidate: ComparedVariant, new_scores: ScoreArrays, pairs: RowPairs
) -> _PairedScores:
    old = count_scores(old_scores, base.results.cells, base.results.failed_as)
    new = count_scores(new_scores, candidate.results.cells, candidate.results.failed_as)
    old_passed = row_means(old.passed[pairs.base, base.variant])
    new_passed = row_means(new.passed[pairs.candidate, candidate.variant])
    old_score = row_means(old.score[pairs.base, base.variant])
    new_score = row_means(new.score[pairs.candidate, candidate.variant])
    has_passes = _both_present(old_passed, new_passed).any()
    is_binary = bool(has_passes) or not _both_present(old_score, new_score).any()
    base_values, candidate_values = (old_passed, new_passed) if is_binary else (old_score, new_score)
    is_paired = _both_present(base_values, candidate_values)
    scored_on_one_side = int(np.count_nonzero(np.isnan(base_values) != np.isnan(candidate_values)))
    is_scored = _both_present(old_score, new_score)
    has_extra_scores = (
        is_binary and bool(is_scored.any()) and not _scores_equal_passes(old_passed, old_score, new_passed, new_score)
    )
    return _PairedScores(
        name=old_scores.name,
        base=base_values[is_paired],
        candidate=candidate_values[is_paired],
        rows=np.flatnonzero(is_paired),
        unpaired=pairs.unpaired + scored_on_one_side,
        is_binary=is_binary,
        is_repeated=max(base.results.shape.repeats, candidate.results.shape.repeats) > 1,
        scores=(old_score[is_scored], new_score[is_scored]) if has_extra_scores else None,
        row_scores=(old_score[is_paired], new_score[is_paired]),
    )


def _compare_evaluator(
    sides: _PairedScores, means: FloatArray, score_means: FloatArray | None, margin: float, pairs: RowPairs, rows: bytes
) -> EvaluatorComparison:
    empty = EvaluatorComparison(
        name=sides.name,
        measure="pass_rate" if sides.is_binary else "mean",
        paired=0,
        unpaired=sides.unpaired,
        base=None,
        candidate=None,
        difference=None,
        ci=None,
        test="mcnemar-exact" if sides.is_binary and not sides.is_repeated else "paired-bootstrap",
        p=None,
        p_adjusted=None,
        verdict="unclear",
        regressions=0,
        fixes=0,
        cases_needed=None,
    )
    if not len(sides.base):
        return empty
    differences = sides.differences
    difference, interval = float(differences.mean()), percentile_interval(means)
    regressed = has_majority(sides.base) & ~has_majority(sides.candidate)
    fixed = has_majority(sides.candidate) & ~has_majority(sides.base)
    regressions, fixes = (int(np.count_nonzero(mask)) if sides.is_binary else 0 for mask in (regressed, fixed))
    verdict = interval_verdict(interval, margin)
    return replace(
        empty,
        paired=len(sides.base),
        base=float(sides.base.mean()),
        candidate=float(sides.candidate.mean()),
        difference=difference,
        ci=interval,
        p=mcnemar_test(regressions, fixes) if empty.test == "mcnemar-exact" else _bootstrap_p(means),
        verdict=verdict,
        regressions=regressions,
        fixes=fixes,
        cases_needed=_rows_needed(differences) if verdict == "unclear" else None,
        score=None if score_means is None or sides.scores is None else _score_difference(*sides.scores, score_means),
        worst=_worst_rows(sides, np.flatnonzero(regressed), pairs, rows) if sides.is_binary else [],
    )


def _rows_needed(differences: FloatArray) -> int | None:
    """The number of similar rows for a clear verdict: more than these, for which the formula may be too optimistic."""
    needed = cases_needed(float(differences.mean()), float((differences**2).mean()))
    return None if needed is None else max(needed, len(differences) + 1)


def _bootstrap_p(means: FloatArray) -> float:
    """Twice the share of resamples on the rarer side of 0, never 0. Resamples at 0 count on both sides."""
    rarer = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    return min(1.0, 2 * (int(rarer) + 1) / (RESAMPLES + 1))


def _score_difference(base: FloatArray, candidate: FloatArray, means: FloatArray) -> ScoreDifference:
    old, new = float(base.mean()), float(candidate.mean())
    difference = float((candidate - base).mean())
    return ScoreDifference(base=old, candidate=new, difference=difference, ci=percentile_interval(means))


def _worst_rows(sides: _PairedScores, regressed: NDArray[np.int64], pairs: RowPairs, rows: bytes) -> list[RowChange]:
    """Regressed rows, largest loss first."""
    is_scored = _both_present(*sides.row_scores)
    old = np.where(is_scored, sides.row_scores[0], sides.base)
    new = np.where(is_scored, sides.row_scores[1], sides.candidate)
    changes: list[RowChange] = []
    for index in regressed[np.argsort((new - old)[regressed], kind="stable")][:MAX_LISTED_ROWS]:
        offset = int(pairs.base[sides.rows[index]]) * ROW_BYTES
        row = format_row_id(rows[offset : offset + _ID_BYTES])
        changes.append(RowChange(row=row, base=float(old[index]), candidate=float(new[index])))
    return changes


def _adjust_p(compared: Sequence[EvaluatorComparison]) -> list[EvaluatorComparison]:
    adjusted = iter(holm_adjust([result.p for result in compared if result.p is not None]))
    return [result if result.p is None else replace(result, p_adjusted=next(adjusted)) for result in compared]


def _split_rows(rows: bytes) -> list[bytes]:
    return [rows[offset : offset + ROW_BYTES] for offset in range(0, len(rows), ROW_BYTES)]


def _both_present(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    return ~(np.isnan(first) | np.isnan(second))


def _scores_equal_passes(passed: FloatArray, score: FloatArray, *others: FloatArray) -> bool:
    """Whether scores are just passes as 1 and 0."""
    same = bool(np.array_equal(passed, score, equal_nan=True))
    return same and (not others or _scores_equal_passes(*others))


RowMask = NDArray[np.bool_]


def find_cells(results: ResultArrays, *, evaluator: str | None, flaky: bool, base: ComparedVariant | None) -> list[int]:
    """Return the cells of rows that are flaky (if `flaky`) and that regressed from `base` (if given)."""
    scores = [scores for scores in results.scores if evaluator is None or scores.name == evaluator]
    selected = np.ones((results.shape.rows, results.shape.variants), np.bool_)
    if flaky:
        selected &= _any_of(results, [_flaky_rows(results, evaluator_scores) for evaluator_scores in scores])
    if base is not None:
        selected &= _any_of(results, [_regressed_rows(results, evaluator_scores, base) for evaluator_scores in scores])
    return np.flatnonzero(np.repeat(selected.reshape(-1), results.shape.repeats)).tolist()


def _any_of(results: ResultArrays, masks: list[RowMask]) -> RowMask:
    no_rows = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    return np.logical_or.reduce([no_rows, *masks])


def _flaky_rows(results: ResultArrays, scores: ScoreArrays) -> RowMask:
    counts = count_scores(scores, results.cells, results.failed_as)
    masks = [flaky_rows(counts, variant) for variant in range(results.shape.variants)]
    no_rows = np.zeros(results.shape.rows, np.bool_)
    return np.stack([no_rows if mask is None else mask for mask in masks], axis=1)


def _regressed_rows(results: ResultArrays, scores: ScoreArrays, base: ComparedVariant) -> RowMask:
    mask = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    base_scores = next((candidate for candidate in base.results.scores if candidate.name == scores.name), None)
    if base_scores is None:
        return mask
    old = _row_passes(base.results, base_scores)[:, base.variant]
    pairs = pair_rows(base.results.rows, results.rows)
    new = _row_passes(results, scores)[pairs.candidate]
    passed_before, passes_now = has_majority(old[pairs.base])[:, np.newaxis], has_majority(new)
    mask[pairs.candidate] = passed_before & ~passes_now & ~np.isnan(new)
    return mask


def _row_passes(results: ResultArrays, scores: ScoreArrays) -> FloatArray:
    return row_means(count_scores(scores, results.cells, results.failed_as).passed)
