"""Markdown summary of an evaluation."""

from palaver.evaluation.results.export import formats
from palaver.evaluation.results.export.report import Report
from tests.evaluation.results.export.report_factory import BAD, CHANGED, FLAKY, PLAIN
from tests.evaluation.results.result_factory import row


def render(evaluation_report: Report) -> str:
    return b"".join(formats.write_markdown(evaluation_report)).decode()


def test_the_summary_has_figures_verdicts_and_the_worst_regressions() -> None:
    actual = render(PLAIN)

    assert actual.splitlines()[:12] == [
        "## prompt v3: partial",
        "",
        "2 rows of questions (revision 4) × 2 variants",
        "",
        "| variant | evaluator | passed | 95% CI | mean | rows | not scored | flaky |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| base | exact | 100.0% | 34.2 to 100.0 | 1.000 | 2 | 0 | - |",
        "| base | similar | - | 0.900 to 0.900 | 0.900 | 1 | 1 | - |",
        "| new | exact | 0.0% | 0.0 to 65.8 | 0.000 | 2 | 0 | - |",
        "| new | similar | - | 0.000 to 0.500 | 0.250 | 2 | 0 | - |",
        "",
        "new: 1 of 2 calls failed.",
    ]
    assert actual.splitlines()[13:] == [
        "### new vs. base",
        "",
        "| evaluator | verdict | base | candidate | difference | 95% CI | p (Holm) | regressions | fixes |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| exact | ❌ worse | 100.0% | 0.0% | -100.0 | -100.0 to -100.0 | 0.500 | 2 | 0 |",
        "| similar | ❌ worse | 0.900 | 0.500 | -0.400 | -0.400 to -0.400 | 0.002 | 0 | 0 |",
        "",
        "<details><summary>Worst regressions</summary>",
        "",
        "- What? (exact)",
        f"- {row(2)} (exact)".replace("_", "\\_"),
        "",
        "</details>",
    ]
    assert len(actual.splitlines()) < 40


def test_flaky_rows_are_counted() -> None:
    assert "| base | exact | 66.7% | 66.7 to 66.7 | 0.667 | 1 | 0 | 1 |" in render(FLAKY)


def test_changed_rows_are_counted_and_not_compared() -> None:
    assert render(CHANGED).splitlines()[-7:] == [
        "### base vs. base (baseline)",
        "",
        "| evaluator | verdict | base | candidate | difference | 95% CI | p (Holm) | regressions | fixes |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| exact | ✅ same | 100.0% | 100.0% | +0.0 | 0.0 to 0.0 | 1.000 | 0 | 0 |",
        "",
        "Not compared: 2 rows with changed content.",
    ]


def test_content_is_escaped() -> None:
    actual = render(BAD)

    assert "<script" not in actual
    assert actual.count("\n") == len(actual.splitlines()) == 11
    assert actual.splitlines()[-1].replace("\\|", "").count("|") == 9
