"""Comparison of two evaluations: paired rows, verdicts and regressions."""

import numpy as np
import pytest

from palaver.evaluation.results.compare import ComparedVariant, compare_variants, interval_verdict, pair_rows
from palaver.evaluation.results.figures import Comparison, EvaluatorComparison, RowChange
from palaver.evaluation.results.statistics import percentile_interval, resample_means
from palaver.evaluation.results.summary import summarize
from tests.evaluation.results.result_factory import approximately, large_results, pack_rows, results, row, single_repeat
from tests.growth import assert_linear


def test_comparison_of_the_reference_example() -> None:
    before = [True] * 111 + [False] * 17
    after = [True] * 102 + [False] * 9 + [True] * 4 + [False] * 13
    base = results({"exact_match": single_repeat(*before), "other": single_repeat(*before)}, id="ev_2a")
    candidate = results(
        {"exact_match": single_repeat(*after), "other": single_repeat(*before)}, id="ev_3x", variants=("new",)
    )
    differences = np.array(after, float) - np.array(before, float)

    actual = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0))

    (means,) = resample_means([differences])
    first, second = actual.evaluators
    assert first == EvaluatorComparison(
        name="exact_match",
        measure="pass_rate",
        paired=128,
        unpaired=0,
        base=111 / 128,
        candidate=106 / 128,
        difference=-5 / 128,
        ci=percentile_interval(means),
        test="mcnemar-exact",
        p=approximately(0.267, 5e-4),
        p_adjusted=approximately(0.534, 5e-4),
        verdict="unclear",
        regressions=9,
        fixes=4,
        cases_needed=252,
        worst=[RowChange(row=row(number), base=1.0, candidate=0.0) for number in range(103, 112)],
    )
    assert first.ci == pytest.approx((-0.094, 0.016), abs=0.01)
    assert (second.verdict, second.difference, second.ci, second.p, second.p_adjusted) == ("same", 0, (0, 0), 1, 1)
    assert (actual.base, actual.candidate, actual.margin, actual.changed) == ("ev_2a:base", "ev_3x:new", 0.02, [])


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((-0.2, -0.01), "worse"),
        ((-0.01, -0.001), "worse"),
        ((0.001, 0.3), "better"),
        ((-0.02, 0.02), "same"),
        ((0.0, 0.0), "same"),
        ((-0.021, 0.01), "unclear"),
        ((-0.5, 0.0), "unclear"),
    ],
)
def test_the_verdict_follows_from_the_confidence_interval(interval: tuple[float, float], verdict: str) -> None:
    assert interval_verdict(interval, 0.02) == verdict


def test_rows_are_paired_by_id_if_their_content_is_the_same() -> None:
    base = pack_rows(1, 2, 3) + pack_rows(4, content=1)
    candidate = pack_rows(5, 3) + pack_rows(4, content=2) + pack_rows(1)

    pairs = pair_rows(base, candidate)

    assert (pairs.base.tolist(), pairs.candidate.tolist()) == ([0, 2], [3, 1])
    assert (pairs.unpaired, pairs.changed) == (2, [(4).to_bytes(16)])


def test_changed_rows_are_listed_and_not_compared() -> None:
    base = results({"exact": single_repeat(True, True)}, id="ev_1", rows=pack_rows(1) + pack_rows(2, content=1))
    candidate = results({"exact": single_repeat(True, False)}, id="ev_2", rows=pack_rows(1) + pack_rows(2, content=2))

    actual = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0))

    assert (actual.changed, actual.changed_count) == ([row(2)], 1)
    assert [(one.paired, one.unpaired, one.regressions) for one in actual.evaluators] == [(1, 0, 0)]


def test_a_row_that_is_unscored_on_one_side_is_unpaired() -> None:
    base = results({"exact": single_repeat(True, "error", "pending", "failed")}, id="ev_1")
    candidate = results({"exact": single_repeat("failed", True, True, True)}, id="ev_2")

    (actual,) = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)).evaluators

    assert (actual.paired, actual.unpaired, actual.base, actual.candidate) == (2, 2, 0.5, 0.5)
    assert (actual.regressions, actual.fixes) == (1, 1)


def test_regressions_are_decided_by_majority_over_repeats() -> None:
    yes, no, half = [True, True, False, True], [False, True, False, False], [True, False, True, False]
    base = results({"exact": [[yes], [yes], [no], [half]]}, id="ev_1")
    candidate = results({"exact": [[half], [yes], [yes], [no]]}, id="ev_2")

    (actual,) = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)).evaluators

    assert (actual.test, actual.regressions, actual.fixes) == ("paired-bootstrap", 1, 1)
    assert actual.worst == [RowChange(row=row(1), base=0.75, candidate=0.5)]
    assert (actual.base, actual.candidate) == (pytest.approx(9 / 16), pytest.approx(9 / 16))


