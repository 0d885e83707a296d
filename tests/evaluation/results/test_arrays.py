"""Results of an evaluation as arrays by row, variant and repeat."""

import numpy as np
import pytest

from palaver.evaluation.results.arrays import (
    GridShape,
    count_scores,
    empty_score_arrays,
    load_cell_arrays,
    load_score_arrays,
    row_means,
)

SHAPE = GridShape(rows=2, variants=2, repeats=1)
NAN = float("nan")


def flat_values(values: np.ndarray) -> list[object]:
    return [None if np.isnan(value) else value for value in values.reshape(-1).tolist()]


def test_scores_are_stored_by_cell_in_any_order() -> None:
    records = [
        (1, "b", 3, "scored", None, 0.5),
        (0, "a", 2, "error", None, None),
        (0, "a", 0, "scored", True, 1.0),
        (1, "b", 0, "skipped", None, None),
        (0, "a", 1, "scored", False, 0.0),
    ]

    first, second = load_score_arrays(records, SHAPE)

    assert (first.evaluator, first.name, second.evaluator, second.name) == (0, "a", 1, "b")
    assert first.status.tolist() == [[[1], [1]], [[3], [0]]]
    assert first.passed.tolist() == [[[1], [0]], [[-1], [-1]]]
    assert flat_values(first.score) == [1.0, 0.0, None, None]
    assert second.status.tolist() == [[[2], [0]], [[0], [1]]]
    assert flat_values(second.score) == [None, None, None, 0.5]


def test_missing_cells_have_no_status_and_no_figures() -> None:
    cells = load_cell_arrays([(3, "failed", None, 0.1), (0, "done", 2.5, None), (1, "cancelled", None, None)], SHAPE)

    assert cells.status.tolist() == [[[1], [3]], [[0], [2]]]
    assert flat_values(cells.latency) == [2.5, None, None, None]
    assert flat_values(cells.cost) == [None, None, None, 0.1]


def test_a_failed_cell_counts_as_not_passed_with_score_zero_unless_excluded() -> None:
    cells = load_cell_arrays([(0, "done", 1, None), (1, "failed", 1, None), (2, "done", 1, None)], SHAPE)
    (scores,) = load_score_arrays([(0, "a", 0, "scored", True, 0.7), (0, "a", 2, "error", None, None)], SHAPE)

    counts, without = count_scores(scores, cells), count_scores(scores, cells, "exclude")

    assert (flat_values(counts.passed), flat_values(counts.score)) == ([1, 0, None, None], [0.7, 0, None, None])
    assert flat_values(counts.is_counted) == [True, True, False, False]
    assert (flat_values(without.passed), flat_values(without.score)) == ([1, None, None, None], [0.7, None, None, None])


def test_a_failed_cell_has_no_pass_value_if_the_evaluator_only_scores() -> None:
    cells = load_cell_arrays([(0, "done", 1, None), (1, "failed", 1, None)], SHAPE)
    (scores,) = load_score_arrays([(0, "a", 0, "scored", None, 0.7)], SHAPE)

    assert flat_values(count_scores(scores, cells).passed) == [None] * 4
    assert flat_values(count_scores(scores, cells).score) == [0.7, 0, None, None]


def test_failed_cells_without_any_score_count_as_not_passed() -> None:
    cells = load_cell_arrays([(cell, "failed", 1, None) for cell in range(4)], SHAPE)

    counts = count_scores(empty_score_arrays(0, "a", SHAPE), cells)

    assert (flat_values(counts.passed), flat_values(counts.score)) == ([0] * 4, [0] * 4)


def test_row_means_ignore_repeats_without_a_value() -> None:
    assert row_means(np.array([[1, 0, NAN, 1], [NAN] * 4])) == pytest.approx(np.array([2 / 3, NAN]), nan_ok=True)
    assert flat_values(row_means(np.array([[1.0], [NAN]]))) == [1.0, None]
