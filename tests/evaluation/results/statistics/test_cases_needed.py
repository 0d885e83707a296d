"""The number of test cases needed to detect a difference."""

from math import sqrt

import pytest

from palaver.evaluation.results.statistics import cases_needed


def test_cases_needed_for_the_reference_example() -> None:
    assert cases_needed(-5 / 128, 13 / 128) == 252


@pytest.mark.parametrize(("difference", "square"), [(0.1, 0.3), (-0.02, 0.05), (0.5, 0.5)])
def test_cases_needed_is_the_smallest_count_whose_interval_excludes_zero(difference: float, square: float) -> None:
    needed = cases_needed(difference, square)

    assert needed is not None
    assert 1.96 * sqrt((square - difference**2) / needed) <= abs(difference) + 1e-12
    assert 1.96 * sqrt((square - difference**2) / (needed - 1)) > abs(difference)


def test_no_number_of_cases_detects_a_difference_of_zero() -> None:
    assert cases_needed(0.0, 0.2) is None


def test_one_case_is_enough_if_all_rows_differ_equally() -> None:
    assert cases_needed(-1.0, 1.0) == 1
