"""Find cells by figures: rows whose repeats differ, and rows that passed in another evaluation."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.results.arrays import FloatArray, ResultArrays, ScoreArrays, count_scores, row_means
from palaver.evaluation.results.compare import ComparedVariant, is_majority, pair_rows
from palaver.evaluation.results.summary import flaky_rows as differing

RowMask = NDArray[np.bool_]


def find_cells(results: ResultArrays, *, evaluator: str | None, flaky: bool, base: ComparedVariant | None) -> list[int]:
    """The cells of rows that are flaky, or that passed in `base` and not here."""
    scores = _scores_named(results.scores, evaluator)
    wanted = np.ones((results.shape.rows, results.shape.variants), np.bool_)
    if flaky:
        wanted &= _any_of(results, [_flaky_rows(results, one) for one in scores])
    if base is not None:
        wanted &= _any_of(results, [_regressed_rows(results, one, base) for one in scores])
    return np.flatnonzero(np.repeat(wanted.reshape(-1), results.shape.repeats)).tolist()


def _scores_named(scores: Iterable[ScoreArrays], evaluator: str | None) -> list[ScoreArrays]:
    return [one for one in scores if evaluator is None or one.name == evaluator]


def _any_of(results: ResultArrays, masks: list[RowMask]) -> RowMask:
    none = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    return np.logical_or.reduce([none, *masks])


def _flaky_rows(results: ResultArrays, scores: ScoreArrays) -> RowMask:
    counts = count_scores(scores, results.cells, results.failed_as)
    masks = [differing(counts, variant) for variant in range(results.shape.variants)]
    none = np.zeros(results.shape.rows, np.bool_)
    return np.stack([none if one is None else one for one in masks], axis=1)


def _regressed_rows(results: ResultArrays, scores: ScoreArrays, before: ComparedVariant) -> RowMask:
    mask = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    same = [one for one in before.results.scores if one.name == scores.name]
    if not same:
        return mask
    old = _row_passes(before.results, same[0])[:, before.variant]
    pairs = pair_rows(before.results.rows, results.rows)
    new = _row_passes(results, scores)[pairs.candidate]
    was, is_now = is_majority(old[pairs.base])[:, np.newaxis], is_majority(new)
    mask[pairs.candidate] = was & ~is_now & ~np.isnan(new)
    return mask


def _row_passes(results: ResultArrays, scores: ScoreArrays) -> FloatArray:
    return row_means(count_scores(scores, results.cells, results.failed_as).passed)
