"""Cohen's kappa, compared with statsmodels."""

import random
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from palaver.evaluation.reviews import cohen_kappa, weighted_kappa


def table(pairs: list[tuple[int, int]], size: int) -> np.ndarray:
    counts = np.zeros((size, size))
    for one, second in pairs:
        counts[one, second] += 1
    return counts


def statsmodels_kappa(counts: Any, **options: Any) -> float:
    result: Any = cohens_kappa(counts, **options)  # Its attributes are created dynamically.
    return result.kappa


@pytest.mark.parametrize("seed", range(5))
def test_kappa_matches_statsmodels(seed: int) -> None:
    draw = random.Random(seed)
    ratings = [draw.randrange(5) for _ in range(60)]
    pairs = [(one, one if draw.random() < 0.6 else draw.randrange(5)) for one in ratings]
    binary_pairs = [(int(one > 2), int(second > 2)) for one, second in pairs]

    assert cohen_kappa(pairs) == pytest.approx(statsmodels_kappa(table(pairs, 5)))
    assert cohen_kappa(binary_pairs) == pytest.approx(statsmodels_kappa(table(binary_pairs, 2)))
    assert weighted_kappa(pairs) == pytest.approx(statsmodels_kappa(table(pairs, 5), wt="quadratic"))


def test_full_agreement_is_1_and_full_disagreement_is_minus_1() -> None:
    assert cohen_kappa([("a", "a"), ("b", "b")]) == 1
    assert cohen_kappa([(True, False), (False, True)]) == -1
    assert weighted_kappa([(1, 1), (5, 5)]) == 1
    assert weighted_kappa([(1, 5), (5, 1)]) == -1


def test_weighted_kappa_penalizes_larger_differences_more() -> None:
    similar, different = [(1, 2), (3, 3), (5, 5), (4, 4)], [(1, 5), (3, 3), (5, 5), (4, 4)]

    assert cohen_kappa(similar) == pytest.approx(0.6923, abs=1e-4)
    assert cohen_kappa(different) == pytest.approx(0.6667, abs=1e-4)
    assert weighted_kappa(similar) == pytest.approx(13 / 14)
    assert weighted_kappa(different) == pytest.approx(-1 / 31)


@pytest.mark.parametrize("pairs", [[], [(1, 1)], [(1, 1), (1, 2)], [(1, 2), (2, 2)], [(1, 1), (1, 1)]])
def test_kappa_is_undefined_if_a_rater_always_gives_the_same_rating(pairs: list[tuple[int, int]]) -> None:
    assert (cohen_kappa(pairs), weighted_kappa(pairs)) == (None, None)
