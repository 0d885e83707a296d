"""`python -m benchmarks`: measure and print the table."""

import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Literal

import click
import msgspec

from benchmarks import report
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, table
from benchmarks.parts import (
    blocked_threads,
    conversations,
    evaluation,
    extraction,
    idle,
    imports,
    invocations,
    jobchat,
    micro,
    page,
    run_records,
    startup,
    streaming,
    testsets,
    traces,
)

PARTS: dict[str, ModuleType] = {
    "micro": micro,
    "extraction": extraction,
    "imports": imports,
    "startup": startup,
    "streaming": streaming,
    "invocations": invocations,
    "recording": run_records,
    "conversations": conversations,
    "idle": idle,
    "blocking": blocked_threads,
    "jobchat": jobchat,
    "traces": traces,
    "testsets": testsets,
    "evaluation": evaluation,
    "page": page,
}


@click.command()
@click.option("--only", type=click.Choice(list(PARTS)), multiple=True, help="Measure only this part; can be repeated.")
@click.option(
    "--quick",
    "pace",
    flag_value="quick",
    default="full",
    help="Run a short smoke test; its figures are not meaningful.",
)
@click.option("--json", "file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the figures to FILE.")
def main(only: tuple[str, ...], pace: Literal["full", "quick"], file: Path | None) -> None:
    """Measure Palaver on this machine, print the figures, and update docs/concepts/benchmarks.md.

    A missed goal is marked; exit code 1 means that a part could not run. Figures of --quick are not saved.
    """
    figures: dict[str, list[Figure]] = {}
    loads: dict[str, float] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="palaver-bench-") as folder:
        context = BenchmarkContext(pace=pace, folder=Path(folder))
        for name in only or PARTS:
            click.echo(f"measuring {name} …", err=True)
            loads[name] = report.load_average()
            try:
                for figure in PARTS[name].measure(context):  # Figures before an error are kept.
                    figures.setdefault(name, []).append(figure)
            except MeasurementError as error:
                failures[name] = str(error)
            except Exception as error:  # A failing part must not lose the figures of the others.
                failures[name] = f"{type(error).__name__}: {error}"
    click.echo(f"{report.describe_machine()}{' (quick: the figures are not meaningful)' if pace == 'quick' else ''}\n")
    click.echo(table([figure for part in figures.values() for figure in part]))
    for name, reason in failures.items():
        click.echo(f"{name} could not run: {reason}", err=True)
    if pace == "full":
        complete_parts = {
            name: report.make_part(part, load=loads[name]) for name, part in figures.items() if name not in failures
        }
        report.save_parts(complete_parts, list(PARTS))
    if file is not None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(_document(figures, failures, pace))) + b"\n")
    sys.exit(1 if failures else 0)


def _document(figures: dict[str, list[Figure]], failures: dict[str, str], pace: str) -> dict[str, object]:
    measured = {
        name: [msgspec.to_builtins(figure) | {"verdict": figure.verdict} for figure in part]
        for name, part in figures.items()
    }
    return {"where": report.describe_machine(), "pace": pace, "parts": measured, "failures": failures}


if __name__ == "__main__":
    main()
