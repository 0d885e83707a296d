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
    state_label,
)
from palaver.evaluation.results.figures import Comparison
from palaver.storage.evaluations.results import ResultDetail, StoredResult, StoredScore
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


def _score_values(report: Report, result: StoredResult, score: StoredScore | None) -> Sequence[Any]:
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


def _encode_score(score: StoredScore) -> dict[str, Any]:
    fields = msgspec.structs.asdict(score)
    del fields["evaluator"], fields["name"]
    return {"evaluator": score.name, **fields, "details": score.details or {}}


_MAX_MEMORY_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_XML_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)


class _TestSuite:
    """The tests of one variant and evaluator, spooled to a file until their number is known."""

    def __init__(self, variant: str, evaluator: str) -> None:
        self.variant = variant
        self.evaluator = evaluator
        self._kinds = Counter[str]()
        self._seconds = 0.0
        self._tests = SpooledTemporaryFile[bytes](_MAX_MEMORY_BYTES)

    def add(self, row: str, outcome: RowOutcome, seconds: float) -> None:
        self._kinds[outcome.kind] += 1
        self._seconds += seconds
        self._tests.write(_test_case(f"{self.variant}.{self.evaluator}", row, outcome, seconds).encode())

    def encode(self) -> Iterator[bytes]:
        name = _escape_xml(f"{self.variant} · {self.evaluator}")
        kinds = self._kinds
        counts = f'tests="{kinds.total()}" failures="{kinds["failed"]}" errors="{kinds["error"]}"'
        skipped = f'skipped="{kinds["skipped"]}" time="{self._seconds:.3f}"'
        yield f'  <testsuite name="{name}" {counts} {skipped}>\n'.encode()
        self._tests.seek(0)
        while chunk := self._tests.read(_CHUNK_BYTES):
            yield chunk
        yield b"  </testsuite>\n"

    def close(self) -> None:
        self._tests.close()


def write_junit(report: Report) -> Iterator[bytes]:
    names = evaluator_names(report)
    with ExitStack() as stack:
        suites = [
            [stack.enter_context(closing(_TestSuite(variant, name))) for name in names] for variant in report.variants
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
    for row in iterate_rows(report):
        for variant, cells in groupby(row, key=lambda cell: cell.variant):
            repeats = list(cells)
            seconds = sum(cell.latency or 0.0 for cell in repeats)
            for suite in suites[variant]:
                has_passes = suite.evaluator in with_passes
                outcome = row_outcome(repeats, suite.evaluator, has_passes=has_passes, failed_as=report.failed_as)
                suite.add(repeats[0].row, outcome, seconds)


def _test_case(class_name: str, row: str, outcome: RowOutcome, seconds: float) -> str:
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
    names = f'classname="{_escape_xml(class_name)}" name="{_escape_xml(row)}"'
    head = f'    <testcase {names} time="{seconds:.3f}"'
    return f"{head}>{''.join(elements)}</testcase>\n" if elements else f"{head}/>\n"


def _properties(outcome: RowOutcome) -> Iterator[str]:
    values = {} if outcome.score is None else {"score": f"{outcome.score:.6g}"}
    if outcome.is_flaky:
        values["flaky"] = "true"
    if outcome.passes is not None and outcome.passes[1] > 1:
        values["passed"] = f"{outcome.passes[0]} of {outcome.passes[1]}"
    if values:
        properties = "".join(f'<property name="{name}" value="{value}"/>' for name, value in values.items())
        yield f"<properties>{properties}</properties>"


def _escape_xml(text: str) -> str:
    """Escape an attribute, without characters that XML forbids."""
    return _INVALID_XML.sub("", text).translate(_XML_ESCAPES)


MAX_REGRESSIONS = 10
"""Maximum number of regressions listed."""
_VERDICT_LABELS = {"worse": "❌ worse", "better": "✅ better", "same": "✅ same", "unclear": "❔ unclear"}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~@])")
_CONTROL = re.compile("[\x00-\x1f\x7f]+")


def write_markdown(report: Report) -> Iterator[bytes]:
    yield "\n".join(_report_lines(report)).encode("utf-8", "replace") + b"\n"


def _report_lines(report: Report) -> Iterator[str]:
    yield f"## {_escape_markdown(report.name or report.id)}: {state_label(report)}"
    yield ""
    yield " × ".join(_escape_markdown(part) for part in describe_size(report))
    if report.reason:
        yield f"\n{_escape_markdown(report.reason)}"
    for line in report.failed_gates:
        yield f"\n❌ {_escape_markdown(line)}"
    yield ""
    yield from _summary_table(report)
    for comparison in report.comparisons:
        yield ""
        yield from _comparison_table(comparison)
        yield from _regression_list(report, comparison)


def _summary_table(report: Report) -> Iterator[str]:
    yield from _table_head(
        ["variant", "evaluator", "passed", "95% CI", "mean", "rows", "not scored", "flaky"], text_columns=2
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
                    f"{stats.n:,}",
                    f"{stats.errors + stats.skipped:,}",
                    NO_VALUE if stats.flaky is None else f"{stats.flaky:,}",
                ]
            )
    for variant in report.summary.variants:
        if variant.failed:
            yield ""
            calls = format_count(variant.cells, "call")
            yield f"{_escape_markdown(variant.name)}: {variant.failed:,} of {calls} failed."


def _comparison_table(comparison: Comparison) -> Iterator[str]:
    candidate, base = comparison.display_names()
    yield f"### {_escape_markdown(candidate)} vs. {_escape_markdown(base)}"
    yield ""
    names = ["evaluator", "verdict", "base", "candidate", "difference", "95% CI", "p (Holm)", "regressions", "fixes"]
    yield from _table_head(names, text_columns=2)
    for result in comparison.evaluators:
        needed = f" (needs {format_count(result.cases_needed, 'row')})" if result.cases_needed else ""
        yield _table_row(
            [
                _escape_markdown(result.name),
                f"{_VERDICT_LABELS[result.verdict]}{needed}",
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
    """Yield the rows with the worst regressions by their questions, folded."""
    changes = [(change, result.name) for result in comparison.evaluators for change in result.worst]
    changes.sort(key=lambda change: change[0].candidate - change[0].base)
    names: dict[str, list[str]] = {}
    for change, name in changes:
        names.setdefault(change.row, []).append(name)
    if not names:
        return
    rows = list(names)[:MAX_REGRESSIONS]
    questions = find_questions(report, rows)
    yield ""
    yield "<details><summary>Worst regressions</summary>"
    yield ""
    for row in rows:
        evaluators = ", ".join(_escape_markdown(name) for name in names[row])
        yield f"- {_escape_markdown(questions.get(row, row))} ({evaluators})"
    yield ""
    yield "</details>"


def _table_head(names: Sequence[str], text_columns: int) -> Iterator[str]:
    yield _table_row(names)
    yield _table_row(["---" if index < text_columns else "---:" for index in range(len(names))])


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_markdown(text: str) -> str:
    line = " ".join(_CONTROL.sub(" ", text).split())[:200]
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escape(line, quote=False))


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
