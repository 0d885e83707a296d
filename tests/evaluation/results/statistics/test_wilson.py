"""Wilson score intervals, compared with statsmodels."""

import pytest
from statsmodels.stats.proportion import proportion_confint

from palaver.evaluation.results.statistics import wilson_interval


@pytest.mark.parametrize(
    ("successes", "count"), [(0, 1), (1, 1), (0, 40), (40, 40), (36, 40), (106, 128), (1, 3), (8_280, 10_000)]
)
def test_the_interval_matches_statsmodels(successes: int, count: int) -> None:
    assert wilson_interval(successes, count) == pytest.approx(
        proportion_confint(successes, count, alpha=0.05, method="wilson"), abs=1e-12
    )


def test_intervals_of_the_reference_examples() -> None:
    assert [round(end, 3) for end in wilson_interval(106, 128) or ()] == [0.753, 0.884]
    assert [round(end, 3) for end in wilson_interval(36, 40) or ()] == [0.769, 0.96]


def test_an_empty_sample_has_no_interval() -> None:
    assert wilson_interval(0, 0) is None
