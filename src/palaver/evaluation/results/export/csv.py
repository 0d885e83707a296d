"""Export as CSV: a line for each cell and evaluator.

Cells are formatted like those of a test set, safe for spreadsheets.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver.evaluation.results.export.report import Report, preview_line
from palaver.storage.evaluations.results import StoredResult, StoredScore
from palaver.testsets.files.csv_file import format_cell, quote_cell

MEDIA_TYPE = "text/csv; charset=utf-8"
COLUMNS = (
    "row",
    "variant",
    "repeat",
    "status",
    "evaluator",
    "score_status",
    "passed",
    "score",
    "label",
    "reason",
    "error",
    "latency_seconds",
    "cost",
    "input_tokens",
    "output_tokens",
    "trace_id",
    "input",
    "output",
)


def write(report: Report) -> Iterator[bytes]:
    """Yield the lines. A cell without scores has one, too."""
    yield _format_line(COLUMNS)
    for whole in report.cells():
        result = whole.result
        for score in result.scores or (None,):
            yield _format_line([_format_value(value) for value in _score_values(report, result, score)])


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


def _format_value(value: Any) -> str:
    return "" if value is None or value == "" else quote_cell(format_cell(value))


def _format_line(cells: Sequence[str]) -> bytes:
    return (",".join(cells) + "\r\n").encode("utf-8", "replace")
