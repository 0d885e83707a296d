"""The Litestar application behind /api. Requests arrive authenticated and checked by the dispatcher."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig

from palaver.evaluation.registry import EvaluatorRegistry
from palaver.server.api.boards import BoardController, BoardRunController
from palaver.server.api.connections import ConnectionController
from palaver.server.api.conventions import EXCEPTION_HANDLERS
from palaver.server.api.dependencies import ApiController, bind
from palaver.server.api.evaluation_export import EvaluationExportController
from palaver.server.api.evaluation_results import EvaluationFigureController, EvaluationResultController, FigureCache
from palaver.server.api.evaluations import EvaluationController, EvaluationEventController
from palaver.server.api.evaluators import EvaluatorController
from palaver.server.api.feedback import FeedbackController
from palaver.server.api.files import ExtractController, FileController
from palaver.server.api.keys import KeyController, SessionController
from palaver.server.api.live_evaluators import LiveEvaluatorController
from palaver.server.api.openai_files import OpenAIFileController
from palaver.server.api.projects import ProjectController
from palaver.server.api.reviews import ReviewController, ReviewItemController
from palaver.server.api.runs import RunController, partial_reply_finder
from palaver.server.api.saved_views import SavedViewController
from palaver.server.api.sessions import TraceSessionController
from palaver.server.api.system import BootstrapController, SystemController
from palaver.server.api.testset_files import TestSetFileController
from palaver.server.api.testset_revisions import TestSetCaseController, TestSetRevisionController, TestSetRowController
from palaver.server.api.testsets import TestSetController
from palaver.server.api.thread_files import ThreadFileController
from palaver.server.api.thread_messages import ThreadMessageController, TurnController
from palaver.server.api.threads import ThreadController
from palaver.server.api.trace_export import TraceExportController, TracePageController
from palaver.server.api.trace_views import TraceQueryRunner
from palaver.server.api.traces import SpanController, TraceController, TraceScoreController
from palaver.server.api.variants import VariantController, VariantFileController, VariantViews
from palaver.server.api.workflows import WorkflowController
from palaver.server.evaluation import create_evaluator_context, create_planner
from palaver.server.rate_limit import RateLimits
from palaver.server.runtime import ProcessRuntime
from palaver.server.settings import Source
from palaver.server.thread_runner import ThreadRunner

CONTROLLERS: tuple[type[ApiController], ...] = (
    WorkflowController,
    ConnectionController,
    ExtractController,
    SessionController,
    KeyController,
    ProjectController,
    VariantController,
    VariantFileController,
    BoardController,
    BoardRunController,
    ThreadController,
    ThreadMessageController,
    TurnController,
    RunController,
    ThreadFileController,
    FeedbackController,
    FileController,
    OpenAIFileController,
    TestSetController,
    TestSetRevisionController,
    TestSetRowController,
    TestSetFileController,
    TestSetCaseController,
    EvaluationController,
    EvaluationResultController,
    EvaluationEventController,
    EvaluationFigureController,
    EvaluationExportController,
    EvaluatorController,
    ReviewController,
    ReviewItemController,
    LiveEvaluatorController,
    BootstrapController,
    TraceController,
    TraceExportController,
    TracePageController,
    TraceSessionController,
    TraceScoreController,
    SpanController,
    SavedViewController,
    SystemController,
)
"""In the order of the OpenAPI document."""


class ApiDependencies(NamedTuple):
    """What the server passes to the REST API."""

    runtime: ProcessRuntime
    rate_limits: RateLimits
    thread_runner: ThreadRunner
    sources: Mapping[str, Source]
    version: str


def create_api(dependencies: ApiDependencies) -> Litestar:
    provided = _controller_dependencies(dependencies)
    return Litestar(
        route_handlers=[bind(controller, provided) for controller in CONTROLLERS],
        openapi_config=OpenAPIConfig(title="Palaver", version=dependencies.version, path="/api/_openapi"),
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,
    )


def _controller_dependencies(dependencies: ApiDependencies) -> dict[str, Any]:
    """Everything that controllers may declare, by attribute name."""
    runtime = dependencies.runtime
    registry, settings, database = runtime.registry, runtime.settings, runtime.database
    evaluators = EvaluatorRegistry(registry.evaluators, served=registry.names)
    evaluator_context = create_evaluator_context(evaluators, registry, settings, runtime.engine)
    return {
        "authenticator": runtime.authenticator,
        "connection_sync": runtime.connection_sync,
        "database": database,
        "engine": runtime.engine,
        "evaluator_context": evaluator_context,
        "evaluators": evaluators,
        "figures": FigureCache(database),
        "partial_reply": partial_reply_finder(runtime.run_reader),
        "planner": create_planner(registry, database, settings, evaluators, evaluator_context),
        "rate_limits": dependencies.rate_limits,
        "redaction": runtime.redaction,
        "registry": registry,
        "run_query": TraceQueryRunner(database, settings),
        "run_queue": runtime.run_queue,
        "run_reader": runtime.run_reader,
        "setting_sources": dependencies.sources,
        "settings": settings,
        "started_at": time.monotonic(),
        "thread_runner": dependencies.thread_runner,
        "variant_views": VariantViews(registry),
        "version": dependencies.version,
        "wake_runner": runtime.evaluation_worker.wake,
        "wake_scorer": runtime.live_worker.wake,
    }
