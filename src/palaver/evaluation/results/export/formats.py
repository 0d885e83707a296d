"""Write evaluation reports as CSV, JSON Lines, JUnit XML and Markdown, and list all export formats by name."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from html import escape
from itertools import groupby
from tempfile import SpooledTemporaryFile
from typing import Any, Literal, NamedTuple

import msgspec

from palaver.core import json
from palaver.evaluation.plan.plan import format_cell_id
from palaver.evaluation.results.export import html
from palaver.evaluation.results.export.report import (
    NO_VALUE,
    Report,
    RowOutcome,
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
    shorten,
    state_label,
    unscored_lines,
)
from palaver.evaluation.results.figures import Comparison, EvaluatorSummary, VariantSummary, Verdict
from palaver.storage.evaluations.results import CellScore, ResultDetail, StoredResult
from palaver.testsets.files.csv_file import format_cell, quote_cell

_CSV_HEADER = (
    b"row,variant,repeat,status,evaluator,score_status,passed,score,label,reason,error,latency_seconds,cost,"
    b"input_tokens,output_tokens,trace_id,input,output\r\n"
)


def write_csv(report: Report) -> Iterator[bytes]:
    """Yield one line per score; a cell without scores has one line as well."""
    yield _CSV_HEADER
    for detail in report.cells():
        result = detail.result
        for score in result.scores or (None,):
            line = ",".join(_format_csv_value(value) for value in _score_values(report, result, score))
            yield f"{line}\r\n".encode("utf-8", "replace")


def _score_values(report: Report, result: StoredResult, score: CellScore | None) -> Sequence[Any]:
    error, usage = result.error or {}, result.usage
    score_fields = (None,) * 6
    if score is not None:
        score_fields = (score.name, score.status, score.passed, score.score, score.label, score.reason)
    return (
        result.row,
        report.variants[result.variant],
        result.repeat,
        result.status,
        *score_fields,
        f"{error.get('code')}: {error.get('message')}" if error else None,
        result.latency,
        result.cost,
        None if usage is None else usage.input_tokens,
        None if usage is None else usage.output_tokens,
        result.trace_id,
        preview_line(result.preview_in),
        preview_line(result.preview_out),
    )


def _format_csv_value(value: Any) -> str:
    return "" if value is None or value == "" else quote_cell(format_cell(value))


def write_jsonl(report: Report) -> Iterator[bytes]:
    head = {name: value for name, value in msgspec.structs.asdict(report).items() if name != "cells"}
    yield json.encode({"type": "evaluation", **head}) + b"\n"
    for detail in report.cells():
        yield json.encode(_encode_cell(report, detail)) + b"\n"


def _encode_cell(report: Report, detail: ResultDetail) -> dict[str, Any]:
    result: StoredResult = detail.result
    fields = msgspec.structs.asdict(result)
    for name in ("cell", "seq", "scores", "preview_in", "preview_out"):
        del fields[name]
    body: dict[str, Any] = detail.body or {}
    return {
        "type": "cell",
        "id": format_cell_id(result.cell),
        **fields,
        "variant": report.variants[result.variant],
        "scores": [_encode_score(score) for score in result.scores],
        **{name: value for name, value in body.items() if name not in fields},
    }


def _encode_score(score: CellScore) -> dict[str, Any]:
    fields = msgspec.structs.asdict(score)
    del fields["evaluator"], fields["name"]
    return {"evaluator": score.name, **fields, "details": score.details or {}}


_MAX_QUESTION_CHARS = 120
_MAX_MEMORY_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_XML_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)


class _TestSuite:
    """The tests of one variant and evaluator, spooled to a file until their number is known."""

    def __init__(self, variant: VariantSummary, stats: EvaluatorSummary) -> None:
        self.variant = variant.name
        self.evaluator = stats.name
        self._properties = {
            "scored": str(stats.scored),
            "not scored": str(stats.unscored),
            "failed calls": str(variant.failed),
            **({"not scored, most often": stats.unscored_reason} if stats.unscored_reason else {}),
        }
        self._kinds = Counter[str]()
        self._seconds = 0.0
        self._tests = SpooledTemporaryFile[bytes](_MAX_MEMORY_BYTES)

    def add(self, test: str, outcome: RowOutcome, seconds: float) -> None:
        self._kinds[outcome.kind] += 1
        self._seconds += seconds
        self._tests.write(_test_case(f"{self.variant}.{self.evaluator}", test, outcome, seconds).encode())

    def encode(self) -> Iterator[bytes]:
        name = _escape_xml(f"{self.variant} · {self.evaluator}")
        kinds = self._kinds
        counts = f'tests="{kinds.total()}" failures="{kinds["failed"]}" errors="{kinds["error"]}"'
        skipped = f'skipped="{kinds["skipped"]}" time="{self._seconds:.3f}"'
        yield f'  <testsuite name="{name}" {counts} {skipped}>\n'.encode()
        yield f"    {_format_properties(self._properties)}\n".encode()
        self._tests.seek(0)
        while chunk := self._tests.read(_CHUNK_BYTES):
            yield chunk
        yield b"  </testsuite>\n"

    def close(self) -> None:
        self._tests.close()


def write_junit(report: Report) -> Iterator[bytes]:
    with ExitStack() as stack:
        suites = [
            [stack.enter_context(closing(_TestSuite(variant, stats))) for stats in variant.evaluators]
            for variant in report.summary.variants
        ]
        _fill_suites(suites, report)
        yield b'<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites name="{_escape_xml(report.name or report.id)}">\n'.encode()
        for variant_suites in suites:
            for suite in variant_suites:
                yield from suite.encode()
        yield b"</testsuites>\n"


def _fill_suites(suites: Sequence[Sequence[_TestSuite]], report: Report) -> None:
    with_passes = evaluators_with_passes(report)
    seen = Counter[str]()
    for row in iterate_rows(report):
        name = _test_name(row, seen)
        for variant, cells in groupby(row, key=lambda cell: cell.variant):
            repeats = list(cells)
            seconds = sum(cell.latency or 0.0 for cell in repeats)
            for suite in suites[variant]:
                has_passes = suite.evaluator in with_passes
                outcome = row_outcome(repeats, suite.evaluator, has_passes=has_passes, failed_as=report.failed_as)
                suite.add(name, outcome, seconds)


def _test_name(row: Sequence[StoredResult], seen: Counter[str]) -> str:
    """Return the question of a row, which stays the same between builds; a repeated question is numbered."""
    question = next(filter(None, (preview_line(cell.preview_in) for cell in row)), "")
    name = shorten(" ".join(question.split()), _MAX_QUESTION_CHARS) or row[0].row
    seen[name] += 1
    return name if seen[name] == 1 else f"{name} ({seen[name]})"


def _test_case(class_name: str, name: str, outcome: RowOutcome, seconds: float) -> str:
    elements = [*_properties(outcome)]
    reason = _escape_xml(outcome.reason)
    match outcome.kind:
        case "failed":
            elements.append(f'<failure type="failed" message="{reason}"/>')
        case "error":
            elements.append(f'<error type="not scored" message="{reason}"/>')
        case "skipped":
            elements.append(f'<skipped message="{reason}"/>')
        case "passed" | "scored":
            pass
    names = f'classname="{_escape_xml(class_name)}" name="{_escape_xml(name)}"'
    head = f'    <testcase {names} time="{seconds:.3f}"'
    return f"{head}>{''.join(elements)}</testcase>\n" if elements else f"{head}/>\n"


def _properties(outcome: RowOutcome) -> Iterator[str]:
    values = {} if outcome.score is None else {"score": f"{outcome.score:.6g}"}
    if outcome.is_flaky:
        values["flaky"] = "true"
    if outcome.passes is not None and outcome.passes[1] > 1:
        values["passed"] = f"{outcome.passes[0]} of {outcome.passes[1]}"
    if values:
        yield _format_properties(values)


def _format_properties(values: Mapping[str, str]) -> str:
    properties = "".join(f'<property name="{name}" value="{_escape_xml(value)}"/>' for name, value in values.items())
    return f"<properties>{properties}</properties>"


def _escape_xml(text: str) -> str:
    """Escape an attribute, without characters that XML forbids."""
    return _INVALID_XML.sub("", text).translate(_XML_ESCAPES)


MAX_REGRESSIONS = 10
"""Maximum number of regressed rows listed for each comparison."""
MAX_FAILED_GATES = 5
"""Maximum number of failed gates listed."""
MAX_VISIBLE_ROWS = 16
"""Summary tables, and comparison tables, are folded if they have more rows than this in total."""
MAX_MARKDOWN_CHARS = 60_000
"""Maximum length of a summary: GitHub rejects comments of more than 65,536 characters."""
_MAX_NOTE_CHARS = 300
_VERDICT_MARKS = {"worse": "❌", "better": "✅", "same": "✅", "unclear": "❔"}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~@$])")
_LIST_MARKER = re.compile(r"([-+=]|\d{1,9}[.)])")
"""The beginning of a line that Markdown reads as a list or a heading."""
_CONTROL = re.compile("[\x00-\x1f\x7f]+")


def write_markdown(report: Report) -> Iterator[bytes]:
    """Yield a summary for people that fits on a screen, for example a comment on a pull request."""
    length = 0
    for section in _sections(report):
        text = "".join(f"{line}\n" for line in section)
        length += len(text)
        if length > MAX_MARKDOWN_CHARS:
            yield b"\nThe rest of this report is too long to show here.\n"
            return
        yield text.encode("utf-8", "replace")


def _sections(report: Report) -> Iterator[Sequence[str]]:
    yield [*_overview(report)]
    figures = [*_summary_table(report)]
    if sum(len(variant.evaluators) for variant in report.summary.variants) <= MAX_VISIBLE_ROWS:
        yield ["", *figures]
    else:
        yield ["", *_grid(report), "", *_fold("All metrics", figures)]
    notes = [*_unscored_answers(report), *_failed_calls(report)]
    if notes:
        yield notes
    is_short = sum(len(comparison.evaluators) for comparison in report.comparisons) <= MAX_VISIBLE_ROWS
    for comparison in report.comparisons:
        yield [*_comparison_section(report, comparison, is_short=is_short)]


def _overview(report: Report) -> Iterator[str]:
    has_failed = bool(report.failed_gates) or report.state == "failed"
    done_mark = "⚠️ " if unscored_lines(report.summary) else "✅ "
    mark = "❌ " if has_failed else done_mark if report.state == "succeeded" else ""
    state = "" if report.state == "succeeded" else f" ({state_label(report)})"
    yield f"## {mark}{_escape_markdown(report.name or report.testset)}{state}"
    yield ""
    yield " × ".join(_escape_markdown(part) for part in describe_size(report))
    if report.reason:
        yield f"\n{_escape_markdown(report.reason)}"
    if report.failed_gates:
        yield ""
        yield from (f"- ❌ {_escape_markdown(line)}" for line in report.failed_gates[:MAX_FAILED_GATES])
        if len(report.failed_gates) > MAX_FAILED_GATES:
            yield f"- ❌ and {format_count(len(report.failed_gates) - MAX_FAILED_GATES, 'more failed gate')}"
    if report.note:
        yield f"\n{_escape_markdown(report.note)}"


def _grid(report: Report) -> Iterator[str]:
    """Yield a table of pass rates and means by variant and evaluator, with verdicts. The longer side is down."""
    names = evaluator_names(report)
    verdicts: dict[tuple[str, str], Verdict] = {
        (comparison.display_names()[0], result.name): result.verdict
        for comparison in report.comparisons
        for result in comparison.evaluators
    }
    cells = {
        (variant.name, stats.name): _format_figure(stats, verdicts.get((variant.name, stats.name)))
        for variant in report.summary.variants
        for stats in variant.evaluators
    }
    is_tall = len(names) > len(report.variants)
    columns, rows = (report.variants, names) if is_tall else (names, report.variants)
    yield from _table_head(["", *(_escape_markdown(column) for column in columns)], text_columns=1)
    for row in rows[:MAX_VISIBLE_ROWS]:
        figures = [cells.get((column, row) if is_tall else (row, column), NO_VALUE) for column in columns]
        yield _table_row([_escape_markdown(row), *figures])
    if len(rows) > MAX_VISIBLE_ROWS:
        yield ""
        yield f"and {format_count(len(rows) - MAX_VISIBLE_ROWS, 'more evaluator' if is_tall else 'more variant')}"


def _format_figure(stats: EvaluatorSummary, verdict: Verdict | None) -> str:
    figure = format_number(stats.mean) if stats.pass_rate is None else format_percent(stats.pass_rate)
    return f"{figure} {_VERDICT_MARKS[verdict]}" if verdict in ("worse", "better") else figure


def _summary_table(report: Report) -> Iterator[str]:
    yield from _table_head(
        ["variant", "evaluator", "passed", "95% CI", "mean", "scored", "not scored", "failed calls", "flaky"],
        text_columns=2,
    )
    for variant in report.summary.variants:
        for stats in variant.evaluators:
            yield _table_row(
                [
                    _escape_markdown(variant.name),
                    _escape_markdown(stats.name),
                    format_percent(stats.pass_rate),
                    format_interval(stats.mean_ci, "mean")
                    if stats.pass_rate is None
                    else format_interval(stats.pass_ci),
                    format_number(stats.mean),
                    f"{stats.scored:,}",
                    f"{stats.unscored:,}",
                    f"{variant.failed:,}",
                    NO_VALUE if stats.flaky is None else f"{stats.flaky:,}",
                ]
            )


def _unscored_answers(report: Report) -> Iterator[str]:
    lines = unscored_lines(report.summary)
    yield from (f"\n{_escape_markdown(shorten(line, _MAX_NOTE_CHARS))}." for line in lines[:MAX_VISIBLE_ROWS])
    if len(lines) > MAX_VISIBLE_ROWS:
        yield f"\nand {format_count(len(lines) - MAX_VISIBLE_ROWS, 'more evaluator')} with unscored answers."


def _failed_calls(report: Report) -> Iterator[str]:
    for variant in report.summary.variants:
        if variant.failed:
            calls = format_count(variant.cells, "call")
            yield f"\n{_escape_markdown(variant.name)}: {variant.failed:,} of {calls} failed."


def _comparison_section(report: Report, comparison: Comparison, *, is_short: bool) -> Iterator[str]:
    table = [*_comparison_table(comparison)]
    regressed = [*_regression_list(report, comparison)]
    title = " vs. ".join(comparison.display_names())
    yield ""
    if not is_short:
        lines = [*table, "", *regressed] if regressed else table
        yield from _fold(f"{title}: {_describe_verdicts(comparison)}", lines)
        return
    yield f"### {_escape_markdown(title)}"
    yield ""
    yield from table
    if regressed:
        yield ""
        yield from _fold(regressed[0], regressed[2:])


def _describe_verdicts(comparison: Comparison) -> str:
    counts = Counter(result.verdict for result in comparison.evaluators)
    verdicts = [f"{mark} {counts[verdict]} {verdict}" for verdict, mark in _VERDICT_MARKS.items() if counts[verdict]]
    return ", ".join(verdicts) or "nothing to compare"


def _comparison_table(comparison: Comparison) -> Iterator[str]:
    names = ["evaluator", "verdict", "base", "candidate", "difference", "95% CI", "p (Holm)", "regressed", "fixed"]
    yield from _table_head(names, text_columns=2)
    for result in comparison.evaluators:
        needed = f" (needs {format_count(result.cases_needed, 'row')})" if result.cases_needed else ""
        yield _table_row(
            [
                _escape_markdown(result.name),
                f"{_VERDICT_MARKS[result.verdict]} {result.verdict}{needed}",
                format_measure(result.base, result.measure),
                format_measure(result.candidate, result.measure),
                format_difference(result.difference, result.measure),
                format_interval(result.ci, result.measure),
                format_p_value(result.p_adjusted),
                f"{result.regressions:,}",
                f"{result.fixes:,}",
            ]
        )
    if comparison.changed_count:
        yield ""
        yield f"Not compared: {format_count(comparison.changed_count, 'row')} with changed content."


def _regression_list(report: Report, comparison: Comparison) -> Iterator[str]:
    """Yield a title, and the rows with the worst regressions by their questions."""
    changes = [(change, result.name) for result in comparison.evaluators for change in result.worst]
    changes.sort(key=lambda change: change[0].candidate - change[0].base)
    names: dict[str, list[str]] = {}
    for change, name in changes:
        names.setdefault(change.row, []).append(name)
    if not names:
        return
    rows = list(names)[:MAX_REGRESSIONS]
    questions = find_questions(report, rows)
    is_complete = len(rows) == len(names)
    yield f"Regressed: {format_count(len(rows), 'row')}" if is_complete else f"The {len(rows)} worst regressions"
    yield ""
    for row in rows:
        evaluators = ", ".join(_escape_markdown(name) for name in names[row])
        question = " ".join(questions.get(row, row).split())
        yield f"- {_escape_line(shorten(question, _MAX_QUESTION_CHARS))} ({evaluators})"


def _fold(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield lines that are hidden until the reader unfolds them. The title is HTML, not Markdown."""
    yield f"<details><summary>{escape(_one_line(title), quote=False)}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"


