"""Gates: thresholds that an evaluation must reach."""

from collections import Counter

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.results.compare import ComparedVariant, compare_variants
from palaver.evaluation.results.gates import (
    Gates,
    check_gate_names,
    failed_evaluators,
    failed_gates,
    parse_allow_unscored,
    parse_fail_under,
)
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
        "--allow-unscored 0%: exact did not score 2 of 2 answers for 'base' (most often: it is an object).",
    ]


UNSCORED_RESULTS = results(
    {
        "exact": single_repeat(True, True, True, "skipped", "failed"),
        "similar": single_repeat("skipped", "skipped", 1.0, 1.0, "failed"),
        "polite": single_repeat(True, True, True, True, "failed"),
    }
)
EXACT_LINE = (
    "--allow-unscored {}: exact did not score 1 of 5 answers for 'base' (most often: the row has no expected answer)."
)
SIMILAR_LINE = (
    "--allow-unscored {}: similar did not score 2 of 5 answers for 'base' (most often: the row has no expected answer)."
)


@pytest.mark.parametrize(
    ("gates", "lines"),
    [
        (Gates(), []),
        (Gates(minimum=0.5), [EXACT_LINE.format("0%"), SIMILAR_LINE.format("0%")]),
        (Gates(fail_under={"exact": 0.5}), [EXACT_LINE.format("0%")]),
        (Gates(fail_under={"polite": 0.5}), []),
        (Gates(max_regressions=3), [EXACT_LINE.format("0%"), SIMILAR_LINE.format("0%")]),
        (Gates(fail_on_worse=True, max_unscored=0.2), [SIMILAR_LINE.format("20%")]),
        (Gates(minimum=0.5, max_unscored=0.4), []),
        (Gates(minimum=0.5, max_unscored=0.4, allow_unscored={"exact": 0.125}), [EXACT_LINE.format("12.5%")]),
    ],
)
def test_a_gate_fails_if_more_answers_were_not_scored_than_allowed(gates: Gates, lines: list[str]) -> None:
    assert failed_gates(gates, summarize(UNSCORED_RESULTS)) == lines


def failures(reason: str, gates: Gates) -> list[str]:
    """The lines on an evaluator that failed once for this reason."""
    run = results({"exact": single_repeat(True, "error", "skipped")})
    run = run._replace(reasons={(0, 0): Counter({("skipped", "nothing: -"): 5, ("error", reason): 1})})
    return failed_evaluators(gates, run, summarize(run))


def test_an_evaluator_that_raised_has_failed_whatever_is_allowed() -> None:
    line = "Evaluator 'exact' failed for 1 of 3 answers of 'base': KeyError: 'x'"

    assert failures("evaluator_failed: KeyError: 'x'", Gates()) == [line]
    assert failures("evaluator_failed: KeyError: 'x'", Gates(max_unscored=1.0)) == [line]


def test_an_answer_that_could_not_be_scored_is_a_failure_unless_it_is_allowed() -> None:
    line = "Evaluator 'exact' failed for 1 of 3 answers of 'base': the judge did not reply"

    assert failures("judge_failed: the judge did not reply", Gates(max_unscored=0.5)) == [line]
    assert failures("judge_failed: the judge did not reply", Gates(max_unscored=0.7)) == []


def test_skipped_answers_are_not_a_failure_of_the_evaluator() -> None:
    assert failed_evaluators(Gates(), UNSCORED_RESULTS, summarize(UNSCORED_RESULTS)) == []


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


def test_allow_unscored_is_a_percentage_for_all_or_a_name_and_a_percentage() -> None:
    assert parse_allow_unscored([]) == (0.0, {})
    assert parse_allow_unscored(["5%", "exact_match=12.5%", "a=b=100%"]) == (0.05, {"exact_match": 0.125, "a=b": 1.0})


@pytest.mark.parametrize("text", ["", "%", "x%", "0.05", "5", "101%", "-1%", "=5%", "nan%"])
def test_invalid_percentages_are_rejected(text: str) -> None:
    with pytest.raises(InvalidValue, match="use a percentage such as 5%, or name=5%"):
        parse_allow_unscored([text])


def test_a_gate_for_an_unknown_evaluator_is_rejected() -> None:
    check_gate_names(Gates(fail_under={"exact": 0.5, "polite.words": 0.5}), ["exact", "polite"])

    with pytest.raises(InvalidValue, match=r"unknown evaluator 'exat'\. Available: exact, polite"):
        check_gate_names(Gates(fail_under={"exat": 0.5}), ["polite", "exact"])
    with pytest.raises(InvalidValue, match="--allow-unscored: unknown evaluator 'exat'"):
        check_gate_names(Gates(allow_unscored={"exat": 0.5}), ["polite", "exact"])
