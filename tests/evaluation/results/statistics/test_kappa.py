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


def theirs(counts: Any, **how: Any) -> float:
    result: Any = cohens_kappa(counts, **how)  # Its attributes are made as it goes.
    return result.kappa


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_statsmodels_says(seed: int) -> None:
    draw = random.Random(seed)
    ours = [draw.randrange(5) for _ in range(60)]
    pairs = [(one, one if draw.random() < 0.6 else draw.randrange(5)) for one in ours]
    yes = [(int(one > 2), int(second > 2)) for one, second in pairs]

    assert cohen_kappa(pairs) == pytest.approx(theirs(table(pairs, 5)))
    assert cohen_kappa(yes) == pytest.approx(theirs(table(yes, 2)))
    assert weighted_kappa(pairs) == pytest.approx(theirs(table(pairs, 5), wt="quadratic"))


def test_those_who_always_agree_have_1_and_those_who_never_do_less_than_0() -> None:
    assert cohen_kappa([("a", "a"), ("b", "b")]) == 1
    assert cohen_kappa([(True, False), (False, True)]) == -1
    assert weighted_kappa([(1, 1), (5, 5)]) == 1
    assert weighted_kappa([(1, 5), (5, 1)]) == -1


def test_what_is_far_off_counts_for_more() -> None:
    similar, different = [(1, 2), (3, 3), (5, 5), (4, 4)], [(1, 5), (3, 3), (5, 5), (4, 4)]

    assert cohen_kappa(similar) == pytest.approx(0.6923, abs=1e-4)
    assert cohen_kappa(different) == pytest.approx(0.6667, abs=1e-4)
    assert weighted_kappa(similar) == pytest.approx(13 / 14)
    assert weighted_kappa(different) == pytest.approx(-1 / 31)


@pytest.mark.parametrize("pairs", [[], [(1, 1)], [(1, 1), (1, 2)], [(1, 2), (2, 2)], [(1, 1), (1, 1)]])
def test_beside_somebody_who_always_says_the_same_there_is_none(pairs: list[tuple[int, int]]) -> None:
    assert (cohen_kappa(pairs), weighted_kappa(pairs)) == (None, None)
