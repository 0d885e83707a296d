"""Export as Markdown: one screen, for a comment on a pull request."""

import re
from collections.abc import Iterator, Sequence
from html import escape

from palaver.evaluation.results.export.report import (
    NO_VALUE,
    Report,
    describe_size,
    format_count,
    format_difference,
    format_interval,
    format_measure,
    format_number,
    format_percent,
)
from palaver.evaluation.results.figures import Comparison

MEDIA_TYPE = "text/markdown; charset=utf-8"
MAX_REGRESSIONS = 10
"""Maximum number of regressions listed."""
_VERDICT_LABELS = {"worse": "❌ worse", "better": "✅ better", "same": "✅ same", "unclear": "❔ unclear"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~@])")
_CONTROL = re.compile("[\x00-\x1f\x7f]+")


def write(report: Report) -> Iterator[bytes]:
    yield "\n".join(_report_lines(report)).encode("utf-8", "replace") + b"\n"


def _report_lines(report: Report) -> Iterator[str]:
    yield f"## {_escape_text(report.name or report.id)}: {report.state}"
    yield ""
    yield f"{' × '.join(_escape_text(one) for one in describe_size(report))} · {report.id}"
    if report.reason:
        yield f"\n{_escape_text(report.reason)}"
    for line in report.failed_gates:
        yield f"\n❌ {_escape_text(line)}"
    yield ""
    yield from _summary_table(report)
    for comparison in report.comparisons:
        yield ""
        yield from _comparison_table(comparison)


def _summary_table(report: Report) -> Iterator[str]:
    yield from _table_head(["variant", "evaluator", "passed", "95 %", "mean", "rows", "not scored", "flaky"], words=2)
    for variant in report.summary.variants:
        for one in variant.evaluators:
            yield _table_row(
                [
                    _escape_text(variant.name),
                    _escape_text(one.name),
                    format_percent(one.pass_rate),
                    format_interval(one.mean_ci, "mean") if one.pass_rate is None else format_interval(one.pass_ci),
                    format_number(one.mean),
                    f"{one.n:,}",
                    f"{one.errors + one.skipped:,}",
                    NO_VALUE if one.flaky is None else f"{one.flaky:,}",
                ]
            )
    for variant in report.summary.variants:
        if variant.failed:
            yield ""
            yield f"{_escape_text(variant.name)}: {variant.failed:,} of {format_count(variant.cells, 'call')} failed."


def _comparison_table(comparison: Comparison) -> Iterator[str]:
    yield f"### {_escape_text(comparison.candidate)} beside {_escape_text(comparison.base)}"
    yield ""
    names = ["evaluator", "verdict", "base", "candidate", "difference", "95 %", "p (Holm)", "regressions", "fixes"]
    yield from _table_head(names, words=2)
    for one in comparison.evaluators:
        needed = f" ({one.cases_needed:,} rows would tell)" if one.cases_needed else ""
        yield _table_row(
            [
                _escape_text(one.name),
                f"{_VERDICT_LABELS[one.verdict]}{needed}",
                format_measure(one.base, one.measure),
                format_measure(one.candidate, one.measure),
                format_difference(one.difference, one.measure),
                format_interval(one.ci, one.measure),
                NO_VALUE if one.p_adjusted is None else f"{one.p_adjusted:.3f}",
                f"{one.regressions:,}",
                f"{one.fixes:,}",
            ]
        )
    if comparison.changed_count:
        yield ""
        yield f"{comparison.changed_count:,} rows have changed between the two, and are in no figure."
    worst = sorted(
        (
            (change.candidate - change.base, change.row, one.name)
            for one in comparison.evaluators
            for change in one.worst
        ),
        key=lambda change: change[0],
    )
    if worst:
        yield ""
        yield "Worst regressions:"
        yield ""
        for difference, row, name in worst[:MAX_REGRESSIONS]:
            yield f"- {row}: {_escape_text(name)} {difference:+.2f}"
        lost = sum(one.regressions for one in comparison.evaluators)
        if lost > MAX_REGRESSIONS:
            yield f"- and {lost - MAX_REGRESSIONS:,} more"


def _table_head(names: Sequence[str], words: int) -> Iterator[str]:
    yield _table_row(names)
    yield _table_row(["---" if place < words else "---:" for place in range(len(names))])


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_text(text: str) -> str:
    """Escape untrusted text."""
    line = " ".join(_CONTROL.sub(" ", text).split())[:200]
    return _SPECIAL.sub(r"\\\1", escape(line, quote=False))
