"""Summary of an evaluation: pass rates, scores, flaky rows and latency."""

import numpy as np
import pytest

from palaver.evaluation.results.figures import (
    EvaluatorSummary,
    Latencies,
    SliceSummary,
    VariantSummary,
    reason_text,
)
from palaver.evaluation.results.statistics import bootstrap_intervals, wilson_interval
from palaver.evaluation.results.summary import slice_rows, summarize
from tests.evaluation.results.result_factory import CellOutcome, approximately, large_results, results, single_repeat
from tests.growth import assert_linear


def test_an_evaluation_is_summarized_by_variant_and_evaluator() -> None:
    run = results(
        {"exact": single_repeat(True, False, True, "failed", "pending", "error", "skipped")}, latency=2.0, cost=0.25
    )

    assert summarize(run).variants == [
        VariantSummary(
            name="base",
            cells=6,
            failed=1,
            cost=1.5,
            latency=Latencies(2.0, 2.0),
            evaluators=[
                EvaluatorSummary(
                    name="exact",
                    n=4,
                    scored=3,
                    unscored=2,
                    unscored_reason="it is an object",
                    errors=1,
                    skipped=1,
                    pass_rate=0.5,
                    pass_ci=wilson_interval(2, 4),
                    ci="wilson",
                    mean=0.5,
                    mean_ci=bootstrap_intervals([np.array([1.0, 0.0, 1.0, 0.0])])[0],
                    flaky=None,
                )
            ],
        )
    ]


def test_failed_cells_can_be_excluded() -> None:
    run = results({"exact": single_repeat(True, "failed", True)}, failed_as="exclude")

    (variant,) = summarize(run).variants

    assert (variant.cells, variant.failed) == (3, 1)
    assert [(one.n, one.pass_rate, one.mean) for one in variant.evaluators] == [(2, 1.0, 1.0)]


def test_repeats_are_averaged_per_row() -> None:
    run = results({"exact": [[[True, True, True]], [[True, False, False]], [["error", "failed", True]]]})

    ((actual,),) = (variant.evaluators for variant in summarize(run).variants)

    shares = np.array([1.0, 1 / 3, 1 / 2])
    assert actual == EvaluatorSummary(
        name="exact",
        n=3,
        scored=7,
        unscored=1,
        unscored_reason="it is an object",
        errors=1,
        skipped=0,
        pass_rate=approximately(shares.mean()),
        pass_ci=bootstrap_intervals([shares])[0],
        ci="bootstrap",
        mean=approximately(shares.mean()),
        mean_ci=bootstrap_intervals([shares])[0],
        flaky=2,
    )


def test_a_row_is_flaky_if_the_scores_of_its_repeats_differ_widely() -> None:
    run = results({"similar": [[[0.5, 0.7]], [[0.5, 0.71]], [[0.9, 0.9]], [["error", 0.2]]]})

    assert [one.flaky for one in summarize(run).variants[0].evaluators] == [1]


def test_an_evaluator_that_only_scores_has_no_pass_rate() -> None:
    (actual,) = summarize(results({"similar": single_repeat(0.5, 0.75, "failed")})).variants[0].evaluators

    assert (actual.n, actual.pass_rate, actual.pass_ci, actual.mean) == (3, None, None, pytest.approx(1.25 / 3))


def test_an_evaluation_without_scores_has_no_figures() -> None:
    (variant,) = summarize(results({"exact": single_repeat("pending", "error")}, latency=None)).variants
    (actual,) = variant.evaluators

    assert (variant.cells, variant.failed, variant.cost, variant.latency) == (1, 0, None, Latencies(None, None))
    assert (actual.n, actual.errors, actual.pass_rate, actual.pass_ci, actual.mean, actual.mean_ci) == (
        0,
        1,
        None,
        None,
        None,
        None,
    )


def test_the_most_frequent_reason_of_a_variant_without_scores_is_given_in_words() -> None:
    outcomes: list[list[list[CellOutcome]]] = [
        [["skipped"], [True]],
        [["error"], ["error"]],
        [["skipped"], [True]],
        [["failed"], ["pending"]],
    ]
    first, second = summarize(results({"exact": outcomes}, variants=("base", "new"))).variants

    assert [(one.scored, one.unscored, one.unscored_reason) for one in (*first.evaluators, *second.evaluators)] == [
        (0, 3, "the row has no expected answer"),
        (2, 1, "it is an object"),
    ]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("no_expected: the row has no expected answer", "the row has no expected answer"),
        ("evaluator_failed: KeyError: 'x'", "KeyError: 'x'"),
        ("provider_failed: local could not be reached.\nSee the log.", "local could not be reached"),
        ("refusal", "refusal"),
        ("Sorry: no", "Sorry: no"),
        ("", ""),
    ],
)
def test_a_reason_in_words_has_no_code(reason: str, text: str) -> None:
    assert reason_text(reason) == text


def test_a_named_score_that_is_missing_counts_as_not_scored() -> None:
    rules = {
        "rules": single_repeat("pending", "pending", "error", "failed"),
        "rules.a": single_repeat(True, True, "pending", "failed"),
        "rules.b": single_repeat(True, "pending", "pending", "failed"),
    }
    run = results(rules)
    scores = [arrays._replace(evaluator=0) for arrays in run.scores]
    (variant,) = summarize(run._replace(scores=scores)).variants

    assert [(one.name, one.scored, one.unscored, one.unscored_reason) for one in variant.evaluators] == [
        ("rules", 0, 1, "it is an object"),
        ("rules.a", 2, 1, "it is an object"),
        ("rules.b", 1, 2, "it is an object"),
    ]


def test_variants_are_summarized_separately() -> None:
    run = results({"exact": [[[True], [False]], [[True], [True]]]}, variants=("base", "new"))

    assert [(one.name, one.cells, one.evaluators[0].pass_rate) for one in summarize(run).variants] == [
        ("base", 2, 1.0),
        ("new", 2, 0.5),
    ]


def test_figures_are_sliced_by_column_without_empty_slices() -> None:
    run = results({"exact": single_repeat(True, False, True, "pending")})

    (actual,) = summarize(run, slice_rows(["maths", "maths", "art", "music"])).variants[0].evaluators

    assert actual.slices == [
        SliceSummary(
            value="maths",
            n=2,
            pass_rate=0.5,
            pass_ci=wilson_interval(1, 2),
            mean=0.5,
            mean_ci=bootstrap_intervals([np.array([1.0, 0.0])])[0],
        ),
        SliceSummary(value="art", n=1, pass_rate=1.0, pass_ci=wilson_interval(1, 1), mean=1.0, mean_ci=(1.0, 1.0)),
    ]


def test_latencies_are_the_median_and_the_95th_percentile() -> None:
    run = results({"exact": single_repeat(*[True] * 101)})
    seconds = np.arange(101.0).reshape(101, 1, 1)
    run = run._replace(cells=run.cells._replace(latency=seconds))

    assert summarize(run).variants[0].latency == Latencies(50.0, 95.0)


def test_summarizing_takes_linear_time() -> None:
    assert_linear(summarize, large_results, 10_000)
