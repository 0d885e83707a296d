"""A run as Markdown, one screen of it: for a comment below a change."""

import re
from collections.abc import Iterator, Sequence
from html import escape

from palaver.evaluation.reading.exports.report import (
    NOTHING,
    Report,
    extent,
    many,
    measured,
    number,
    percent,
    signed,
    span,
)
from palaver.evaluation.reading.figures import Comparison

MEDIA_TYPE = "text/markdown; charset=utf-8"
WORST = 10
"""Regressions that are named."""
_SIGNS = {"worse": "❌ worse", "better": "✅ better", "same": "✅ same", "unclear": "❔ unclear"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~@])")
_CONTROL = re.compile("[\x00-\x1f\x7f]+")


def write(report: Report) -> Iterator[bytes]:
    """The text."""
    yield "\n".join(_lines(report)).encode("utf-8", "replace") + b"\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"## {_text(report.name or report.id)}: {report.state}"
    yield ""
    yield f"{' × '.join(_text(one) for one in extent(report))} · {report.id}"
    if report.reason:
        yield f"\n{_text(report.reason)}"
    for line in report.failed_gates:
        yield f"\n❌ {_text(line)}"
    yield ""
    yield from _summary(report)
    for comparison in report.comparisons:
        yield ""
        yield from _comparison(comparison)


def _summary(report: Report) -> Iterator[str]:
    yield from _table_head(["variant", "evaluator", "passed", "95 %", "mean", "rows", "not scored", "flaky"], words=2)
    for variant in report.summary.variants:
        for one in variant.evaluators:
            yield _row(
                [
                    _text(variant.name),
                    _text(one.name),
                    percent(one.pass_rate),
                    span(one.mean_ci, "mean") if one.pass_rate is None else span(one.pass_ci),
                    number(one.mean),
                    f"{one.n:,}",
                    f"{one.errors + one.skipped:,}",
                    NOTHING if one.flaky is None else f"{one.flaky:,}",
                ]
            )
    for variant in report.summary.variants:
        if variant.failed:
            yield ""
            yield f"{_text(variant.name)}: {variant.failed:,} of {many(variant.cells, 'call')} failed."


def _comparison(found: Comparison) -> Iterator[str]:
    yield f"### {_text(found.candidate)} beside {_text(found.base)}"
    yield ""
    names = ["evaluator", "verdict", "base", "candidate", "difference", "95 %", "p (Holm)", "regressions", "fixes"]
    yield from _table_head(names, words=2)
    for one in found.evaluators:
        needed = f" ({one.cases_needed:,} rows would tell)" if one.cases_needed else ""
        yield _row(
            [
                _text(one.name),
                f"{_SIGNS[one.verdict]}{needed}",
                measured(one.base, one.measure),
                measured(one.candidate, one.measure),
                signed(one.difference, one.measure),
                span(one.ci, one.measure),
                NOTHING if one.p_adjusted is None else f"{one.p_adjusted:.3f}",
                f"{one.regressions:,}",
                f"{one.fixes:,}",
            ]
        )
    if found.changed_count:
        yield ""
        yield f"{found.changed_count:,} rows have changed between the two, and are in no figure."
    worst = sorted(
        ((change.candidate - change.base, change.row, one.name) for one in found.evaluators for change in one.worst),
        key=lambda change: change[0],
    )
    if worst:
        yield ""
        yield "Worst regressions:"
        yield ""
        for difference, row, name in worst[:WORST]:
            yield f"- {row}: {_text(name)} {difference:+.2f}"
        lost = sum(one.regressions for one in found.evaluators)
        if lost > WORST:
            yield f"- and {lost - WORST:,} more"


def _table_head(names: Sequence[str], words: int) -> Iterator[str]:
    yield _row(names)
    yield _row(["---" if place < words else "---:" for place in range(len(names))])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """A text of anybody's, which is only a text here."""
    line = " ".join(_CONTROL.sub(" ", text).split())[:200]
    return _SPECIAL.sub(r"\\\1", escape(line, quote=False))
