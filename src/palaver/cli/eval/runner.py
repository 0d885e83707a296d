"""Run one evaluation to its end, and load its figures, comparison, gates and report. Prints progress only."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from palaver.cli.database import new_id
from palaver.cli.output import error_reason, format_count
from palaver.cli.testset import import_rows
from palaver.core.runs import DEFAULT_PROJECT
from palaver.discovery.registry import Registry
from palaver.engine.engine import utc_now
from palaver.errors import InvalidValue, StillRunning, TargetNotFound, UnsupportedMediaType
from palaver.evaluation.plan.plan import Plan, new_evaluation
from palaver.evaluation.plan.request import NewEvaluation, TestsetInput
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.results.export.report import describe_cell_error
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.evaluation.results.gates import Gates, check_gate_names, failed_evaluators, failed_gates
from palaver.evaluation.runner.local import LocalRunner
from palaver.evaluation.runner.progress import EvaluationProgress, estimate_progress
from palaver.server.evaluation import create_evaluator_context, create_planner
from palaver.server.runtime import evaluation_runtime
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations import slices as evaluation_slices
from palaver.storage.evaluations.repository import Evaluation, EvaluationFilters
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.pagination import Window

if TYPE_CHECKING:
    from rich.progress import Progress

    from palaver.evaluation.results.export.report import Report


ENTRY_POINT_GROUP = "palaver.testsets"
_CHUNK_BYTES = 256 * 1024
_FILE_SUFFIXES = (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".tsv", ".xlsx")
Types = Literal["auto", "text"]


def find_file(text: str) -> Path | None:
    """Return the file that `text` names; None for the name of a stored set."""
    path = Path(text)
    if path.is_file() or text.lower().endswith(_FILE_SUFFIXES):
        return path
    return _installed_file(text)


def _installed_file(name: str) -> Path | None:
    """Return the file that an installed package declares under this name, as `package:path`."""
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            package, _, path = entry.value.partition(":")
            spec = find_spec(package)
            locations = list(spec.submodule_search_locations or ()) if spec is not None else []
            return Path(locations[0], path) if locations else None
    return None


async def resolve_testset_id(database: "Database", project: str, text: str, file: Path | None, *, types: Types) -> str:
    """Return the set's id. A file is imported first; rows that it had before keep their ids."""
    if file is not None:
        return await _import_file(database, project, file, types)
    from palaver.storage.testsets import repository as testsets

    testset = await database.read(testsets.find_testset, project, text)
    if testset is not None:
        return testset.id
    if text.startswith("ts_"):
        return (await database.read(testsets.get_testset, project, text)).id
    installed = ", ".join(sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))) or "none"
    raise TargetNotFound(f"Test set {text!r} not found. Pass a file or a stored test set. Installed: {installed}.")


async def _import_file(database: "Database", project: str, file: Path, types: Types) -> str:
    from palaver.storage.testsets import repository as testsets
    from palaver.testsets.files import format_of, open_reader
    from palaver.testsets.importer import ImportTarget

    testset = await database.read(testsets.find_testset, project, file.name)
    target = (
        ImportTarget(testset=testset.id, mode="replace")
        if testset is not None
        else ImportTarget(testset=new_id("ts"), is_new=True)
    )
    try:
        reader = open_reader(format_of(file.name), types=types)
    except UnsupportedMediaType as error:
        raise click.UsageError(error.message) from None
    await import_rows(database, project, file.name, target, reader, _read_chunks(file), "palaver eval")
    return target.testset


async def _read_chunks(file: Path) -> AsyncIterator[bytes]:
    try:
        stream = file.open("rb")
    except OSError as error:
        raise TargetNotFound(f"Cannot read {file}: {error_reason(error)}.") from None
    with stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


TERMINAL_INTERVAL_S = 0.25
"""Seconds between two updates of the progress bar."""
LOG_INTERVAL_S = 10.0
"""Seconds between two lines if the output is not a terminal."""
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
        recent = await database.read(evaluation_results.recent_pace, project, evaluation)
        show(evaluation_row, estimate_progress(evaluation_row, recent, datetime.now(UTC)))

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


def _print_line(evaluation: Evaluation, progress: EvaluationProgress) -> None:
    click.echo(format_progress(evaluation, progress), err=True)


