"""Spans of runs, and of the steps that frameworks report within them.

While a run is active, only the times of its tool calls are recorded; deltas cost nothing. Its spans are built
from its log afterwards, in a thread, for many runs at once. Runs never wait for that: when too much is pending, spans
are dropped and counted.

Nothing is shown twice: where an OpenTelemetry instrumentation reports the same framework or model call, its spans are
kept and the step is not.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Token
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, Protocol

from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core import steps
from palaver.core.events import TERMINAL_EVENTS, TOOL_EVENTS, Event, RunCancelled, RunFinished, RunStarted
from palaver.core.runs import Call, Origin, RecordMode
from palaver.core.steps import DetailsProvider, Step, StepCallback, StepKind
from palaver.engine.recorder import RecordableRun
from palaver.frameworks.base import install_step_listeners
from palaver.storage import run_log, runs
from palaver.traces import sdk_bridge
from palaver.traces.model import Span
from palaver.traces.run_facts import ReportedTool, RunFacts, RunSpanContext, SpanOwner, effective_record
from palaver.traces.sdk_bridge import RunSpanSink, SpanFactory
from palaver.workflows.thread_pool import is_running_loop

MAX_STEPS = 2_000
"""Maximum number of steps per run that become spans."""


class StepRecorder:
    """Turns the steps of one run into spans. May be called from any thread."""

    __slots__ = (
        "_is_closed",
        "_now",
        "_numbers",
        "_observer",
        "_open_steps",
        "_put",
        "_remaining",
        "_run",
        "_span_sink",
        "memory",
        "tools",
    )

    def __init__(
        self,
        run: RunSpanContext,
        put: Callable[[SpanFactory], None],
        now: Callable[[], datetime],
        *,
        span_sink: RunSpanSink | None = None,
        max_steps: int,
        observer: StepCallback | None = None,
    ) -> None:
        self._run = run
        self._put = put  # Thread-safe, returns immediately.
        self._now = now
        self._span_sink = span_sink
        self._observer = observer
        self._remaining = max_steps
        self._numbers = count()
        self._open_steps: dict[int, Step] = {}
        self._is_closed = False
        self.memory: dict[Any, Any] = {}
        """State that framework adapters keep for the run."""
        self.tools: list[ReportedTool] = []
        """Tool calls reported by the framework; not derived again from the event log."""

    @property
    def is_cut(self) -> bool:
        """Whether steps were dropped because of MAX_STEPS."""
        return self._remaining < 0

    def begin(
        self,
        framework: Sequence[str],
        kind: StepKind,
        name: str,
        *,
        parent: Step | None = None,
        call_id: str | None = None,
        details: DetailsProvider | None = None,
    ) -> Step | None:
        """Begin a step. Returns None if there were too many, or the run is over."""
        if self._is_closed:
            return None
        self._remaining -= 1
        if self._remaining < 0:
            return None
        number, now = next(self._numbers), self._now()
        step = Step(
            self, framework, kind, name, number=number, started_at=now, parent=parent, call_id=call_id, details=details
        )
        self._open_steps[number] = step
        return step

    def on_ended(self, step: Step) -> None:
        """Build the span of a finished step."""
        if self._open_steps.pop(step.number, None) is not None:  # Otherwise it ended with its run.
            self._add_spans(step, None)

    def close(self, finish: str) -> None:
        """End all open steps together with the run."""
        self._is_closed = True
        for number in list(self._open_steps):
            if (step := self._open_steps.pop(number, None)) is not None:
                self._add_spans(step, finish)
        self.memory.clear()
        self._now = partial(datetime.now, UTC)  # The run's clock would keep the run alive.

    def _add_spans(self, step: Step, finish: str | None) -> None:
        step.ended_at = self._now()
        if self._observer is not None:
            self._observer(step)
        if self._is_reported(step):
            return
        if step.kind == "tool" or step.call_id is not None:
            self.tools.append(ReportedTool(step.call_id, step.name))
        self._put(partial(_step_spans, step, self._run, finish))

    def _is_reported(self, step: Step) -> bool:
        """Whether OpenTelemetry reports the same step."""
        span_sink = self._span_sink
        if span_sink is None:
            return False
        if any(word in _normalize_scope(scope) for scope in list(span_sink.scopes) for word in step.framework):
            return True
        if step.kind in ("llm", "embedding"):
            for call in list(span_sink.model_calls):
                if step.started_at <= call[0] and (step.ended_at is None or call[1] <= step.ended_at):
                    with suppress(ValueError):  # Another thread may have matched it.
                        span_sink.model_calls.remove(call)
                        return True
        return False


def _step_spans(step: Step, run: RunSpanContext, finish: str | None) -> "Sequence[Span]":
    from palaver.traces.step_spans import build_step_spans  # A slow import, needed only when a step has ended.

    return build_step_spans(step, run, finish)


def _normalize_scope(scope: str) -> str:
    """Normalize a scope: `openinference.instrumentation.openai_agents` and `openai-agents` name the same library."""
    return "".join(letter for letter in scope.lower() if letter.isalnum())


def load_interrupted_run(db: Connection, project: str, run: str) -> RunFacts | None:
    """Load what the database knows of a run whose process died; None if it has no trace.

    The times of its tool calls are lost. If its content was not recorded, it has neither events nor a call.
    """
    stored = runs.get_stored_run(db, project, run)
    if stored is None:
        return None
    row, call = stored.row, runs.decode_call(stored)
    trace_id, ended_at = row.trace_id, row.ended_at
    if not trace_id or ended_at is None:
        return None
    if call is None:
        call = Call(workflow=row.workflow, user=row.user, record="metadata")
    else:
        call = replace(call, messages=tuple(run_log.messages_seen_by(db, project, stored) or call.messages))
    events: list[Event] = runs.read_events(db, project, run)
    if not events:
        started = RunStarted(0, row.id, row.session, row.started_at or row.created_at, trace_id)
        events = [started, RunFinished(1, finish="interrupted", at=ended_at)]
    return RunFacts(
        workflow=row.workflow,
        is_chat=bool(call.messages),
        call=call,
        origin=Origin(project=project, key=row.key, protocol=row.protocol, variant=row.variant),
        events=events,
        ended_at=ended_at,
        first_output_at=row.first_output_at,
    )


log = logging.getLogger("palaver.traces")

SpanRedactorLookup = Callable[[str, str], Callable[[Span], Span] | None]
"""Returns the redaction of spans for a project and workflow, or None."""
SpanSink = Callable[[Sequence[Span]], None]
"""Receives spans on the event loop, without blocking."""

TRACE_DELAY_S = 0.1
"""How long an ended run waits for others, whose spans are built together."""
MAX_PENDING = 10_000
MAX_PENDING_EVENTS = 1_000_000
_BATCH_SIZE = 200
_PAUSE_S, _PAUSE_AFTER_S = 1e-5, 2e-4
"""How long the thread sleeps, and after how much work: without sleeping it would reacquire the GIL at once."""


class TracedRun(RecordableRun, Protocol):
    """What the tracer needs to know about a run."""

    @property
    def is_chat(self) -> bool: ...

    def time(self) -> datetime: ...


class RunTracer:
    """Traces the runs of one engine. Used on one event loop, except for its worker thread."""

    def __init__(
        self,
        sink: SpanSink,
        *,
        content: RecordMode = "full",
        redact: SpanRedactorLookup | None = None,
        delay: float = TRACE_DELAY_S,
        max_pending: int = MAX_PENDING,
        max_pending_events: int = MAX_PENDING_EVENTS,
    ) -> None:
        self._sink = sink
        self._content: RecordMode = content
        self._find_redactor = redact
        self._delay = delay
        self._max_pending = max_pending
        self._max_events = max_pending_events
        self._tool_times: dict[str, dict[int, datetime]] = {}  # When tools were called, by run and event seq.
        self._span_sinks: dict[str, RunSpanSink] = {}  # By run, if OpenTelemetry is loaded.
        self._step_recorders: dict[str, StepRecorder] = {}  # By run.
        self._disconnected_at: dict[str, datetime] = {}  # By run.
        self._pending: list[SpanFactory] = []
        self._pending_events = 0  # Number of events in `_pending`.
        self._timer: asyncio.TimerHandle | None = None
        self._worker: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self.dropped = 0
        """Number of dropped runs and spans."""

    # Called by runs

    def on_start(self, run: TracedRun) -> Callable[[], None] | None:
        """Make the run the current span and step listener of its task; returns the function that undoes this."""
        call, started = run.call, run.started
        record, has_opentelemetry = effective_record(call, self._content), sdk_bridge.is_opentelemetry_loaded()
        if record == "off" and not has_opentelemetry:
            return None
        loop, span_sink, listener_token = asyncio.get_running_loop(), None, None
        put = partial(self._put_threadsafe, loop, run.origin.project, run.name)
        if record != "off":
            if has_opentelemetry:
                secrets = [secret.reveal() for secret in call.secrets.values()]
                span_sink = RunSpanSink(SpanOwner(run.origin.project, started.session, run.id, record, secrets), put)
                self._span_sinks[run.id] = span_sink
            install_step_listeners()
            recorder = self._step_recorders[run.id] = _new_step_recorder(run, record, put, span_sink)
            listener_token = steps.LISTENER.set(recorder)
        span_token = sdk_bridge.attach_run(started.trace_id, started.span_id, span_sink) if has_opentelemetry else None
        return partial(_detach, listener_token, span_token)

    def note_tools(self, run: TracedRun, events: Sequence[Event]) -> None:
        tool_seqs = [event.seq for event in events if type(event) in TOOL_EVENTS]
        if tool_seqs and effective_record(run.call, self._content) != "off":
            called_at = run.time()
            self._tool_times.setdefault(run.id, {}).update(dict.fromkeys(tool_seqs, called_at))

    def on_disconnect(self, run: TracedRun) -> None:
        """Note that the client disconnected before the end."""
        if run.id in self._step_recorders:
            self._disconnected_at[run.id] = run.time()

    def on_end(self, run: TracedRun) -> None:
        """Queue the spans of a run that is over."""
        times, span_sink = self._tool_times.pop(run.id, {}), self._span_sinks.pop(run.id, None)
        disconnected_at = self._disconnected_at.pop(run.id, None)
        last, recorder = run.log[-1] if run.log else None, self._step_recorders.pop(run.id, None)
        if recorder is not None:
            recorder.close("cancelled" if isinstance(last, RunCancelled) else "interrupted")
        if effective_record(run.call, self._content) == "off" or not isinstance(last, TERMINAL_EVENTS):
            return  # Handed over to another process.
        facts = RunFacts(
            workflow=run.name,
            is_chat=run.is_chat,
            call=run.call,
            origin=run.origin,
            events=run.log,
            ended_at=last.at or run.time(),
            first_output_at=run.first_output_at,
            disconnected_at=disconnected_at,
            times=times,
            reported_tools=[
                *(() if span_sink is None else span_sink.tools),
                *(() if recorder is None else recorder.tools),
            ],
            has_dropped_steps=recorder is not None and recorder.is_cut,
        )
        self.add_run(facts)

    def add_run(self, facts: RunFacts) -> None:
        """Queue the spans of a run of any process."""
        build = self._with_redaction(facts.origin.project, facts.workflow, partial(_run_spans, facts, self._content))
        self._add(build, len(facts.events))

    # Building spans

    def _with_redaction(self, project: str, workflow: str, build: SpanFactory) -> SpanFactory:
        """Wrap `build` with the redaction of the workflow."""
        redactor = None if self._find_redactor is None else self._find_redactor(project, workflow)
        return build if redactor is None else lambda: [redactor(span) for span in build()]

    def _put_threadsafe(self, loop: asyncio.AbstractEventLoop, project: str, workflow: str, build: SpanFactory) -> None:
        build = self._with_redaction(project, workflow, build)
        if is_running_loop(loop):
            self._add(build, 1)
            return
        with suppress(RuntimeError):  # The event loop is closed.
            loop.call_soon_threadsafe(self._add, build, 1)

    def _add(self, build: SpanFactory, events: int) -> None:
        if self._pending and (
            len(self._pending) >= self._max_pending or self._pending_events + events > self._max_events
        ):
            if not self.dropped:
                log.warning("Runs end faster than their traces can be stored. Some traces are dropped.")
            self.dropped += 1
            return
        self._pending.append(build)
        self._pending_events += events
        if self._timer is None and self._worker is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._start_worker)

    def _start_worker(self) -> None:
        self._timer = None
        self._worker = asyncio.get_running_loop().create_task(self._worker_loop())

    async def _worker_loop(self) -> None:
        loop = asyncio.get_running_loop()
        thread = self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="palaver-traces")
        try:
            while self._pending:
                pending, self._pending, self._pending_events = self._pending, [], 0
                for start in range(0, len(pending), _BATCH_SIZE):
                    spans = await loop.run_in_executor(thread, _build_spans, pending[start : start + _BATCH_SIZE])
                    self._pass_to_sink(spans)
        finally:
            self._worker = None

    def _pass_to_sink(self, spans: Sequence[Span]) -> None:
        try:
            self._sink(spans)
        except Exception:
            self.dropped += len(spans)
            log.exception("Failed to store or export %d spans", len(spans))

    async def flush(self) -> None:
        """Wait until all spans known so far were passed to the sink."""
        if self._timer is not None:
            self._timer.cancel()
            self._start_worker()
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Flush, and stop the thread."""
        await self.flush()
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None


