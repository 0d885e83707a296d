"""Export as one HTML file without scripts or network access.

All text is escaped, and the content security policy allows nothing but the file's own style.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby, islice
from typing import Any

from palaver.core import json
from palaver.evaluation.results.export.report import (
    NO_VALUE,
    Report,
    RowOutcome,
    describe_cell_error,
    describe_size,
    evaluator_names,
    evaluators_with_passes,
    find_questions,
    format_count,
    format_difference,
    format_interval,
    format_measure,
    format_number,
    format_p_value,
    format_percent,
    iterate_rows,
    preview_line,
    row_outcome,
    state_label,
    unscored_lines,
)
from palaver.evaluation.results.figures import Comparison, EvaluatorSummary, Interval, Measure, VariantSummary
from palaver.storage.evaluations.results import StoredResult

MAX_TEXT_LENGTH = 2_000


class RowRenderer:
    """Renders rows, each folded to a summary line."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._names = evaluator_names(report)
        self._with_passes = evaluators_with_passes(report)

    def __call__(self, cells: Sequence[StoredResult]) -> Iterator[str]:
        by_variant = [(variant, list(repeats)) for variant, repeats in groupby(cells, key=lambda cell: cell.variant)]
        outcomes_by_variant = [self._outcomes(repeats) for _, repeats in by_variant]
        first_cell = cells[0]
        marks = "".join(
            f'<span class="marks">{"".join(_outcome_mark(outcome) for outcome in outcomes)}</span>'
            for outcomes in outcomes_by_variant
        )
        input_preview = f'<span dir="auto">{escape(preview_line(first_cell.preview_in)[:200])}</span>'
        yield f'<details class="row" id="{escape(first_cell.row)}"><summary>{marks}{input_preview}</summary><div>'
        yield f'<p class="note">{escape(first_cell.row)}</p>{_render_preview(first_cell.preview_in)}'
        for (variant, repeats), outcomes in zip(by_variant, outcomes_by_variant, strict=True):
            yield f'<h3 dir="auto">{escape(self._report.variants[variant])}</h3>'
            for cell in repeats:
                yield _render_answer(cell, is_repeated=self._report.repeats > 1)
            yield "<table>"
            for name, outcome in zip(self._names, outcomes, strict=True):
                score = f'<td class=n>{format_number(outcome.score)}<td dir="auto">{_escape_text(outcome.reason)}'
                yield f"<tr><td>{_outcome_mark(outcome)} {escape(name)}{score}</tr>"
            yield "</table>"
        yield "</div></details>"

    def _outcomes(self, cells: Sequence[StoredResult]) -> list[RowOutcome]:
        names, failed_as = self._names, self._report.failed_as
        return [row_outcome(cells, name, has_passes=name in self._with_passes, failed_as=failed_as) for name in names]


def _outcome_mark(outcome: RowOutcome) -> str:
    signs = {"passed": "✓", "failed": "✗", "scored": "•", "error": "!", "skipped": "○"}
    flaky = " flaky" if outcome.is_flaky else ""
    title = (
        f"{outcome.kind}{', flaky' if outcome.is_flaky else ''}"
        if outcome.passes is None or outcome.passes[1] == 1
        else f"{outcome.passes[0]} of {outcome.passes[1]} passed"
    )
    return f'<span class="mark {outcome.kind}{flaky}" title="{title}">{signs[outcome.kind]}</span>'


def _render_answer(cell: StoredResult, *, is_repeated: bool) -> str:
    latency = "" if cell.latency is None else f" · {cell.latency:.2f} s"
    note = f'<p class="note">repeat {cell.repeat + 1}{latency}</p>' if is_repeated else ""
    if cell.status == "failed":
        return f'{note}<p class="bad" dir="auto">{_escape_text(describe_cell_error(cell))}</p>'
    return note + _render_preview(cell.preview_out)


def _render_preview(preview: Any) -> str:
    match preview:
        case {"renderer": "chat", "messages": [*messages]}:
            rendered = "".join(_render_message(message) for message in messages)
            omitted = preview.get("more") or 0
            return rendered + (f'<p class="note">and {format_count(omitted, "more message")}</p>' if omitted else "")
        case {"body": str(body)}:
            return f'<pre dir="auto">{_escape_text(body)}</pre>'
        case {"text": str(text)}:
            return f'<pre dir="auto">{_escape_text(text)}</pre>'
        case None:
            return ""
        case _:
            return f"<pre>{_escape_text(json.encode(preview).decode())}</pre>"


