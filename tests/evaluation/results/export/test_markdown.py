"""Markdown summary of an evaluation."""

import re

import pytest
from msgspec.structs import replace

from palaver.evaluation.results.export import formats
from palaver.evaluation.results.export.report import Report
from tests.evaluation.results.export.report_factory import BAD, CHANGED, FLAKY, PLAIN, report, result_detail
from tests.evaluation.results.result_factory import CellOutcome, row


def render(evaluation_report: Report) -> str:
    return b"".join(formats.write_markdown(evaluation_report)).decode()


def visible_lines(text: str) -> list[str]:
    """Return the lines that are shown before the reader unfolds anything."""
    return re.sub(r"<details>(<summary>.*?</summary>).*?</details>", r"\1", text, flags=re.DOTALL).splitlines()


def test_the_summary_has_figures_verdicts_and_the_worst_regressions() -> None:
    actual = render(PLAIN)

    assert actual.splitlines()[:14] == [
        "## prompt v3 (partial)",
        "",
        "2 rows of questions (revision 4) × 2 variants",
        "",
        "| variant | evaluator | passed | 95% CI | mean | scored | not scored | failed calls | flaky |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| base | exact | 100.0% | 34.2 to 100.0 | 1.000 | 2 | 0 | 0 | - |",
        "| base | similar | - | 0.900 to 0.900 | 0.900 | 1 | 1 | 0 | - |",
        "| new | exact | 0.0% | 0.0 to 65.8 | 0.000 | 1 | 0 | 1 | - |",
        "| new | similar | - | 0.000 to 0.500 | 0.250 | 1 | 0 | 1 | - |",
        "",
        "base, similar: 1 of 2 answers not scored, most often: it is an object.",
        "",
        "new: 1 of 2 calls failed.",
    ]
    assert actual.splitlines()[15:] == [
        "### new vs. base",
        "",
        "| evaluator | verdict | base | candidate | difference | 95% CI | p (Holm) | regressed | fixed |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| exact | ❌ worse | 100.0% | 0.0% | -100.0 | -100.0 to -100.0 | 0.500 | 2 | 0 |",
        "| similar | ❌ worse | 0.900 | 0.500 | -0.400 | -0.400 to -0.400 | 0.002 | 0 | 0 |",
        "",
        "<details><summary>Regressed: 2 rows</summary>",
        "",
        "- What? (exact)",
        f"- {row(2)} (exact)".replace("_", "\\_"),
        "",
        "</details>",
    ]


@pytest.mark.parametrize(
    ("state", "failed_gates", "title"),
    [
        ("succeeded", [], "## ⚠️ prompt v3"),
        ("succeeded", ["--fail-under 0.9"], "## ❌ prompt v3"),
        ("partly", [], "## prompt v3 (partial)"),
        ("failed", [], "## ❌ prompt v3 (failed)"),
        ("cancelled", [], "## prompt v3 (cancelled)"),
    ],
)
def test_the_title_shows_whether_the_build_passes_and_everything_was_scored(
    state: str, failed_gates: list[str], title: str
) -> None:
    assert render(replace(PLAIN, state=state, failed_gates=failed_gates)).splitlines()[0] == title


def test_failed_gates_and_the_missing_baseline_follow_the_title() -> None:
    gates = [f"--fail-under 0.9: evaluator {number}." for number in range(7)]

    assert render(replace(PLAIN, failed_gates=gates, note="No previous evaluation.")).splitlines()[3:11] == [
        "",
        *(f"- ❌ --fail-under 0.9: evaluator {number}." for number in range(5)),
        "- ❌ and 2 more failed gates",
        "",
    ]
    assert "\n\nNo previous evaluation.\n\n|" in render(replace(PLAIN, note="No previous evaluation."))


def test_evaluators_that_did_not_score_for_the_same_reason_share_a_line() -> None:
    unscored: list[list[list[CellOutcome]]] = [[["skipped"]], [[True]]]
    outcomes = {"a": unscored, "b": unscored, "c": [[["error"]], [[True]]], "d": unscored, "e": [[[True]], [[True]]]}
    two = report([], {name: outcomes[name] for name in "abe"}, variants=("base",))
    reason = "1 of 2 answers not scored, most often: the row has no expected answer."

    assert render(two).splitlines()[-1] == f"base, a and b: {reason}"
    assert render(report([], outcomes, variants=("base",))).splitlines()[-3:] == [
        f"base, a and 2 more: {reason}",
        "",
        "base, c: 1 of 2 answers not scored, most often: it is an object.",
    ]


