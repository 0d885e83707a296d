"""How far an evaluation is, on standard error: a bar for whoever looks, a line now and then for a log."""

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
"""Seconds until it is looked again,"""
LOG_INTERVAL_S = 10.0
"""and until another line is written where there is no terminal."""
ShowProgress = Callable[[Evaluation, EvaluationProgress], None]


@asynccontextmanager
async def show_progress(database: Database, project: str, evaluation: str) -> AsyncGenerator[None]:
    """Show it while the block takes its time, and once more as it is in the end."""
    if sys.stderr.isatty():
        with _progress_bar() as bar:
            async with _poll_progress(database, project, evaluation, _bar_updater(bar), TERMINAL_INTERVAL_S):
                yield
    else:
        async with _poll_progress(database, project, evaluation, _print_line, LOG_INTERVAL_S):
            yield


@asynccontextmanager
async def _poll_progress(
    database: Database, project: str, evaluation: str, show: ShowProgress, every: float
) -> AsyncGenerator[None]:
    async def look() -> None:
        found = await database.read(evaluations.get_evaluation, project, evaluation)
        last = await database.read(evaluation_results.recent_pace, project, evaluation)
        show(found, estimate_progress(found, last, datetime.now(UTC)))

    async def look_on() -> None:
        while True:
            await asyncio.sleep(every)
            await look()

    looking = asyncio.get_running_loop().create_task(look_on())
    try:
        yield
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    await look()


def _print_line(found: Evaluation, pace: EvaluationProgress) -> None:
    click.echo(format_progress(found, pace), err=True)


def format_progress(found: Evaluation, pace: EvaluationProgress) -> str:
    """How far it is, in a line."""
    parts = [f"{found.done + found.failed} of {found.total}"]
    parts += [f"{found.failed} failed"] if found.failed else []
    parts += [f"{found.errors} scores missing"] if found.errors else []
    parts += [f"{pace.rate:.1f} a second"] if pace.rate is not None else []
    parts += [f"{_format_seconds(pace.eta_seconds)} left"] if pace.eta_seconds else []
    parts += [f"${found.cost:.4f}"] if found.cost is not None else []
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

    def show(found: Evaluation, pace: EvaluationProgress) -> None:
        bar.update(
            task, total=found.total, completed=found.done + found.failed, description=format_progress(found, pace)
        )

    return show
