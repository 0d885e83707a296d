"""Create the evaluation workers, planner and context of a process. Slow packages are imported on first use."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine, utc_now
from palaver.evaluation.live.worker import LiveEvaluationWorker
from palaver.evaluation.runner.worker import EvaluationWorker
from palaver.server.redaction import RedactionPolicy
from palaver.server.settings import Settings
from palaver.server.variant_resolver import resolve_variant
from palaver.storage.database import Database

if TYPE_CHECKING:
    from palaver.evaluation.context import EvaluatorContext
    from palaver.evaluation.live.scorer import LiveScorer
    from palaver.evaluation.network_context import NetworkContext
    from palaver.evaluation.plan.planner import EvaluationPlanner
    from palaver.evaluation.registry import EvaluatorRegistry
    from palaver.evaluation.runner.slice_runner import SliceRunner


def create_runner(
    engine: Engine, database: Database, registry: Registry, settings: Settings, redaction: RedactionPolicy, process: str
) -> EvaluationWorker:
    """Create the worker that runs evaluations, on half of the thread pool: the other half is for requests.

    A process with `background_runs = 0` runs no evaluations.
    """

    def make_runner() -> "SliceRunner":
        from palaver.evaluation.registry import EvaluatorRegistry

        evaluators = EvaluatorRegistry(registry.evaluators, served=registry.names)
        return create_slice_runner(engine, database, registry, settings, redaction, process, evaluators)

    return EvaluationWorker(
        engine,
        database,
        process=process,
        names=registry.names,
        make_runner=make_runner,
        max_cells=max(1, settings.threads // 2) if settings.background_runs else 0,
        now=utc_now,
    )


def create_slice_runner(
    engine: Engine,
    database: Database,
    registry: Registry,
    settings: Settings,
    redaction: RedactionPolicy,
    process: str,
    evaluators: "EvaluatorRegistry",
    *,
    allow_private: bool | None = None,
) -> "SliceRunner":
    from palaver.evaluation.runner.slice_runner import SliceRunner

    return SliceRunner(
        engine,
        database,
        process=process,
        find_workflow=registry.workflow,
        evaluators=evaluators,
        context=create_evaluator_context(evaluators, registry, settings, engine, allow_private=allow_private),
        now=utc_now,
        redact=redaction.run_redactor if redaction.redacts_runs else None,
        prices=settings.prices,
    )


def create_planner(
    registry: Registry,
    database: Database,
    settings: Settings,
    evaluators: "EvaluatorRegistry",
    context: "EvaluatorContext",
) -> "EvaluationPlanner":
    from palaver.evaluation.plan.planner import EvaluationPlanner
    from palaver.evaluation.plan.testset import StoredTestsets

    return EvaluationPlanner(
        find_workflow=registry.workflow,
        testsets=StoredTestsets(database),
        resolve_variant=lambda project, workflow, reference: resolve_variant(database, project, workflow, reference),
        bind_evaluator=lambda key, parameters, name: evaluators.find(key).bind(parameters, context, name=name),
        max_cells=settings.eval_max_cells,
        max_cost=settings.eval_max_cost or None,
    )


def create_evaluator_context(
    evaluators: "EvaluatorRegistry",
    registry: Registry,
    settings: Settings,
    engine: Engine | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    allow_private: bool | None = None,
) -> "NetworkContext":
    """Create the context of evaluators. Without an engine, workflows can be named as judges but not called."""
    from palaver.evaluation.network_context import NetworkConfig, NetworkContext

    config = NetworkConfig(
        providers=settings.providers,
        default_judge=settings.eval_judge,
        prices=settings.prices,
        models_dir=Path(settings.eval_models),
        env=env,
        allow_private=settings.allow_private_urls if allow_private is None else allow_private,
    )
    return NetworkContext(evaluators, config, find_workflow=registry.workflow, engine=engine)


def create_live_scorer(
    engine: Engine, database: Database, registry: Registry, settings: Settings, process: str
) -> LiveEvaluationWorker:
    def make_scorer() -> "LiveScorer":
        from palaver.evaluation.live.scorer import LiveScorer
        from palaver.evaluation.registry import EvaluatorRegistry

        evaluators = EvaluatorRegistry(registry.evaluators)
        return LiveScorer(database, evaluators, create_evaluator_context(evaluators, registry, settings, engine))

    return LiveEvaluationWorker(
        database, process=process, make_scorer=make_scorer, is_draining=lambda: engine.is_draining, now=utc_now
    )