def _render_message(message: Any) -> str:
    match message:
        case {"role": str(role), "text": str(text)}:
            calls = "".join(f"<pre>{_escape_text(str(call))}</pre>" for call in message.get("calls") or ())
            return f'<div class="message"><b>{escape(role)}</b><pre dir="auto">{_escape_text(text)}</pre>{calls}</div>'
        case _:
            return ""


def _escape_text(text: str) -> str:
    return escape(text) if len(text) <= MAX_TEXT_LENGTH else f"{escape(text[:MAX_TEXT_LENGTH])}…"


STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #1a7f4b; --bad: #b3261e; --odd: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --good: #5fd39a; --bad: #ff8a80; --odd: #f0c060; } }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: .9rem; margin: 1rem 0 .25rem; }
.note, small { opacity: .7; } .note { margin: .25rem 0; font-size: .9rem; }
.bad { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { font-weight: 600; font-size: .85rem; opacity: .7; } tbody th { font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
svg { width: 8rem; height: .6rem; background: var(--soft); border-radius: 2px; vertical-align: middle; }
svg .value { fill: #46c8; } svg .sure { fill: currentColor; }
.badge { font-size: .8rem; font-weight: 600; padding: .1rem .5rem; border: 1px solid; border-radius: 1rem; }
.better, .same, .succeeded, .mark.passed { color: var(--good); }
.worse, .failed, .mark.failed, .mark.error { color: var(--bad); }
.unclear, .partly, .cancelled { color: var(--odd); }
.mark { display: inline-block; min-width: 1.1em; text-align: center; font-weight: 700; }
.mark.flaky { outline: 2px dotted var(--odd); border-radius: 3px; }
.marks { padding-right: .75rem; }
details.row { border-top: 1px solid var(--line); content-visibility: auto; contain-intrinsic-size: auto 2rem; }
details.row > summary { padding: .35rem 0; cursor: pointer; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
details.row > div { padding: 0 0 1rem 1.5rem; }
details:target > summary { background: var(--soft); }
pre { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, monospace;
  unicode-bidi: plaintext; }
.message { margin: .25rem 0; padding: .4rem .7rem; border: 1px solid var(--line); border-radius: .4rem; }
.message b { font-size: .8rem; opacity: .7; }
a { color: inherit; }
"""

MAX_ROWS = 5_000
"""Further rows are omitted, with a note; other formats have them."""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
"""Allows nothing but the file's own style."""


def write_html(report: Report) -> Iterator[bytes]:
    yield _encode_lines([*_page_head(report), *_summary_table(report)])
    for comparison in report.comparisons:
        yield _encode_lines(_comparison_table(report, comparison))
    yield _encode_lines(["<h2>Rows</h2>"])
    render, rows = RowRenderer(report), iterate_rows(report)
    for cells in islice(rows, MAX_ROWS):
        yield _encode_lines(render(cells))
    if next(rows, None) is not None:
        yield _encode_lines(
            [f'<p class="note">Only the first {MAX_ROWS:,} rows are shown. Export as CSV for all rows.</p>']
        )
    yield b"</main></body></html>\n"


def _page_head(report: Report) -> Iterator[str]:
    title = escape(report.name or report.id)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="content-security-policy" content="{escape(CONTENT_SECURITY_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
    yield f'<h1 dir="auto">{title} <span class="badge {escape(report.state)}">{escape(state_label(report))}</span></h1>'
    facts = [
        *describe_size(report),
        report.id,
        report.created_at if report.ended_at is None else f"{report.created_at} to {report.ended_at}",
    ]
    yield f'<p class="note">{" · ".join(escape(fact) for fact in facts)}</p>'
    for text in filter(None, (report.reason, *report.failed_gates)):
        yield f'<p class="bad">{escape(text)}</p>'
    if report.note:
        yield f'<p class="note">{escape(report.note)}</p>'


def _summary_table(report: Report) -> Iterator[str]:
    yield "<h2>Summary</h2><div class=wide><table><thead><tr><th>variant<th>evaluator<th class=n>passed<th>95% CI"
    yield "<th class=n>mean<th class=n>scored<th class=n>not scored<th class=n>failed calls<th class=n>flaky"
    yield "</tr></thead>"
    for variant in report.summary.variants:
        yield "<tbody>"
        for index, stats in enumerate(variant.evaluators):
            yield _evaluator_row(variant, stats, is_first=index == 0)
        yield "</tbody>"
    yield "</table></div>"
    yield from (f'<p class="bad" dir="auto">{escape(line)}</p>' for line in unscored_lines(report.summary))
    for variant in report.summary.variants:
        latency, cost = variant.latency, variant.cost
        facts = [f"{variant.name}: {format_count(variant.cells, 'call')}", f"{variant.failed:,} failed"]
        if latency.p50 is not None:
            facts.append(f"p50 {latency.p50:.2f} s, p95 {latency.p95:.2f} s")
        facts += [] if cost is None else [f"${cost:.4g}"]
        yield f'<p class="note">{" · ".join(escape(fact) for fact in facts)}</p>'


def _evaluator_row(variant: VariantSummary, stats: EvaluatorSummary, *, is_first: bool) -> str:
    variant_cell = f"<th rowspan={len(variant.evaluators)} dir=auto>{escape(variant.name)}</th>" if is_first else ""
    bar = _bar(stats.mean, stats.mean_ci, "mean") if stats.pass_rate is None else _bar(stats.pass_rate, stats.pass_ci)
    flaky = NO_VALUE if stats.flaky is None else f"{stats.flaky:,}"
    cells = "".join(
        f"<td class=n>{cell}</td>"
        for cell in (
            format_number(stats.mean),
            f"{stats.scored:,}",
            f"{stats.unscored:,}",
            f"{variant.failed:,}",
            flaky,
        )
    )
    passed = f"<td class=n>{format_percent(stats.pass_rate)}</td>"
    return f"<tr>{variant_cell}<td>{escape(stats.name)}</td>{passed}<td>{bar}</td>{cells}</tr>"


def _bar(value: float | None, interval: Interval | None, measure: Measure = "pass_rate") -> str:
    """A value between 0 and 1 as a bar with its interval."""
    if value is None or interval is None or not (0 <= interval[0] <= interval[1] <= 1):
        return format_interval(interval, measure)
    low, high = 100 * interval[0], 100 * interval[1]
    box = 'viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"'
    value_bar = f'<rect class="value" width="{100 * value:.1f}" height="8"/>'
    interval_bar = f'<rect class="sure" x="{low:.1f}" y="3" width="{max(high - low, 0.5):.1f}" height="2"/>'
    return f"<svg {box}>{value_bar}{interval_bar}</svg> <small>{format_interval(interval, measure)}</small>"


def _comparison_table(report: Report, comparison: Comparison) -> Iterator[str]:
    candidate, base = comparison.display_names()
    yield f'<h2 dir="auto">{escape(candidate)} vs. {escape(base)}</h2>'
    yield "<div class=wide><table><thead><tr><th>evaluator<th>verdict<th class=n>base<th class=n>candidate"
    yield "<th class=n>difference<th>95% CI<th class=n>p (Holm)<th class=n>regressed<th class=n>fixed</tr></thead>"
    for result in comparison.evaluators:
        needed = f" <small>needs {format_count(result.cases_needed, 'row')}</small>" if result.cases_needed else ""
        p = escape(format_p_value(result.p_adjusted))
        numbers = (format_measure(result.base, result.measure), format_measure(result.candidate, result.measure))
        yield f'<tr><td>{escape(result.name)}<td><span class="badge {result.verdict}">{result.verdict}</span>{needed}'
        difference = format_difference(result.difference, result.measure)
        yield "".join(f"<td class=n>{cell}" for cell in (*numbers, difference))
        counts = f"<td class=n>{result.regressions:,}<td class=n>{result.fixes:,}"
        yield f"<td>{format_interval(result.ci, result.measure)}<td class=n>{p}{counts}</tr>"
    yield "</table></div>"
    if comparison.changed_count:
        changed = f"Not compared: {format_count(comparison.changed_count, 'row')} with changed content."
        yield f'<p class="note">{changed}</p>'
    worst = {result.name: [change.row for change in result.worst[:10]] for result in comparison.evaluators}
    questions = find_questions(report, {row for rows in worst.values() for row in rows})
    for name, rows in worst.items():
        if rows:
            yield f"<p>{escape(name)}, worst regressions:<ul>"
            yield from (f'<li dir="auto"><a href="#{row}">{escape(questions.get(row, row))}</a>' for row in rows)
            yield "</ul>"


def _encode_lines(lines: Iterable[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