def test_scores_are_compared_by_a_paired_bootstrap() -> None:
    before = list(np.linspace(0.5, 0.9, 50))
    after = [score - 0.1 - 0.05 * (index % 3) for index, score in enumerate(before)]
    base, candidate = (
        results({"similar": single_repeat(*before)}, id="ev_1"),
        results({"similar": single_repeat(*after)}, id="ev_2"),
    )

    (actual,) = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)).evaluators

    assert (actual.measure, actual.test, actual.verdict, actual.paired) == ("mean", "paired-bootstrap", "worse", 50)
    assert actual.difference == pytest.approx(np.mean(after) - np.mean(before))
    assert actual.p == pytest.approx(2 / 2_001)
    assert (actual.regressions, actual.fixes, actual.score) == (0, 0, None)


def test_scores_are_compared_in_addition_to_pass_rates() -> None:
    before, after = [(True, 0.9), (True, 0.8), (False, 0.2)], [(True, 0.7), (True, 0.6), (False, 0.1)]
    base, candidate = (
        results({"lev": single_repeat(*before)}, id="ev_1"),
        results({"lev": single_repeat(*after)}, id="ev_2"),
    )

    (actual,) = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)).evaluators

    assert (actual.measure, actual.difference, actual.verdict) == ("pass_rate", 0.0, "same")
    assert actual.score is not None
    assert actual.score.difference == pytest.approx(-0.5 / 3)


def test_regressions_with_the_largest_drop_come_first() -> None:
    base = results({"lev": single_repeat((True, 0.6), (True, 0.9), (True, 0.8))}, id="ev_1")
    candidate = results({"lev": single_repeat((False, 0.4), (False, 0.1), (True, 0.8))}, id="ev_2")

    (actual,) = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)).evaluators

    assert actual.worst == [
        RowChange(row=row(2), base=0.9, candidate=0.1),
        RowChange(row=row(1), base=0.6, candidate=0.4),
    ]


def test_two_variants_of_one_evaluation_can_be_compared() -> None:
    run = results({"exact": [[[True], [False]], [[True], [True]]]}, variants=("base", "new"))

    actual = compare_variants(ComparedVariant(run, 0), ComparedVariant(run, 1))

    assert [(one.base, one.candidate, one.regressions) for one in actual.evaluators] == [(1.0, 0.5, 1)]


def test_evaluations_without_common_rows_have_no_figures() -> None:
    base = results({"exact": single_repeat(True), "old": single_repeat(True)}, id="ev_1", rows=pack_rows(1))
    candidate = results({"exact": single_repeat(True), "new": single_repeat(True)}, id="ev_2", rows=pack_rows(2))

    assert compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)) == Comparison(
        base="ev_1:base",
        candidate="ev_2:base",
        margin=0.02,
        evaluators=[
            EvaluatorComparison(
                name="exact",
                measure="pass_rate",
                paired=0,
                unpaired=2,
                base=None,
                candidate=None,
                difference=None,
                ci=None,
                test="mcnemar-exact",
                p=None,
                p_adjusted=None,
                verdict="unclear",
                regressions=0,
                fixes=0,
                cases_needed=None,
            )
        ],
        only_in_base=["old"],
        only_in_candidate=["new"],
    )


@pytest.mark.parametrize("score", [1e308, 1e-300, -1e200])
def test_scores_of_any_magnitude_can_be_compared(score: float) -> None:
    base, candidate = (
        results({"cost": single_repeat(score, 0.0, score)}, id="ev_1"),
        results({"cost": single_repeat(0.0, 0.0, score)}),
    )

    (actual,) = compare_variants(ComparedVariant(base, 0), ComparedVariant(candidate, 0)).evaluators

    assert (actual.paired, actual.verdict) == (3, "unclear" if abs(score) > 1 else "same")
    assert summarize(base).variants[0].evaluators[0].n == 3


def test_comparing_takes_linear_time() -> None:
    def sides(rows: int) -> tuple[ComparedVariant, ComparedVariant]:
        base, candidate = large_results(rows), large_results(rows, id="ev_other")
        candidate = candidate._replace(rows=candidate.rows[32:] + candidate.rows[:32])
        return ComparedVariant(base, 0), ComparedVariant(candidate, 1)

    assert_linear(lambda pair: compare_variants(*pair), sides, 10_000)
