"""What `palaver eval` prints in the end: a table of figures, what was compared, and the gates that were not passed."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.output import echo
from palaver.evaluation.results.export.report import (
    NO_VALUE,
    format_difference,
    format_interval,
    format_measure,
    format_number,
    format_percent,
)
from palaver.evaluation.results.figures import Comparison, EvaluatorSummary
from palaver.outbound import printable

if TYPE_CHECKING:
    from palaver.cli.eval.runner import EvalOutcome

_SUMMARY_COLUMNS = ("variant", "evaluator", "passed", "95 %", "mean", "rows", "not scored", "flaky")
_COMPARISON_COLUMNS = ("evaluator", "verdict", "base", "now", "difference", "95 %", "worse", "better")


def print_outcome(found: "EvalOutcome") -> None:
    """Print it, for a person."""
    evaluation = found.evaluation
    rows = [
        _summary_row(variant.name if place == 0 else "", one)
        for variant in found.summary.variants
        for place, one in enumerate(variant.evaluators)
    ]
    _print_table(_SUMMARY_COLUMNS, rows)
    for variant in found.summary.variants:
        if variant.failed:
            counted = "they count as not passed" if found.plan.failed_as == "not_passed" else "they are left out"
            echo(f"{printable(variant.name)}: {variant.failed} of {variant.cells} calls failed; {counted}.")
    for line in found.failures:
        echo(f"  {printable(line, 300)}", err=True)
    for one in found.comparisons:
        _print_comparison(one)
    if found.note is not None:
        echo(found.note, err=True)
    if evaluation.state not in ("succeeded", "partly"):
        why = f": {printable(str(evaluation.reason['message']), 500)}" if evaluation.reason else ""
        echo(f"The evaluation is {evaluation.state}{why}", err=True)


def print_failed_gates(failed: Sequence[str]) -> None:
    """Print the gates that were not passed."""
    for line in failed:
        click.secho(f"gate: {printable(line, 500)}", err=True, fg="red" if sys.stderr.isatty() else None)


def encode_outcome(found: "EvalOutcome") -> bytes:
    """The same, for a program."""
    evaluation = found.evaluation
    document = {
        "evaluation": evaluation.id,
        "name": evaluation.name,
        "state": evaluation.state,
        "reason": evaluation.reason,
        "testset": found.plan.testset.id,
        "revision": evaluation.revision,
        "total": evaluation.total,
        "done": evaluation.done,
        "failed": evaluation.failed,
        "errors": evaluation.errors,
        "cost": evaluation.cost,
        "variants": found.summary.variants,
        "comparisons": found.comparisons,
        "gates": found.failed,
        "passed": not found.failed,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _summary_row(variant: str, one: EvaluatorSummary) -> list[str]:
    by_passes = one.pass_rate is not None
    interval = format_interval(one.pass_ci) if by_passes else format_interval(one.mean_ci, "mean")
    flaky = NO_VALUE if one.flaky is None else str(one.flaky)
    unscored = str(one.errors + one.skipped)
    return [
        variant,
        one.name,
        format_percent(one.pass_rate),
        interval,
        format_number(one.mean),
        str(one.n),
        unscored,
        flaky,
    ]


def _print_comparison(found: Comparison) -> None:
    base, candidate = found.base, found.candidate
    here = candidate.partition(":")[0] + ":"
    if base.startswith(here):  # Two variants of this one: their names tell them apart.
        base, candidate = base.removeprefix(here), candidate.removeprefix(here)
    echo(f"\n{printable(candidate)} beside {printable(base)}:")
    rows = [
        [
            one.name,
            one.verdict,
            format_measure(one.base, one.measure),
            format_measure(one.candidate, one.measure),
            format_difference(one.difference, one.measure),
            format_interval(one.ci, one.measure),
            str(one.regressions),
            str(one.fixes),
        ]
        for one in found.evaluators
    ]
    _print_table(_COMPARISON_COLUMNS, rows)
    needed = [f"{printable(one.name)}: {one.cases_needed} rows" for one in found.evaluators if one.cases_needed]
    if needed:
        echo(f"What is unclear would be told by more rows: {', '.join(needed)}.")


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = [[printable(cell, 80) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in _plain_table(heads, shown):
            echo(line)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*heads, box=None, pad_edge=False)
    for row in shown:
        cells: list[Any] = [Text(cell) for cell in row]  # Names are no markup.
        table.add_row(*cells)
    Console().print(table)


def _plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]