def test_flaky_rows_are_counted() -> None:
    assert "| base | exact | 66.7% | 66.7 to 66.7 | 0.667 | 3 | 0 | 0 | 1 |" in render(FLAKY)


def test_changed_rows_are_counted_and_not_compared() -> None:
    assert render(CHANGED).splitlines()[-7:] == [
        "### base vs. base (baseline)",
        "",
        "| evaluator | verdict | base | candidate | difference | 95% CI | p (Holm) | regressed | fixed |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| exact | ✅ same | 100.0% | 100.0% | +0.0 | 0.0 to 0.0 | 1.000 | 0 | 0 |",
        "",
        "Not compared: 2 rows with changed content.",
    ]


def large_report() -> Report:
    """A report of 60 rows, 4 variants and 6 evaluators; in the second variant 50 rows regressed."""
    outcomes: dict[str, list[list[list[CellOutcome]]]] = {
        f"check {number}": [[[True], [index >= 50], [True], [True]] for index in range(60)] for number in range(6)
    }
    cells = [
        result_detail(index, 0, [], cell=4 * index, question=f"1. **Is** <b>{index}</b> | a $sum$? {'Really? ' * 40}")
        for index in range(60)
    ]
    return report(cells, outcomes, variants=("current", "short_2", "long", "none"), state="succeeded")


def test_a_large_report_fits_on_a_screen() -> None:
    actual = render(large_report())

    assert visible_lines(actual) == [
        "## ✅ prompt v3",
        "",
        "60 rows of questions (revision 4) × 4 variants",
        "",
        "|  | current | short\\_2 | long | none |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(f"| check {number} | 100.0% | 16.7% ❌ | 100.0% | 100.0% |" for number in range(6)),
        "",
        "<summary>All metrics</summary>",
        "",
        "<summary>short_2 vs. current: ❌ 6 worse</summary>",
        "",
        "<summary>long vs. current: ✅ 6 same</summary>",
        "",
        "<summary>none vs. current: ✅ 6 same</summary>",
    ]
    assert re.search(r"\| -83.3 \| -9\d\.\d to -7\d\.\d \| < 0\.001 \| 50 \| 0 \|", actual)


def test_ten_regressions_are_listed_by_their_shortened_questions() -> None:
    lines = render(large_report()).splitlines()
    start = lines.index("The 10 worst regressions")

    checks = ", ".join(f"check {number}" for number in range(6))
    question = f"1\\. \\*\\*Is\\*\\* &lt;b&gt;0&lt;/b&gt; \\| a \\$sum\\$? {'Really? ' * 11}R… ({checks})"
    assert lines[start + 2] == f"- {question}"
    assert lines[start + 11 : start + 14] == [lines[start + 11], "", "</details>"]
    assert "ev_" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("question", "escaped"),
    [("- 2?", "\\- 2?"), ("10) a", "10\\) a"), ("+1", "\\+1"), ("1 + 1", "1 + 1"), ("@me `x`", "\\@me \\`x\\`")],
)
def test_a_question_is_not_read_as_markdown(question: str, escaped: str) -> None:
    cells = [result_detail(0, 0, [], cell=0, question=question)]
    changed = report(cells, {"exact": [[[True], [False]]]})

    assert f"- {escaped} (exact)" in render(changed).splitlines()


def test_a_report_is_cut_before_a_comment_would_be_rejected() -> None:
    names = [f"{'x' * 150} {number}" for number in range(100)]
    actual = render(report([], {name: [[[True]] * 100] for name in names}, variants=names))

    assert len(actual) < 65_000
    assert actual.endswith("The rest of this report is too long to show here.\n")


def test_content_is_escaped() -> None:
    actual = render(BAD)

    assert "<script" not in actual
    assert actual.count("\n") == len(actual.splitlines()) == 11
    assert actual.splitlines()[-1].replace("\\|", "").count("|") == 10
