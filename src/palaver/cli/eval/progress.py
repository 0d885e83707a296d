"""Progress of an evaluation on standard error: a bar on a terminal, else a line now and then."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from palaver.evaluation.runner.progress import EvaluationProgress, estimate_progress
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.repository import Evaluation

if TYPE_CHECKING:
    from rich.progress import Progress

TERMINAL_INTERVAL_S = 0.25
"""Between two updates of the bar."""
LOG_INTERVAL_S = 10.0
"""Between two lines without a terminal."""
ShowProgress = Callable[[Evaluation, EvaluationProgress], None]


@asynccontextmanager
async def show_progress(database: Database, project: str, evaluation: str) -> AsyncGenerator[None]:
    """Show progress during the block, and once more at its end."""
    if sys.stderr.isatty():
        with _progress_bar() as bar:
            async with _poll_progress(database, project, evaluation, _bar_updater(bar), TERMINAL_INTERVAL_S):
                yield
    else:
        async with _poll_progress(database, project, evaluation, _print_line, LOG_INTERVAL_S):
            yield


@asynccontextmanager
async def _poll_progress(
    database: Database, project: str, evaluation: str, show: ShowProgress, interval_s: float
) -> AsyncGenerator[None]:
    async def update() -> None:
        evaluation_row = await database.read(evaluations.get_evaluation, project, evaluation)
        last = await database.read(evaluation_results.recent_pace, project, evaluation)
        show(evaluation_row, estimate_progress(evaluation_row, last, datetime.now(UTC)))

    async def update_forever() -> None:
        while True:
            await asyncio.sleep(interval_s)
            await update()

    task = asyncio.get_running_loop().create_task(update_forever())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await update()


def _print_line(evaluation: Evaluation, pace: EvaluationProgress) -> None:
    click.echo(format_progress(evaluation, pace), err=True)


def format_progress(evaluation: Evaluation, pace: EvaluationProgress) -> str:
    parts = [f"{evaluation.done + evaluation.failed} of {evaluation.total}"]
    parts += [f"{evaluation.failed} failed"] if evaluation.failed else []
    parts += [f"{evaluation.errors} scores missing"] if evaluation.errors else []
    parts += [f"{pace.rate:.1f} a second"] if pace.rate is not None else []
    parts += [f"{_format_seconds(pace.eta_seconds)} left"] if pace.eta_seconds else []
    parts += [f"${evaluation.cost:.4f}"] if evaluation.cost is not None else []
    return ", ".join(parts)


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _progress_bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(), TextColumn("{task.description}")
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)


def _bar_updater(bar: "Progress") -> ShowProgress:
    task = bar.add_task("begins", total=None)

    def show(evaluation: Evaluation, pace: EvaluationProgress) -> None:
        bar.update(
            task,
            total=evaluation.total,
            completed=evaluation.done + evaluation.failed,
            description=format_progress(evaluation, pace),
        )

    return show
