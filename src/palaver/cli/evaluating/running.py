"""One evaluation, from what was asked on the command line to its end. Nothing is printed here but progress."""

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palaver.cli.evaluating import figures as eval_figures
from palaver.cli.evaluating import progress as eval_progress
from palaver.cli.evaluating import testset as eval_testset
from palaver.cli.evaluating.figures import Outcome
from palaver.core.ids import sortable_id
from palaver.core.runs import DEFAULT_PROJECT
from palaver.discovery.registry import Registry
from palaver.engine.engine import utc_now
from palaver.evaluation.plan.request import NewEvaluation, WantedTestset
from palaver.evaluation.plan.slices import new_evaluation
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.results.gates import Gates, check_gate_names
from palaver.evaluation.runner.local import LocalRunner
from palaver.server.evaluation import create_evaluator_context, create_planner
from palaver.server.runtime import evaluation_runtime
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import slices as evaluation_claims

if TYPE_CHECKING:
    from palaver.evaluation.results.export.report import Report


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    request: NewEvaluation
    """Its test set has no id yet."""
    testset: str
    file: Path | None
    types: eval_testset.Types = "auto"
    compare: str | None = None
    gates: Gates = Gates()


async def run(
    database: Database, registry: Registry, settings: Settings, wanted: Wanted, tell: "Callable[[Report], None]"
) -> Outcome:
    """Run it to its end, or until Ctrl+C; `tell` is given the report, in a thread, while the database is open."""
    known = EvaluatorRegistry(registry.evaluators, served=registry.names)
    reach = create_evaluator_context(known, registry, settings, allow_private=True)
    testset = await eval_testset.testset_id(database, DEFAULT_PROJECT, wanted.testset, wanted.file, types=wanted.types)
    meant = WantedTestset(id=testset, rows=wanted.request.testset.rows)
    request = msgspec.structs.replace(wanted.request, testset=meant)
    planned = await create_planner(registry, database, settings, known, reach).plan(DEFAULT_PROJECT, request)
    check_gate_names(wanted.gates, [one.name for one in planned.plan.evaluators])
    base, note = await eval_figures.base_of(database, wanted.compare, planned.plan)
    async with evaluation_runtime(registry, settings, database, known) as runs:
        made = new_evaluation(_new_id(), planned)
        evaluation, slices = await database.write(
            evaluation_claims.create_claimed, DEFAULT_PROJECT, made, runs.process, utc_now()
        )
        alone = LocalRunner(runs, evaluation, slices, planned.plan.limits.concurrency)
        async with eval_progress.watched(database, DEFAULT_PROJECT, evaluation.id), _interruptible(alone):
            ended = await alone.run()
    found = await eval_figures.figures(database, ended, planned.plan, base, wanted.gates)
    found = msgspec.structs.replace(found, note=note)
    await asyncio.to_thread(tell, eval_figures.report(database, found))
    return found


@asynccontextmanager
async def _interruptible(alone: LocalRunner) -> AsyncGenerator[None]:
    """Ctrl+C lets it end with what is recorded; a second one ends everything."""
    loop = asyncio.get_running_loop()
    cancelling: set[asyncio.Task[None]] = set()

    def stop() -> None:
        if cancelling:
            raise KeyboardInterrupt
        cancelling.add(loop.create_task(alone.cancel()))

    not_here = suppress(NotImplementedError, RuntimeError, ValueError)  # Not on Windows, and not in every thread.
    with not_here:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        with not_here:
            loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*cancelling)


def _new_id() -> str:
    return f"ev_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"