def _table_head(names: Sequence[str], text_columns: int) -> Iterator[str]:
    yield _table_row(names)
    yield _table_row(["---" if index < text_columns else "---:" for index in range(len(names))])


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_line(text: str) -> str:
    """Escape text at the beginning of a line or of a list item."""
    escaped = _escape_markdown(text)
    marker = _LIST_MARKER.match(escaped)
    return escaped if marker is None else f"{escaped[: marker.end() - 1]}\\{escaped[marker.end() - 1 :]}"


def _escape_markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escape(_one_line(text), quote=False))


def _one_line(text: str) -> str:
    return shorten(" ".join(_CONTROL.sub(" ", text).split()), 200)


ExportName = Literal["junit", "markdown", "csv", "jsonl", "html"]


class ExportFormat(NamedTuple):
    extension: str
    media_type: str
    write: Callable[[Report], Iterator[bytes]]


EXPORT_FORMATS: Mapping[ExportName, ExportFormat] = {
    "junit": ExportFormat("xml", "application/xml", write_junit),
    "markdown": ExportFormat("md", "text/markdown; charset=utf-8", write_markdown),
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", write_csv),
    "jsonl": ExportFormat("jsonl", "application/x-ndjson", write_jsonl),
    "html": ExportFormat("html", "text/html; charset=utf-8", html.write_html),
}
