"""What a process needs to run workflows: engine, recorder, telemetry and the loops around them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine, utc_now
from palaver.engine.files import FileFetcher
from palaver.engine.heartbeat import Heartbeat, new_process_id
from palaver.engine.recorder import Recorder
from palaver.engine.tracing import RunTracer
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.slice_runner import SliceRunner
from palaver.server.endpoints import VERSION
from palaver.server.evaluation import create_evaluator_context
from palaver.server.metrics import Metrics
from palaver.server.otlp_exporter import OtlpExporter, combine_sinks, configured_endpoint
from palaver.server.otlp_receiver import OtlpReceiver
from palaver.server.redaction import RedactionPolicy
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.traces.decode_worker import RequestDecoder
from palaver.traces.writer import SpanWriter
from palaver.workflows.thread_pool import ThreadPool


class Telemetry:
    """All of it that one server has."""

    def __init__(self, settings: Settings, database: Database, redacting: RedactionPolicy) -> None:
        redact = redacting.span
        self.writer = SpanWriter(database, redact=redact, now=utc_now)
        self.sending = OtlpExporter(configured_endpoint(settings), redact=redact)
        sink = combine_sinks(self.writer.put, self.sending)
        self.tracing = RunTracer(sink, content=settings.trace_content, clean=redacting.by_author)
        """What makes spans of runs."""
        reader = RequestDecoder(redact, redacting.house_rules, cores=settings.workers + 1)
        self.traces = OtlpReceiver(self.writer, reader, settings, now=utc_now)
        """What takes those of others."""

    def follow(self, metrics: Metrics) -> None:
        """Let it be known how many there are."""
        metrics.follow("palaver_spans_written", "Spans that were kept.", lambda: self.writer.written)
        metrics.follow("palaver_spans_dropped", "Spans of runs that were not.", lambda: self.writer.dropped)
        metrics.follow("palaver_spans_sent", "Spans of runs that were sent on.", lambda: self.sending.sent)
        metrics.follow("palaver_spans_unsent", "Spans of runs that were not.", lambda: self.sending.dropped)

    async def flushed(self) -> None:
        """Wait until the spans of all runs by now are written, or given up."""
        await self.tracing.flush()
        await self.writer.flushed()

    async def close(self) -> None:
        """Write and send what is left, and let all go."""
        await self.tracing.close()
        await self.traces.close()
        await self.sending.close()


@asynccontextmanager
async def evaluation_runtime(
    registry: Registry, settings: Settings, database: Database, known: EvaluatorRegistry
) -> AsyncGenerator[SliceRunner]:
    """What runs the cells of evaluations here, as long as the block takes; others on the database see that we live.

    Who gives the command may send cases anywhere.
    """
    process = new_process_id()
    redacting = RedactionPolicy(settings, registry)
    redact = redacting.run if redacting.cleans else None
    if redact is not None:
        database.set_redactor(redacting)
    await redacting.begin(database, utc_now)
    recorder = Recorder(database, process=process, now=utc_now, redact=redact)
    telemetry = Telemetry(settings, database, redacting)
    engine = Engine(
        store=recorder,
        tracing=telemetry.tracing,
        fetch=FileFetcher(database, allow_private=settings.allow_private_urls),
        threads=ThreadPool(settings.threads),
        bounds=settings.run_bounds,
        history=settings.history_bounds,
        record=settings.record,
        debug=settings.debug,
    )
    presence = Heartbeat(
        process,
        database,
        engine,
        kind="worker",
        version=VERSION,
        now=utc_now,
        interval=settings.heartbeat_seconds,
        tracing=telemetry.tracing,
    )
    await presence.start(only_server=False)
    try:
        yield SliceRunner(
            engine,
            database,
            process=process,
            find=registry.workflow,
            evaluators=known,
            context=create_evaluator_context(known, registry, settings, engine, allow_private=True),
            now=utc_now,
            redact=redact,
            prices=settings.prices,
        )
    finally:
        await engine.drain(0)
        await presence.stop()
        await recorder.flush()
        await telemetry.close()
