"""Print the outcome of `palaver eval`: figures, comparisons, and the gates that failed."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.output import align_columns, echo
from palaver.evaluation.results.export.report import (
    NO_VALUE,
    format_difference,
    format_interval,
    format_measure,
    format_number,
    format_percent,
    unscored_lines,
)
from palaver.evaluation.results.figures import Comparison, EvaluatorSummary
from palaver.outbound import printable

if TYPE_CHECKING:
    from palaver.cli.eval.runner import EvalOutcome

_SUMMARY_COLUMNS = (
    "variant",
    "evaluator",
    "passed",
    "95% CI",
    "mean",
    "scored",
    "not scored",
    "failed calls",
    "flaky",
)
_STATE_TEXTS = {
    "queued": "error: The evaluation did not start",
    "running": "error: The evaluation did not finish",
    "failed": "error: The evaluation failed",
    "cancelled": "The evaluation was cancelled",
}
_COMPARISON_COLUMNS = ("evaluator", "verdict", "base", "candidate", "difference", "95% CI", "regressed", "fixed")


def print_outcome(outcome: "EvalOutcome") -> None:
    evaluation = outcome.evaluation
    rows = [
        _summary_row(variant.name if index == 0 else "", item, variant.failed)
        for variant in outcome.summary.variants
        for index, item in enumerate(variant.evaluators)
    ]
    _print_table(_SUMMARY_COLUMNS, rows)
    for line in unscored_lines(outcome.summary):
        echo(printable(line, 500))
    for variant in outcome.summary.variants:
        if variant.failed:
            treatment = "scored as failed" if outcome.plan.failed_as == "not_passed" else "excluded from the scores"
            echo(f"{printable(variant.name)}: {variant.failed:,} of {variant.cells:,} calls failed ({treatment}).")
    for line in outcome.failures:
        echo(f"  {printable(line, 300)}", err=True)
    for item in outcome.comparisons:
        _print_comparison(item)
    if outcome.note is not None:
        echo(f"warning: {outcome.note}", err=True)
    if evaluation.state not in ("succeeded", "partly"):
        reason = f": {printable(str(evaluation.reason['message']), 500)}" if evaluation.reason else "."
        echo(f"{_STATE_TEXTS[evaluation.state]}{reason}", err=True)


def print_failed_gates(failed: Sequence[str]) -> None:
    for line in failed:
        click.secho(f"FAILED {printable(line, 500)}", err=True, fg="red" if sys.stderr.isatty() else None)


def encode_outcome(outcome: "EvalOutcome") -> bytes:
    evaluation = outcome.evaluation
    document = {
        "evaluation": evaluation.id,
        "name": evaluation.name,
        "state": evaluation.state,
        "reason": evaluation.reason,
        "testset": outcome.plan.testset.id,
        "revision": evaluation.revision,
        "total": evaluation.total,
        "done": evaluation.done,
        "failed": evaluation.failed,
        "errors": evaluation.errors,
        "cost": evaluation.cost,
        "variants": outcome.summary.variants,
        "comparisons": outcome.comparisons,
        "gates": outcome.failed,
        "evaluator_failures": outcome.evaluator_failures,
        "passed": not outcome.failed and not outcome.evaluator_failures,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _summary_row(variant: str, summary: EvaluatorSummary, failed_calls: int) -> list[str]:
    has_pass_rate = summary.pass_rate is not None
    interval = format_interval(summary.pass_ci) if has_pass_rate else format_interval(summary.mean_ci, "mean")
    flaky = NO_VALUE if summary.flaky is None else str(summary.flaky)
    return [
        variant,
        summary.name,
        format_percent(summary.pass_rate),
        interval,
        format_number(summary.mean),
        str(summary.scored),
        str(summary.unscored),
        str(failed_calls),
        flaky,
    ]


def _print_comparison(comparison: Comparison) -> None:
    candidate, base = comparison.display_names()
    echo(f"\n{printable(candidate)} compared with {printable(base)}:")
    rows = [
        [
            item.name,
            item.verdict,
            format_measure(item.base, item.measure),
            format_measure(item.candidate, item.measure),
            format_difference(item.difference, item.measure),
            format_interval(item.ci, item.measure),
            str(item.regressions),
            str(item.fixes),
        ]
        for item in comparison.evaluators
    ]
    _print_table(_COMPARISON_COLUMNS, rows)
    rows_needed = [
        f"{printable(item.name)} needs {item.cases_needed:,} rows"
        for item in comparison.evaluators
        if item.cases_needed
    ]
    if rows_needed:
        echo(f"For a clear verdict, {', '.join(rows_needed)}.")


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    printable_rows = [[printable(cell, 80) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in align_columns([columns, *printable_rows]):
            echo(line)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False)
    for row in printable_rows:
        cells: list[Any] = [Text(cell) for cell in row]  # Names are not markup.
        table.add_row(*cells)
    Console().print(table)
