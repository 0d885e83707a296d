"""Everything that a process needs to run workflows: in the server, in `palaver worker` and in commands.

`WorkflowRuntime` is the engine with what records, traces and redacts its runs. `ProcessRuntime` adds the loops of a
server or worker: heartbeat, background runs, evaluations, retention, and notifications from other processes.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from palaver.discovery.registry import Registry
from palaver.engine.background_runs import RunQueue
from palaver.engine.engine import Admission, Engine, utc_now
from palaver.engine.files import FileFetcher
from palaver.engine.heartbeat import Heartbeat, new_process_id
from palaver.engine.recorder import Recorder
from palaver.engine.retention_task import RetentionTask
from palaver.engine.run_reader import RunReader
from palaver.engine.tracing import RunTracer
from palaver.engine.unread_runs import UnreadRuns
from palaver.server.auth import Authenticator
from palaver.server.connection_sync import ConnectionSync
from palaver.server.evaluation import create_live_scorer, create_runner, create_slice_runner
from palaver.server.metrics import Metrics
from palaver.server.notifications import ChangeFeed, NotificationRouter
from palaver.server.otlp_exporter import OtlpExporter, combine_sinks, configured_endpoint
from palaver.server.otlp_receiver import OtlpReceiver
from palaver.server.redaction import RedactionPolicy
from palaver.server.settings import VERSION, Settings
from palaver.server.supervisor import on_stop_signal
from palaver.storage.background_runs import ProcessKind
from palaver.storage.database import MEMORY_URL, Database, LazyDatabase
from palaver.traces.decode_worker import RequestDecoder
from palaver.traces.writer import SpanWriter
from palaver.workflows.thread_pool import ThreadPool

if TYPE_CHECKING:
    from palaver.evaluation.registry import EvaluatorRegistry
    from palaver.evaluation.runner.slice_runner import SliceRunner


class Telemetry:
    """Handles spans: those of our own runs are stored and exported, those of other programs received over OTLP."""

    def __init__(self, settings: Settings, database: Database, redaction: RedactionPolicy) -> None:
        redact = redaction.redact_span
        self.writer = SpanWriter(database, redact=redact, now=utc_now)
        self.exporter = OtlpExporter(configured_endpoint(settings), redact=redact)
        sink = combine_sinks(self.writer.enqueue, self.exporter)
        self.tracer = RunTracer(sink, content=settings.trace_content, redact=redaction.workflow_span_redactor)
        decoder = RequestDecoder(redact, redaction.server_config, cores=settings.workers + 1)
        self.receiver = OtlpReceiver(self.writer, decoder, settings, now=utc_now)

    def register_metrics(self, metrics: Metrics) -> None:
        """Add our counters to /metrics."""
        metrics.add_counter("palaver_spans_written", "Spans stored.", lambda: self.writer.stored_count)
        metrics.add_counter(
            "palaver_spans_dropped", "Spans of runs that could not be stored.", lambda: self.writer.dropped_count
        )
        metrics.add_counter(
            "palaver_spans_sent", "Spans of runs exported to the OTLP endpoint.", lambda: self.exporter.sent
        )
        metrics.add_counter(
            "palaver_spans_unsent", "Spans of runs that could not be exported.", lambda: self.exporter.dropped
        )

    async def flush(self) -> None:
        """Wait until the spans of all runs so far are written or dropped."""
        await self.tracer.flush()
        await self.writer.flush()

    async def close(self) -> None:
        """Write and export pending spans, and release threads and connections."""
        await self.tracer.close()
        await self.receiver.close()
        await self.exporter.close()


class WorkflowRuntime:
    """The engine of a process, and what records, traces and redacts its runs."""

    def __init__(
        self, registry: Registry, settings: Settings, database: Database, *, admission: Admission | None = None
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.database = database
        self.process = new_process_id()
        self.redaction = RedactionPolicy(settings, registry)
        self.redact_run = self.redaction.run_redactor if self.redaction.redacts_runs else None
        if self.redact_run is not None:
            database.set_redactor(self.redaction)
        self.recorder = Recorder(database, process=self.process, now=utc_now, redact=self.redact_run)
        self.telemetry = Telemetry(settings, database, self.redaction)
        self.engine = Engine(
            store=self.recorder,
            tracer=self.telemetry.tracer,
            fetch=FileFetcher(database, allow_private=settings.allow_private_urls),
            admission=admission,
            thread_pool=ThreadPool(settings.threads),
            limits=settings.run_limits,
            history_limits=settings.history_limits,
            record=settings.record,
            debug=settings.debug,
        )

    def create_heartbeat(
        self, kind: ProcessKind, on_dead: Callable[[Sequence[str]], Awaitable[None]] | None = None
    ) -> Heartbeat:
        """Create the heartbeat of this process; `on_dead` is called with the ids of processes that died."""
        return Heartbeat(
            self.process,
            self.database,
            self.engine,
            kind=kind,
            version=VERSION,
            now=utc_now,
            interval=self.settings.heartbeat_seconds,
            tracer=self.telemetry.tracer,
            on_dead=on_dead,
        )

    async def flush(self) -> None:
        """Write pending records and spans of ended runs. Nothing can be traced afterwards."""
        await self.recorder.flush()
        await self.telemetry.close()


@asynccontextmanager
async def evaluation_runtime(
    registry: Registry, settings: Settings, database: Database, evaluators: "EvaluatorRegistry"
) -> AsyncGenerator["SliceRunner"]:
    """Run the cells of evaluations in this process, without a server; other processes see its heartbeat.

    The operator started the command, so evaluators may reach private addresses.
    """
    runtime = WorkflowRuntime(registry, settings, database)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runtime.flush)
        await runtime.redaction.load_hash_key(database, utc_now)
        heartbeat = runtime.create_heartbeat("worker")
        stack.push_async_callback(heartbeat.stop)
        await heartbeat.start(only_server=False)
        stack.push_async_callback(runtime.engine.drain, 0)
        yield create_slice_runner(
            runtime.engine,
            database,
            registry,
            settings,
            runtime.redaction,
            runtime.process,
            evaluators,
            allow_private=True,
        )


class ProcessRuntime(WorkflowRuntime):
    """Everything that a server or a worker runs besides answering requests. Owns the database."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        database: Database | None = None,
        *,
        kind: ProcessKind = "server",
        only_server: bool = False,
        admission: Admission | None = None,
    ) -> None:
        super().__init__(registry, settings, database or LazyDatabase(settings.db or MEMORY_URL), admission=admission)
        database, engine = self.database, self.engine
        self._only_server = only_server  # Of its database: the runs of all other processes are dead.
        self.evaluation_worker = create_runner(engine, database, registry, settings, self.redaction, self.process)
        self.live_worker = create_live_scorer(engine, database, registry, settings, self.process)
        self.heartbeat = self.create_heartbeat(kind, self.evaluation_worker.release_slices_of)
        unread_runs = UnreadRuns(database, seconds=settings.orphan_seconds)
        self.run_reader = RunReader(engine, self.recorder, database, now=utc_now, unread_runs=unread_runs)
        self.authenticator = Authenticator(database, settings)
        self.retention = RetentionTask(database, run_days=settings.run_days, spans=settings.span_retention, now=utc_now)
        self.run_queue = RunQueue(
            engine,
            database,
            process=self.process,
            find_workflow=registry.workflow,
            workflow_names=registry.names,
            max_runs=settings.background_runs,
            now=utc_now,
        )
        self.connection_sync = ConnectionSync(registry, database, settings, is_only_process=only_server, now=utc_now)
        self.change_feed = ChangeFeed(database)
        self.notifications = NotificationRouter(
            engine,
            self.run_reader,
            self.heartbeat,
            self.run_queue,
            self.authenticator,
            self.connection_sync,
            self.change_feed,
            self.evaluation_worker,
        )
        self.is_started = False
        self._is_listening = False
        self._start_lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        for close in (self.database.close, self.flush, self.authenticator.close, self.notifications.stop):
            self._stack.push_async_callback(close)

    async def start(self) -> None:
        """Start all loops, once. If one of them fails to start, those already started are stopped."""
        async with self._start_lock:
            if self.is_started:
                return
            async with AsyncExitStack() as stack:
                await self._start(stack)
                self._stack.push_async_callback(stack.pop_all().aclose)
            self.is_started = True

    async def _start(self, stack: AsyncExitStack) -> None:
        # Otherwise only this process can use the database.
        is_shared = not isinstance(self.database, LazyDatabase) or bool(self.settings.db)
        await self.redaction.load_hash_key(self.database, utc_now)
        if is_shared:
            stack.push_async_callback(self.heartbeat.stop)
            await self.heartbeat.start(only_server=self._only_server)
            if not self._is_listening:  # Once only: it cannot be undone, and a failed start may be retried.
                await self.database.listen(self.notifications.dispatch)
                self._is_listening = True
            stack.push_async_callback(self.change_feed.stop)
            if self.change_feed.notifies_others:
                await self.change_feed.start()
        stack.push_async_callback(self.connection_sync.stop)
        await self.connection_sync.start(serves_stored=is_shared)
        stack.push_async_callback(self.run_queue.stop)
        if is_shared:
            self.run_queue.start()
        stack.push_async_callback(self.evaluation_worker.stop)
        self.evaluation_worker.start(polls=is_shared)
        stack.push_async_callback(self.live_worker.stop)
        self.live_worker.start(polls=is_shared)
        stack.push_async_callback(self.retention.stop)
        self.retention.start()

    async def stop(self) -> None:
        """Stop all loops, write pending records, and close the database. No run may be active."""
        await self._stack.aclose()


async def run_worker(runtime: ProcessRuntime, *, started: Callable[[], None] = lambda: None) -> None:
    """Run background work until a signal. The first one lets runs end within `shutdown_seconds`, a second ends them."""
    loop, signals = asyncio.get_running_loop(), asyncio.Semaphore(0)
    engine = runtime.engine
    # Not the loop's own signal handlers, which don't work on Windows.
    with on_stop_signal(partial(loop.call_soon_threadsafe, signals.release)):
        try:
            await runtime.start()
            started()
            await signals.acquire()
            drain_task = loop.create_task(engine.drain(runtime.settings.shutdown_seconds))
            second_signal = loop.create_task(signals.acquire())
            await asyncio.wait([drain_task, second_signal], return_when=asyncio.FIRST_COMPLETED)
            second_signal.cancel()
            if not drain_task.done():
                drain_task.cancel()
                await engine.drain(0)
            await asyncio.gather(drain_task, return_exceptions=True)
        finally:
            await runtime.stop()
