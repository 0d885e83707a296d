"""Gates: thresholds that an evaluation must reach."""

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.results.compare import ComparedVariant, compare_variants
from palaver.evaluation.results.gates import Gates, check_gate_names, failed_gates, parse_fail_under
from palaver.evaluation.results.summary import summarize
from tests.evaluation.results.result_factory import results, single_repeat

GOOD_RESULTS = results({"exact": single_repeat(*[True] * 9, False), "similar": single_repeat(*[0.5] * 10)}, id="ev_1")
BAD_RESULTS = results(
    {"exact": single_repeat(*[True] * 5, *[False] * 5), "similar": single_repeat(*[0.25] * 10)}, id="ev_2"
)


def test_an_evaluation_that_reaches_all_gates_has_no_failed_gates() -> None:
    gates = Gates(minimum=0.5, fail_under={"exact": 0.9}, max_regressions=0, fail_on_worse=True)

    assert (
        failed_gates(
            gates,
            summarize(GOOD_RESULTS),
            [compare_variants(ComparedVariant(GOOD_RESULTS, 0), ComparedVariant(GOOD_RESULTS, 0))],
        )
        == []
    )


def test_every_failed_gate_is_reported() -> None:
    gates = Gates(minimum=0.5, fail_under={"exact": 0.9}, max_regressions=1, fail_on_worse=True)

    first, second, third, fourth, fifth = failed_gates(
        gates,
        summarize(BAD_RESULTS),
        [compare_variants(ComparedVariant(GOOD_RESULTS, 0), ComparedVariant(BAD_RESULTS, 0))],
    )

    assert first == "--fail-under 0.9: exact has a pass rate of 50% for 'base'."
    assert second == "--fail-under 0.5: similar has a mean score of 0.250 for 'base'."
    assert third == "--max-regressions 1: 4 rows regressed in exact for 'base'."
    assert fourth == (
        "--fail-on worse: the pass rate of exact fell from 90% to 50% for 'base' compared with 'base (baseline)'."
    )
    assert fifth == (
        "--fail-on worse: the mean score of similar fell from 0.500 to 0.250 for 'base' "
        "compared with 'base (baseline)'."
    )


def test_strict_gates_require_the_lower_bound_of_the_interval() -> None:
    gates = Gates(fail_under={"exact": 0.9}, strict=True)

    assert failed_gates(gates, summarize(GOOD_RESULTS)) == [
        "--fail-under 0.9: exact has a pass rate of 90% for 'base', and its 95% confidence interval starts at 59.6%."
    ]


def test_a_gate_without_scores_fails() -> None:
    run = results({"exact": single_repeat("error", "skipped")})

    assert failed_gates(Gates(minimum=0.0, fail_under={"other": 0.5}), summarize(run)) == [
        "--fail-under 0.5: no scores from other for 'base'.",
        "--fail-under 0: exact scored no rows for 'base'.",
    ]


def test_a_gate_of_an_evaluator_applies_to_all_its_scores() -> None:
    run = results(
        {
            "rules": single_repeat("skipped", "skipped"),
            "rules.a": single_repeat(True, True),
            "rules.b": single_repeat(True, False),
        }
    )

    assert failed_gates(Gates(minimum=0.5), summarize(run)) == []
    assert failed_gates(Gates(fail_under={"rules": 0.9}), summarize(run)) == [
        "--fail-under 0.9: rules.b has a pass rate of 50% for 'base'."
    ]
    assert failed_gates(Gates(fail_under={"rules": 0.9, "rules.b": 0.5}), summarize(run)) == []


def test_fail_under_is_a_number_for_all_or_a_name_and_a_number() -> None:
    assert parse_fail_under(["0.8", "exact_match=0.9", "a=b=1"]) == (0.8, {"exact_match": 0.9, "a=b": 1.0})


@pytest.mark.parametrize("text", ["", "x", "exact=", "=0.5", "exact=1.5", "-0.1", "nan", "exact=90%"])
def test_invalid_fail_under_values_are_rejected(text: str) -> None:
    with pytest.raises(InvalidValue, match="use a number from 0 to 1, or name=number"):
        parse_fail_under([text])


def test_a_gate_for_an_unknown_evaluator_is_rejected() -> None:
    check_gate_names(Gates(fail_under={"exact": 0.5, "polite.words": 0.5}), ["exact", "polite"])

    with pytest.raises(InvalidValue, match=r"unknown evaluator 'exat'\. Available: exact, polite"):
        check_gate_names(Gates(fail_under={"exat": 0.5}), ["polite", "exact"])
