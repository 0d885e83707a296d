"""A run as a table: one line for each cell and evaluator. Cells are written as those of a test set are.

So a text that a spreadsheet would run is a literal here, too, and what is read back is what was written.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver.evaluation.reading.exports.report import Report, line
from palaver.storage.evaluations.results import StoredResult, StoredScore
from palaver.testsets.files.csv_cells import format_cell, quote_cell

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
    """The lines. A cell that nobody scored has one, too."""
    yield _line(COLUMNS)
    for whole in report.cells():
        result = whole.result
        for score in result.scores or (None,):
            yield _line([_cell(value) for value in _values(report, result, score)])


def _values(report: Report, result: StoredResult, score: StoredScore | None) -> Sequence[Any]:
    error, usage = result.error or {}, result.usage
    said = (None,) * 6
    if score is not None:
        said = (score.name, score.status, score.passed, score.score, score.label, score.reason)
    return (
        result.row,
        report.variants[result.variant],
        result.repeat,
        result.status,
        *said,
        f"{error.get('code')}: {error.get('message')}" if error else None,
        result.latency,
        result.cost,
        None if usage is None else usage.input_tokens,
        None if usage is None else usage.output_tokens,
        result.trace_id,
        line(result.preview_in),
        line(result.preview_out),
    )


def _cell(value: Any) -> str:
    return "" if value is None or value == "" else quote_cell(format_cell(value))


def _line(cells: Sequence[str]) -> bytes:
    return (",".join(cells) + "\r\n").encode("utf-8", "replace")
