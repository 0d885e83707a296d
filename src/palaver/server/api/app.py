"""The Litestar application behind /api. Our dispatcher has guarded the request before it comes here."""

from collections.abc import Mapping
from typing import NamedTuple

from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig

from palaver.evaluation.registry import EvaluatorRegistry
from palaver.server.api import (
    board_runs,
    boards,
    bootstrap,
    connections,
    evaluation_events,
    evaluation_reading,
    evaluation_results,
    evaluations,
    evaluators,
    extract,
    feedback,
    files,
    keys,
    login,
    online,
    projects,
    reviews,
    runs,
    spans,
    testset_cutting,
    testset_files,
    testset_revisions,
    testset_rows,
    testsets,
    thread_files,
    thread_messages,
    threads,
    trace_export,
    trace_pages,
    trace_scores,
    trace_sessions,
    traces,
    turns,
    variant_files,
    variants,
    views,
    workflows,
)
from palaver.server.api import house as house_routes
from palaver.server.api.evaluation_figures import Figures
from palaver.server.api.problems import HANDLERS
from palaver.server.api.run_views import speaking
from palaver.server.calls import ThreadRunner
from palaver.server.evaluation import create_evaluator_context, create_planner
from palaver.server.rate_limit import RateLimits
from palaver.server.runtime import ProcessRuntime
from palaver.server.settings import Source


class ApiDependencies(NamedTuple):
    """What the routes use."""

    runtime: ProcessRuntime
    rate_limits: RateLimits
    thread_runner: ThreadRunner
    sources: Mapping[str, Source]
    version: str


def create_api(dependencies: ApiDependencies) -> Litestar:
    """The application, with its OpenAPI document."""
    runtime, rates, version = dependencies.runtime, dependencies.rate_limits, dependencies.version
    registry, settings, database, records = runtime.registry, runtime.settings, runtime.database, runtime.records
    callers, connected, runner = runtime.authenticator, runtime.connections, runtime.runner
    turned = turns.TurnDependencies(database, settings, records, rates, dependencies.thread_runner)
    on_boards = board_runs.BoardRunDependencies(registry, settings, database, runtime.engine, records, runtime.backlog)
    known = EvaluatorRegistry(registry.evaluators, served=registry.names)
    reach = create_evaluator_context(known, registry, settings, runtime.engine)
    planning = create_planner(registry, database, settings, known, reach)
    figures = Figures(database)
    return Litestar(
        route_handlers=[
            *workflows.routes(registry, settings, database, callers, connected),
            *connections.routes(registry, settings, database, callers, connected),
            extract.route(settings),
            *login.routes(callers, rates, settings),
            *keys.routes(database, callers, settings),
            *projects.routes(database, callers, settings),
            *variants.routes(database, registry, settings),
            *variant_files.routes(database, registry, settings),
            *boards.routes(database, settings),
            *board_runs.routes(on_boards),
            *threads.routes(database, settings, known=registry.find),
            *thread_messages.routes(database, settings, running=speaking(records)),
            *turns.routes(turned),
            *runs.routes(database, settings, records, rates),
            *thread_files.routes(database, settings),
            *feedback.routes(database, settings),
            *files.routes(database, settings),
            *testsets.routes(database, settings),
            *testset_revisions.routes(database, settings),
            *testset_rows.routes(database),
            *testset_files.routes(database, settings, rates),
            *testset_cutting.routes(database, settings, runtime.redaction.case),
            *evaluations.routes(database, settings, planning, wake=runner.wake, soon=figures.soon),
            *evaluation_results.routes(database, figures),
            *evaluation_events.routes(database, settings, rates),
            *evaluation_reading.routes(database, settings, rates, figures),
            *evaluators.routes(known, reach, settings),
            *reviews.routes(database, settings),
            *online.routes(database, settings, known, reach, wake=runtime.live_scorer.wake),
            *bootstrap.routes(registry, settings, database, version),
            *traces.routes(database, settings),
            *trace_export.routes(database, settings, rates),
            *trace_pages.routes(database, settings, rates),
            *trace_sessions.routes(database, settings),
            *trace_scores.routes(database),
            *spans.routes(database, settings),
            *views.routes(database, settings),
            *house_routes.routes(database, settings, dependencies.sources, version),
        ],
        openapi_config=OpenAPIConfig(title="Palaver", version=version, path="/api/_openapi"),
        exception_handlers=HANDLERS,
        logging_config=None,
    )