def _new_step_recorder(
    run: TracedRun, record: RecordMode, put: Callable[[SpanFactory], None], span_sink: RunSpanSink | None
) -> StepRecorder:
    started, project = run.started, run.origin.project
    context = RunSpanContext(started.trace_id, started.span_id, project, started.session, run.id, run.call, record)
    return StepRecorder(context, put, run.time, span_sink=span_sink, max_steps=MAX_STEPS, observer=steps.OBSERVER.get())


def _detach(listener_token: Token[steps.StepListener | None] | None, span_token: Token[Any] | None) -> None:
    if span_token is not None:
        sdk_bridge.detach_run(span_token)
    if listener_token is not None:
        steps.LISTENER.reset(listener_token)


def _run_spans(facts: RunFacts, content: RecordMode) -> Sequence[Span]:
    from palaver.traces.run_spans import build_run_spans  # A slow import, needed only when a run has ended.

    return build_run_spans(facts, content)


def _build_spans(pending: Sequence[SpanFactory]) -> list[Span]:
    """Build spans, in the thread."""
    spans: list[Span] = []
    work_started_at = time.perf_counter()
    for build in pending:
        try:
            spans += build()
        except Exception:  # A bug in one must not lose the others.
            log.exception("Failed to build the spans of a run")
        if time.perf_counter() - work_started_at > _PAUSE_AFTER_S:
            time.sleep(_PAUSE_S)  # Let the event loop send deltas.
            work_started_at = time.perf_counter()
    return spans
