"""Holm's correction of p-values, compared with statsmodels."""

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from palaver.evaluation.results.statistics import holm_adjust


@pytest.mark.parametrize(
    "ps", [[0.267, 0.5], [0.01, 0.04, 0.03, 0.005], [0.9, 0.9, 0.9], [0.2], list(np.random.default_rng(3).random(25))]
)
def test_adjusted_p_values_match_statsmodels(ps: list[float]) -> None:
    expected: Any = multipletests(ps, method="holm")[1]

    assert holm_adjust(ps) == pytest.approx(list(expected))


def test_an_empty_list_stays_empty() -> None:
    assert holm_adjust([]) == []
