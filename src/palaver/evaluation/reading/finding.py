"""Cells that are told by figures, not by themselves: rows whose repeats differ, and rows that passed elsewhere."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.reading.columns import Floats, Results, ScoreColumns, by_row, counted
from palaver.evaluation.reading.comparing import Side, is_passed, paired
from palaver.evaluation.reading.summary import flaky as differing

Rows = NDArray[np.bool_]


def found_cells(results: Results, *, evaluator: str | None, flaky: bool, base: Side | None) -> list[int]:
    """The cells, in order, of rows that are flaky, or that passed in `base` and do not here."""
    scores = _named(results.scores, evaluator)
    wanted = np.ones((results.shape.rows, results.shape.variants), np.bool_)
    if flaky:
        wanted &= _by_variant(results, [_flaky(results, one) for one in scores])
    if base is not None:
        wanted &= _by_variant(results, [_regressed(results, one, base) for one in scores])
    return np.flatnonzero(np.repeat(wanted.reshape(-1), results.shape.repeats)).tolist()


def _named(scores: Iterable[ScoreColumns], evaluator: str | None) -> list[ScoreColumns]:
    return [one for one in scores if evaluator is None or one.name == evaluator]


def _by_variant(results: Results, found: list[Rows]) -> Rows:
    """Rows that any of the evaluators finds."""
    none = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    return np.logical_or.reduce([none, *found])


def _flaky(results: Results, scores: ScoreColumns) -> Rows:
    counts = counted(scores, results.cells, results.failed_as)
    found = [differing(counts, variant) for variant in range(results.shape.variants)]
    none = np.zeros(results.shape.rows, np.bool_)
    return np.stack([none if one is None else one for one in found], axis=1)


def _regressed(results: Results, scores: ScoreColumns, before: Side) -> Rows:
    found = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    same = [one for one in before.results.scores if one.name == scores.name]
    if not same:
        return found
    old = _passes(before.results, same[0])[:, before.variant]
    pairs = paired(before.results.rows, results.rows)
    new = _passes(results, scores)[pairs.candidate]
    was, is_now = is_passed(old[pairs.base])[:, np.newaxis], is_passed(new)
    found[pairs.candidate] = was & ~is_now & ~np.isnan(new)
    return found


def _passes(results: Results, scores: ScoreColumns) -> Floats:
    return by_row(counted(scores, results.cells, results.failed_as).passed)
