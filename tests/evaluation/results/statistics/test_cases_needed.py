"""The number of test cases needed to detect a difference."""

from math import sqrt

import pytest

from palaver.evaluation.results.statistics import cases_needed


def test_the_contracts_example_comes_out() -> None:
    assert cases_needed(-5 / 128, 13 / 128) == 252


@pytest.mark.parametrize(("difference", "square"), [(0.1, 0.3), (-0.02, 0.05), (0.5, 0.5)])
def test_it_is_the_first_number_of_rows_whose_interval_is_no_wider_than_the_difference(
    difference: float, square: float
) -> None:
    needed = cases_needed(difference, square)

    assert needed is not None
    assert 1.96 * sqrt((square - difference**2) / needed) <= abs(difference) + 1e-12
    assert 1.96 * sqrt((square - difference**2) / (needed - 1)) > abs(difference)


def test_where_nothing_differs_no_number_of_rows_would_tell() -> None:
    assert cases_needed(0.0, 0.2) is None


def test_where_all_rows_differ_alike_one_is_enough() -> None:
    assert cases_needed(-1.0, 1.0) == 1
