"""McNemar's test, compared with statsmodels."""

from typing import Any

import pytest
from statsmodels.stats.contingency_tables import mcnemar as theirs

from palaver.evaluation.results.statistics import mcnemar_test


@pytest.mark.parametrize(
    ("worse", "better"), [(9, 4), (0, 1), (0, 5), (5, 5), (17, 3), (1, 30), (400, 470), (900, 1_100), (3_000, 4_000)]
)
def test_p_value_matches_statsmodels(worse: int, better: int) -> None:
    expected: Any = theirs([[100, worse], [better, 100]], exact=True)

    assert mcnemar_test(worse, better) == pytest.approx(expected.pvalue, rel=1e-9)
    assert mcnemar_test(better, worse) == mcnemar_test(worse, better)


def test_p_value_is_1_without_changes() -> None:
    assert mcnemar_test(0, 0) == 1.0


def test_p_value_of_the_reference_example() -> None:
    assert round(mcnemar_test(9, 4), 3) == 0.267