def format_progress(evaluation: Evaluation, progress: EvaluationProgress) -> str:
    parts = [f"{evaluation.done + evaluation.failed:,} of {format_count(evaluation.total, 'run')}"]
    parts += [f"{evaluation.failed} failed"] if evaluation.failed else []
    parts += [format_count(evaluation.errors, "evaluator error")] if evaluation.errors else []
    parts += [f"{progress.rate:.1f}/s"] if progress.rate is not None else []
    parts += [f"{_format_seconds(progress.eta_seconds)} left"] if progress.eta_seconds else []
    parts += [f"${evaluation.cost:.4f}"] if evaluation.cost is not None else []
    return ", ".join(parts)


def _format_seconds(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _progress_bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(), TextColumn("{task.description}")
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)


def _bar_updater(bar: "Progress") -> ShowProgress:
    task = bar.add_task("starting", total=None)

    def show(evaluation: Evaluation, progress: EvaluationProgress) -> None:
        bar.update(
            task,
            total=evaluation.total,
            completed=evaluation.done + evaluation.failed,
            description=format_progress(evaluation, progress),
        )

    return show


LAST_EVALUATION = "last"
"""Compare with the previous evaluation of the same test set and workflow."""
_MAX_LISTED_FAILURES = 5
"""Maximum number of failed calls whose errors are listed."""
_PAGE_CELLS = 100


class EvalOutcome(msgspec.Struct, frozen=True, kw_only=True):
    evaluation: Evaluation
    plan: Plan
    summary: EvaluationSummary
    comparisons: list[Comparison]
    failed: list[str]
    """Failed gates, a line each."""
    failures: list[str]
    """Errors of the first failed calls."""
    evaluator_failures: list[str]
    """Evaluators that failed, a line each."""
    note: str | None = None
    """Why nothing was compared."""


async def load_outcome(
    database: Database, ended: Evaluation, plan: Plan, base: str | None, gates: Gates
) -> EvalOutcome:
    """Load the figures of an ended evaluation, compared with `base` (`ev_…:variant`) or with its first variant."""
    from palaver.evaluation.results import load  # Imported late: it loads numpy.
    from palaver.evaluation.results.summary import summarize

    results = await database.read(load.read_results, DEFAULT_PROJECT, ended.id)
    figures = summarize(results)
    base_variant = None
    if base is not None:
        evaluation_id, variant = load.split_variant_reference(base)
        base_results = await database.read(load.read_results, DEFAULT_PROJECT, evaluation_id)
        names = list(base_results.variants)
        common_names = [item.name for item in plan.variants if item.name in names]
        base_variant = load.compared_variant(base_results, variant or (common_names or names)[0], "--compare")
    comparisons = load.compare_with_base(results, base_variant)
    query = evaluation_results.ResultFilters(status="failed")
    failed_cells = await database.read(
        evaluation_results.list_results, DEFAULT_PROJECT, ended.id, query, Window(_MAX_LISTED_FAILURES)
    )
    return EvalOutcome(
        evaluation=ended,
        plan=plan,
        summary=figures,
        comparisons=comparisons,
        failed=failed_gates(gates, figures, comparisons),
        evaluator_failures=failed_evaluators(gates, results, figures),
        failures=[
            f"{item.row}, {plan.variants[item.variant].name}: {describe_cell_error(item)}" for item in failed_cells.data
        ],
    )


async def resolve_base(database: Database, compare: str | None, plan: Plan) -> tuple[str | None, str | None]:
    """Return the evaluation to compare with, as `ev_…` or `ev_…:variant`, or a note why there is none."""
    if compare is None:
        return None, None
    if compare != LAST_EVALUATION:
        evaluation = await database.read(evaluations.get_evaluation, DEFAULT_PROJECT, compare.partition(":")[0])
        if evaluation.ended_at is None:
            raise StillRunning(f"Evaluation {evaluation.id!r} is still running. Compare with a finished one.")
        return compare, None
    workflows = {item.workflow for item in plan.variants}
    page = await database.read(
        evaluations.list_evaluations, DEFAULT_PROJECT, EvaluationFilters(testset=plan.testset.id)
    )
    plans = await database.read(evaluations.get_plans, DEFAULT_PROJECT, [item.id for item in page.data])
    for item in page.data:
        other_plan = msgspec.convert(plans[item.id], Plan)
        if item.state in ("succeeded", "partly") and workflows & {variant.workflow for variant in other_plan.variants}:
            return item.id, None
    return None, "No previous evaluation of this test set; nothing to compare."


