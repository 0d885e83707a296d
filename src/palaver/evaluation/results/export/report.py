"""The report that all export formats are made from, the outcome of each row, and the formatting of figures."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import msgspec

from palaver.evaluation.plan.request import FailedAs
from palaver.evaluation.results.figures import Comparison, EvaluationSummary, Interval, Measure
from palaver.storage.evaluations.results import CellScore, ResultDetail, StoredResult

OutcomeKind = Literal["passed", "failed", "scored", "error", "skipped"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    state: str
    reason: str | None = None
    testset: str
    revision: int
    variants: Sequence[str]
    rows: int
    repeats: int
    created_at: str
    ended_at: str | None
    failed_as: FailedAs = "not_passed"
    summary: EvaluationSummary
    comparisons: Sequence[Comparison] = ()
    """Each variant compared with another evaluation, or with the first variant."""
    failed_gates: Sequence[str] = ()
    note: str | None = None
    """Why nothing was compared."""
    cells: Callable[[], Iterable[ResultDetail]]
    """Iterates over all cells that have a result, in order, on every call. Only `jsonl` reads their bodies."""


class RowOutcome(NamedTuple):
    """The verdict of one evaluator on one row, over its repeats."""

    kind: OutcomeKind
    score: float | None
    """The mean score of the repeats."""
    reason: str
    """The reason of the first repeat that did not pass, else of the first one."""
    passes: tuple[int, int] | None
    """Repeats that passed, and repeats that passed or failed; None if the evaluator only gives scores."""
    is_flaky: bool


def iterate_rows(report: Report) -> Iterator[list[StoredResult]]:
    """The cells by row, within a row by variant and repeat."""
    cells_per_row = max(1, len(report.variants) * report.repeats)
    for _, cells in groupby(report.cells(), key=lambda detail: detail.result.cell // cells_per_row):
        yield [detail.result for detail in cells]


def evaluator_names(report: Report) -> list[str]:
    return [evaluator.name for evaluator in report.summary.variants[0].evaluators] if report.summary.variants else []


def evaluators_with_passes(report: Report) -> set[str]:
    """Names of evaluators that say whether a case passed."""
    summaries = (summary for variant in report.summary.variants for summary in variant.evaluators)
    return {summary.name for summary in summaries if summary.pass_rate is not None}


def row_outcome(cells: Sequence[StoredResult], evaluator: str, *, has_passes: bool, failed_as: FailedAs) -> RowOutcome:
    """Combine the repeats of a row. `has_passes`: whether the evaluator says if a case passed."""
    scored: list[tuple[bool | None, float | None, str]] = []
    unscored: list[tuple[OutcomeKind, str]] = []
    for cell in cells:
        if cell.status == "failed":
            if failed_as == "not_passed":
                scored.append((False if has_passes else None, 0.0, describe_cell_error(cell)))
            else:
                unscored.append(("error", describe_cell_error(cell)))
            continue
        score = find_score(cell, evaluator)
        if score is None:
            continue
        if score.status == "scored":
            scored.append((score.passed, score.score, score.reason))
        else:
            unscored.append(("error" if score.status == "error" else "skipped", score.reason))
    if not scored:
        kind = "error" if any(kind == "error" for kind, _ in unscored) else "skipped"
        return RowOutcome(kind, None, unscored[0][1] if unscored else "", None, False)
    passes = [passed for passed, _, _ in scored if passed is not None]
    scores = [score for _, score, _ in scored if score is not None]
    mean = sum(scores) / len(scores) if scores else None
    reason = next((reason for passed, _, reason in scored if passed is False), scored[0][2])
    is_flaky = len(set(passes)) > 1 or (mean is not None and _standard_deviation(scores, mean) > 0.1 + 1e-12)
    if not passes:
        return RowOutcome("scored", mean, scored[0][2], None, is_flaky)
    has_passed = 2 * sum(passes) > len(passes)
    return RowOutcome("passed" if has_passed else "failed", mean, reason, (sum(passes), len(passes)), is_flaky)


def unscored_lines(summary: EvaluationSummary) -> list[str]:
    """A line for each variant and number of unscored answers, with its evaluators and the most frequent reason."""
    lines: list[str] = []
    for variant in summary.variants:
        names: dict[tuple[int, str | None], list[str]] = {}
        for evaluator in variant.evaluators:
            if evaluator.unscored:
                names.setdefault((evaluator.unscored, evaluator.unscored_reason), []).append(evaluator.name)
        for (unscored, reason), evaluators in names.items():
            first, *others = evaluators
            more = f" and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else ""
            count = f"{unscored:,} of {format_count(variant.cells, 'answer')} not scored"
            suffix = f", most often: {reason}" if reason else ""
            lines.append(f"{variant.name}, {first}{more}: {count}{suffix}")
    return lines


def find_score(cell: StoredResult, evaluator: str) -> CellScore | None:
    return next((score for score in cell.scores if score.name == evaluator), None)


def describe_cell_error(cell: StoredResult) -> str:
    error = cell.error or {}
    return f"{error.get('code', 'failed')}: {error.get('message', 'the call failed')}"


def preview_line(preview: Any) -> str:
    match preview:
        case {"text": str(text)}:
            return text
        case _:
            return ""


def find_questions(report: Report, rows: Collection[str]) -> dict[str, str]:
    """Return one line with the input of each of these rows, where a result has one."""
    questions: dict[str, str] = {}
    for cell in report.cells() if rows else ():
        if cell.result.row in rows and (text := preview_line(cell.result.preview_in)):
            questions.setdefault(cell.result.row, text)
            if len(questions) == len(rows):
                break
    return questions


def shorten(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1].rstrip()}…"


def state_label(report: Report) -> str:
    return "partial" if report.state == "partly" else report.state


def describe_size(report: Report) -> tuple[str, str]:
    """The number of rows, and of variants and repeats, as text."""
    rows = f"{format_count(report.rows, 'row')} of {report.testset} (revision {report.revision})"
    repeats = f" × {format_count(report.repeats, 'repeat')}" if report.repeats > 1 else ""
    return rows, f"{format_count(len(report.variants), 'variant')}{repeats}"


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


NO_VALUE = "-"


def format_percent(value: float | None) -> str:
    return NO_VALUE if value is None else f"{100 * value:.1f}%"


def format_p_value(value: float | None) -> str:
    return NO_VALUE if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_number(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.3f}"


def format_interval(interval: Interval | None, measure: Measure = "pass_rate") -> str:
    if interval is None:
        return NO_VALUE
    low, high = interval
    return f"{100 * low:.1f} to {100 * high:.1f}" if measure == "pass_rate" else f"{low:.3f} to {high:.3f}"


def format_measure(value: float | None, measure: Measure) -> str:
    return format_percent(value) if measure == "pass_rate" else format_number(value)


def format_difference(value: float | None, measure: Measure) -> str:
    if value is None:
        return NO_VALUE
    return f"{100 * value:+.1f}" if measure == "pass_rate" else f"{value:+.3f}"


def _standard_deviation(scores: Sequence[float], mean: float) -> float:
    return (sum((score - mean) ** 2 for score in scores) / len(scores)) ** 0.5
