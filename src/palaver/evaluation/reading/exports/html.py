"""A run as one HTML file: it opens from a disk, asks no network for anything, and needs no script.

Every text is escaped, and the file's own policy allows nothing but its style. Follows the reader's choice of light or
dark. The figures come first, then every row with what was asked, what was answered and what each evaluator says.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from itertools import islice

from palaver.evaluation.reading.exports.html_rows import Rows
from palaver.evaluation.reading.exports.html_style import STYLE
from palaver.evaluation.reading.exports.report import (
    NOTHING,
    Report,
    extent,
    many,
    measured,
    number,
    of_rows,
    percent,
    signed,
    span,
)
from palaver.evaluation.reading.figures import Comparison, EvaluatorSummary, Interval, Measure, VariantSummary

MEDIA_TYPE = "text/html; charset=utf-8"
MOST = 5_000
"""Rows in the file; what is left out is said, and every other format has it."""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
"""What a browser may do with the file: show it, with its own style."""


def write(report: Report) -> Iterator[bytes]:
    """The file, piece by piece."""
    yield _joined([*_head(report), *_summary(report)])
    for comparison in report.comparisons:
        yield _joined(_comparison(comparison))
    yield _joined(["<h2>Rows</h2>"])
    show, rows = Rows(report), of_rows(report)
    for cells in islice(rows, MOST):
        yield _joined(show(cells))
    if next(rows, None) is not None:
        yield _joined([f'<p class="note">These are the first {MOST:,} rows; an export as CSV has all of them.</p>'])
    yield b"</main></body></html>\n"


def _head(report: Report) -> Iterator[str]:
    title = escape(report.name or report.id)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="content-security-policy" content="{escape(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
    yield f'<h1 dir="auto">{title} <span class="badge {escape(report.state)}">{escape(report.state)}</span></h1>'
    facts = [
        *extent(report),
        report.id,
        report.created_at if report.ended_at is None else f"{report.created_at} to {report.ended_at}",
    ]
    yield f'<p class="note">{" · ".join(escape(fact) for fact in facts)}</p>'
    for text in filter(None, (report.reason, *report.failed_gates)):
        yield f'<p class="bad">{escape(text)}</p>'


def _summary(report: Report) -> Iterator[str]:
    yield "<h2>Summary</h2><div class=wide><table><thead><tr><th>variant<th>evaluator<th class=n>passed<th>95 %"
    yield "<th class=n>mean<th class=n>rows<th class=n>not scored<th class=n>flaky</tr></thead>"
    for variant in report.summary.variants:
        yield "<tbody>"
        for place, one in enumerate(variant.evaluators):
            yield _evaluator(variant, one, is_first=place == 0)
        yield "</tbody>"
    yield "</table></div>"
    for variant in report.summary.variants:
        latency, cost = variant.latency, variant.cost
        facts = [f"{variant.name}: {many(variant.cells, 'call')}", f"{variant.failed:,} failed"]
        facts += (
            [] if latency.p50 is None else [f"{latency.p50:.2f} s in the middle, {latency.p95:.2f} s for one in 20"]
        )
        facts += [] if cost is None else [f"${cost:.4g}"]
        yield f'<p class="note">{" · ".join(escape(fact) for fact in facts)}</p>'


def _evaluator(variant: VariantSummary, one: EvaluatorSummary, *, is_first: bool) -> str:
    named = f"<th rowspan={len(variant.evaluators)} dir=auto>{escape(variant.name)}</th>" if is_first else ""
    bar = _bar(one.mean, one.mean_ci, "mean") if one.pass_rate is None else _bar(one.pass_rate, one.pass_ci)
    flaky = NOTHING if one.flaky is None else f"{one.flaky:,}"
    cells = "".join(
        f"<td class=n>{cell}</td>" for cell in (number(one.mean), f"{one.n:,}", f"{one.errors + one.skipped:,}", flaky)
    )
    return f"<tr>{named}<td>{escape(one.name)}</td><td class=n>{percent(one.pass_rate)}</td><td>{bar}</td>{cells}</tr>"


def _bar(value: float | None, interval: Interval | None, measure: Measure = "pass_rate") -> str:
    """What lies between 0 and 1 as a line, with its interval."""
    if value is None or interval is None or not (0 <= interval[0] <= interval[1] <= 1):
        return span(interval, measure)
    low, high = 100 * interval[0], 100 * interval[1]
    box = 'viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"'
    whole = f'<rect class="value" width="{100 * value:.1f}" height="8"/>'
    sure = f'<rect class="sure" x="{low:.1f}" y="3" width="{max(high - low, 0.5):.1f}" height="2"/>'
    return f"<svg {box}>{whole}{sure}</svg> <small>{span(interval, measure)}</small>"


def _comparison(found: Comparison) -> Iterator[str]:
    yield f'<h2 dir="auto">{escape(found.candidate)} beside {escape(found.base)}</h2>'
    yield "<div class=wide><table><thead><tr><th>evaluator<th>verdict<th class=n>base<th class=n>candidate"
    yield "<th class=n>difference<th>95 %<th class=n>p (Holm)<th class=n>regressions<th class=n>fixes</tr></thead>"
    for one in found.evaluators:
        needed = f" <small>{one.cases_needed:,} rows would tell</small>" if one.cases_needed else ""
        p = NOTHING if one.p_adjusted is None else f"{one.p_adjusted:.3f}"
        numbers = (measured(one.base, one.measure), measured(one.candidate, one.measure))
        yield f'<tr><td>{escape(one.name)}<td><span class="badge {one.verdict}">{one.verdict}</span>{needed}'
        yield "".join(f"<td class=n>{cell}" for cell in (*numbers, signed(one.difference, one.measure)))
        counts = f"<td class=n>{one.regressions:,}<td class=n>{one.fixes:,}"
        yield f"<td>{span(one.ci, one.measure)}<td class=n>{p}{counts}</tr>"
    yield "</table></div>"
    if found.changed_count:
        yield f'<p class="note">{found.changed_count:,} rows have changed between the two, and are in no figure.</p>'
    for one in found.evaluators:
        if one.worst:
            links = ", ".join(f'<a href="#{escape(change.row)}">{escape(change.row)}</a>' for change in one.worst[:10])
            yield f"<p>{escape(one.name)}, worst regressions: {links}</p>"


def _joined(lines: Iterable[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