# Files


def build_report(database: Database, outcome: EvalOutcome) -> "Report":
    """Build the report that files are written from. It may be read in another thread than the event loop's."""
    from palaver.evaluation.results import load

    return load.make_report(
        outcome.evaluation,
        outcome.plan,
        summary=outcome.summary,
        comparisons=outcome.comparisons,
        failed_gates=outcome.failed,
        note=outcome.note,
        cells=partial(_iterate_cells, database, outcome.evaluation.id, asyncio.get_running_loop()),
    )


def _iterate_cells(database: Database, evaluation: str, loop: asyncio.AbstractEventLoop) -> Iterator[ResultDetail]:
    after = -1
    while True:
        query = database.read(evaluation_results.list_result_details, DEFAULT_PROJECT, evaluation, after, _PAGE_CELLS)
        page = asyncio.run_coroutine_threadsafe(query, loop).result()
        yield from page
        if not page:
            return
        after = page[-1].result.cell


class EvalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The evaluation that the command line asks for."""

    request: NewEvaluation
    """The request, without the id of the test set."""
    testset: str
    file: Path | None
    types: Types = "auto"
    compare: str | None = None
    gates: Gates = Gates()


async def run_evaluation(
    database: Database,
    registry: Registry,
    settings: Settings,
    eval_request: EvalRequest,
    write_report: "Callable[[Report], None]",
) -> EvalOutcome:
    """Run to the end, or until Ctrl+C. `write_report` is called in a thread, while the database is open."""
    evaluators = EvaluatorRegistry(registry.evaluators, served=registry.names)
    context = create_evaluator_context(evaluators, registry, settings, allow_private=True)
    testset = await resolve_testset_id(
        database, DEFAULT_PROJECT, eval_request.testset, eval_request.file, types=eval_request.types
    )
    testset_ref = TestsetInput(id=testset, rows=eval_request.request.testset.rows)
    request = msgspec.structs.replace(eval_request.request, testset=testset_ref)
    planned = await create_planner(registry, database, settings, evaluators, context).plan(DEFAULT_PROJECT, request)
    try:
        check_gate_names(eval_request.gates, [evaluator.name for evaluator in planned.plan.evaluators])
    except InvalidValue as error:
        raise click.UsageError(error.message) from None
    base, note = await resolve_base(database, eval_request.compare, planned.plan)
    async with evaluation_runtime(registry, settings, database, evaluators) as runner:
        evaluation_row = new_evaluation(new_id("ev"), planned)
        evaluation, slices = await database.write(
            evaluation_slices.create_claimed_evaluation, DEFAULT_PROJECT, evaluation_row, runner.process, utc_now()
        )
        local_run = LocalRunner(runner, evaluation, slices, planned.plan.limits.concurrency)
        async with show_progress(database, DEFAULT_PROJECT, evaluation.id), _handle_interrupt(local_run):
            ended = await local_run.run()
    outcome = await load_outcome(database, ended, planned.plan, base, eval_request.gates)
    outcome = msgspec.structs.replace(outcome, note=note)
    await asyncio.to_thread(write_report, build_report(database, outcome))
    return outcome


@asynccontextmanager
async def _handle_interrupt(local_run: LocalRunner) -> AsyncGenerator[None]:
    """Let Ctrl+C cancel the evaluation, keeping recorded results; a second one interrupts."""
    loop = asyncio.get_running_loop()
    cancel_tasks: set[asyncio.Task[None]] = set()

    def stop() -> None:
        if cancel_tasks:
            raise KeyboardInterrupt
        cancel_tasks.add(loop.create_task(local_run.cancel()))

    # Signal handlers need the main thread, and not Windows.
    suppress_unsupported = suppress(NotImplementedError, RuntimeError, ValueError)
    with suppress_unsupported:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        with suppress_unsupported:
            loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*cancel_tasks)
