"""Live traces, rules, and a clock that tests advance."""

from datetime import UTC, datetime, timedelta
from typing import Any

from palaver.core.messages import Message
from palaver.evaluation.live.scorer import LiveScorer
from palaver.evaluation.live.worker import LiveEvaluationWorker
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.storage.database import Database
from palaver.storage.evaluations import live_evaluators as online_rules
from palaver.storage.evaluations import live_evaluators as online_scores
from palaver.storage.evaluations.live_evaluators import LiveEvaluator, LiveScore
from palaver.traces.ingest import build_row
from palaver.traces.model import Span
from tests.storage.span_factory import insert_rows, span_id, trace_id

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HELLO = {"key": "contains", "name": "hello", "parameters": {"substring": "Hello"}}


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def root_span(name: str, at: float = 0, *, trace: str | None = None, **more: Any) -> Span:
    """The root span of a trace of another service: a chat."""
    fields: dict[str, Any] = {
        "trace_id": trace_id(trace or name),
        "span_id": span_id(name),
        "start": NOON + timedelta(seconds=at),
        "duration_ms": 500.0,
        "name": name,
        "kind": "llm",
        "messages_in": (Message.user(f"Hi, {name}?"),),
        "messages_out": (Message.assistant(f"Hello from {name}."),),
    }
    return Span(**fields | more)


async def store_spans(database: Database, *spans: Span) -> None:
    await insert_rows(database, *(build_row(span) for span in spans), today=NOON.date())


async def create_rule(database: Database, *, project: str = "default", **more: Any) -> LiveEvaluator:
    fields: dict[str, Any] = {
        "id": "on_1",
        "name": "All",
        "sample": 1.0,
        "per_minute": 6_000,
        "session": False,
        "enabled": True,
        "key": None,
        "created_at": NOON,
        "updated_at": NOON,
        "filter": None,
        "evaluators": [HELLO],
    }
    return await database.write(online_rules.create_live_evaluator, project, LiveEvaluator(**fields | more))


def make_worker(database: Database, clock: Clock, process: str = "p1", **more: Any) -> LiveEvaluationWorker:
    def make() -> LiveScorer:
        return LiveScorer(database, EvaluatorRegistry(), OfflineContext())

    return LiveEvaluationWorker(
        database, process=process, make_scorer=more.pop("make", make), is_draining=lambda: False, now=clock, **more
    )


async def scores(database: Database, name: str, project: str = "default") -> list[LiveScore]:
    return await database.read(online_scores.list_trace_scores, project, trace_id(name))


async def scored_traces(database: Database, *names: str) -> list[str]:
    """Return the names of those traces that have scores."""
    return [name for name in names if await scores(database, name)]
