"""All three bootstrap implementations agree with scipy's, within the error of 2,000 draws."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap, ks_2samp

from palaver.evaluation.results import statistics as ours
from palaver.evaluation.results.statistics import RESAMPLES, bootstrap_intervals, resample_means

RANDOM = np.random.default_rng(11)
COLUMNS = {
    "two values": (RANDOM.random(400) < 0.83).astype(float),
    "three values": RANDOM.choice([-1.0, 0.0, 1.0], 400, p=[0.1, 0.8, 0.1]),
    "few values": np.round(RANDOM.random(400) * 20) / 20,
    "many values": RANDOM.random(400) ** 3,
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_interval_matches_scipy(kind: str) -> None:
    column = COLUMNS[kind]
    expected = bootstrap(
        (column,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(5), batch=2_000
    ).confidence_interval
    width = expected.high - expected.low

    (result,) = bootstrap_intervals([column])

    assert result == pytest.approx((expected.low, expected.high), abs=0.08 * width)


@pytest.mark.parametrize("kind", COLUMNS)
def test_resampled_means_are_distributed_like_those_of_individually_drawn_rows(kind: str) -> None:
    column = COLUMNS[kind]
    plain = column[np.random.default_rng(9).integers(0, len(column), (RESAMPLES, len(column)))].mean(axis=1)

    (means,) = resample_means([column])

    actual: Any = ks_2samp(means, plain)
    assert actual.pvalue > 0.01


def test_binned_columns_have_the_same_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    column = COLUMNS["many values"]
    (exact,) = bootstrap_intervals([column])
    monkeypatch.setattr(ours, "MAX_DRAWS", 0)

    (binned,) = bootstrap_intervals([column])

    assert exact is not None
    assert binned == pytest.approx(exact, abs=0.08 * (exact[1] - exact[0]))


def test_intervals_depend_on_the_scores_alone() -> None:
    single = [bootstrap_intervals([column])[0] for column in COLUMNS.values()]

    together = bootstrap_intervals([*COLUMNS.values(), np.arange(400.0)])[:4]
    reordered = bootstrap_intervals([column[::-1] for column in COLUMNS.values()])
    assert np.array(together) == pytest.approx(np.array(single))
    assert np.array(reordered) == pytest.approx(np.array(single))
    assert bootstrap_intervals([COLUMNS["many values"] ** 2]) != single[3:]


def test_a_constant_column_has_a_zero_width_interval_and_an_empty_one_none() -> None:
    assert bootstrap_intervals([np.ones(5), np.empty(0), np.zeros(1)]) == [(1.0, 1.0), None, (0.0, 0.0)]


def test_another_process_computes_the_same_intervals() -> None:
    program = (
        "import numpy as np; from palaver.evaluation.results.statistics import bootstrap_intervals;"
        "print(bootstrap_intervals([np.arange(100.0) ** 2, np.array([0.0, 1.0, 1.0])]))"
    )

    actual = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert actual.strip() == str(bootstrap_intervals([np.arange(100.0) ** 2, np.array([0.0, 1.0, 1.0])]))
