"""One run: the task that drives a workflow, its event log and its readers.

The stages between workflow and reader (reply reader, event grammar, encoders) are synchronous state machines. The
consumer that started the run is called from the run's own task, so that the workflow proceeds at its pace; other
readers follow the log and are never waited for.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from datetime import datetime
from types import AsyncGeneratorType
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET

from palaver.core import json
from palaver.core.events import TOOL_EVENTS, Event, RunCancelled, RunFailed, RunFinished, RunStarted, TerminalEvent
from palaver.core.grammar import OutputValue
from palaver.core.messages import File
from palaver.core.model_options import TextFormat, find_format_mismatch, required_format
from palaver.core.output_filters import StopReached, grammar_for
from palaver.core.runs import Call, Origin, RunLimits
from palaver.engine.failures import FailureDisclosure, failure_event, sanitize_failure, unrecorded_end
from palaver.engine.files import FileFetch
from palaver.engine.recorder import RunHandedOver, RunStore
from palaver.engine.tracing import RunTracer
from palaver.errors import FormatMismatch, RunTimeout
from palaver.workflows.context import Context
from palaver.workflows.execution import ReplyReader, Returned, iterate_output
from palaver.workflows.thread_pool import ThreadPool, is_running_loop
from palaver.workflows.workflow import OnDisconnect, Producer, Workflow

log = logging.getLogger("palaver.run")

EventConsumer = Callable[[Sequence[Event]], Awaitable[None] | None]
"""The reader that started the run: called with every batch in order, one call at a time. The awaitable it returns is
awaited, so the run proceeds at its pace. It never raises: on an error it stops consuming."""

_DEFERRED = (RunStarted(),)
"""Marks that the run's task is sending a batch whose position is in `_unsent_from`."""
_YIELD_EVERY = 500  # Values after which a workflow that never awaits yields to the event loop.
_CANCEL_RETRY_S = 1.0  # Delay until code that ignores its cancellation is cancelled again.
_CANCEL_TRIES = 3  # After these the run ends without waiting for the code.

_helper_tasks: set[asyncio.Task[None]] = set()  # Shared by all runs: the event loop holds tasks only weakly.


class RunServices(NamedTuple):
    """What all runs of an engine share."""

    store: RunStore
    thread_pool: ThreadPool
    now: Callable[[], datetime]
    disclosure: FailureDisclosure
    on_end: Callable[["Run"], None]
    """Called when a run is over."""
    fetch: FileFetch
    tracer: RunTracer | None = None


class Run:
    """One call of one workflow, running or just ended."""

    __slots__ = (
        "__weakref__",
        "_consumer",
        "_end_waiters",
        "_grammar",
        "_is_producing",
        "_limits",
        "_loop",
        "_reply_reader",
        "_requested_end",
        "_send_lock",
        "_sending",
        "_services",
        "_store",
        "_task",
        "_unsent_from",
        "_waiters",
        "call",
        "context",
        "expires_at",
        "first_output_at",
        "id",
        "is_chat",
        "is_finished",
        "is_over",
        "log",
        "name",
        "on_disconnect",
        "origin",
        "started",
        "warnings",
    )

    def __init__(
        self,
        services: RunServices,
        workflow: Workflow,
        call: Call,
        origin: Origin,
        started: RunStarted,
        limits: RunLimits,
        consumer: EventConsumer | None,
    ) -> None:
        description = workflow.description
        self.id = started.run_id
        self.name = description.name
        self.call = call
        self.origin = origin
        self.started = started
        self.is_chat = description.is_chat
        self.on_disconnect: OnDisconnect | None = workflow.options.on_disconnect
        self.context = Context(started, call, description.flags, self._emit, services.thread_pool, self._fetch)
        self.log: list[Event] = []
        self.warnings: Sequence[str] = ()
        """What was repaired or left out of the workflow's output; complete when the run has ended."""
        self.first_output_at: datetime | None = None
        self.is_finished = False
        self.is_over = False
        """Whether everything has been recorded and sent to the consumer."""
        self._loop = asyncio.get_running_loop()
        self.expires_at = self._loop.time() + limits.seconds
        self._services = services
        self._store = services.store
        self._limits = limits
        self._grammar = grammar_for(started.run_id, call.options, call.messages)
        # Created by the first value that is not plain text; most chats yield none.
        self._reply_reader: ReplyReader | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_producing = True
        self._requested_end: TerminalEvent | None = None
        self._waiters: Sequence[asyncio.Future[None]] = ()
        self._end_waiters: Sequence[asyncio.Future[None]] = ()
        # What the run's task is sending to the consumer, and the first event that was not sent by it.
        self._consumer: EventConsumer | None = consumer
        self._sending: Sequence[Event] = ()
        self._unsent_from: int | None = None
        self._send_lock: asyncio.Lock | None = None  # Created when first needed.

    def time(self) -> datetime:
        """Return the current time, never before the start of the run: the clock may have been set back since."""
        now, started_at = self._services.now(), self.started.at
        return now if started_at is None else max(now, started_at)

    def start(self, producer: Producer) -> None:
        self._task = self._loop.create_task(self.drive(producer), name=self.id)

    def cancel(self, terminal: TerminalEvent | None = None) -> None:
        """Stop the run. Has no effect when it was stopped before or has ended."""
        if self._requested_end is not None or not self._is_producing:
            return
        self._requested_end = terminal or RunCancelled()
        self.context.cancelled = True
        if self._sending and self._unsent_from is None:
            self._unsent_from = len(self.log)  # Makes the run's task check for this end after sending.
        self._cancel_task(_CANCEL_TRIES)

    def leave_code(self) -> None:
        """End a run that was stopped without waiting for its code any longer."""
        if self._requested_end is not None:
            self._cancel_task(0)

    def expire(self) -> None:
        """Stop the run because it exceeded its time limit."""
        error = RunTimeout(f"The run timed out after {self._limits.seconds:g} s.")
        self.cancel(self._failure_event(error))

    def note_disconnect(self) -> None:
        """Note that the client disconnected. Does not cancel the run."""
        if (tracer := self._services.tracer) is not None:
            tracer.on_disconnect(self)

    async def wait_ended(self) -> None:
        """Wait until the last event is recorded and sent to the consumer."""
        if not self.is_over:
            waiter = self._loop.create_future()
            self._end_waiters = (*self._end_waiters, waiter)
            await waiter

    async def wait_recorded(self) -> None:
        """Wait until the last event is recorded, even if the consumer has not received it yet."""
        async for _ in self.follow(len(self.log) - 1):
            pass

    @property
    def has_consumer(self) -> bool:
        """Whether a consumer is called from the run's task."""
        return self._consumer is not None

    async def follow(self, after: int = -1) -> AsyncGenerator[Sequence[Event]]:
        """Yield the events after seq `after`, in batches as they arrive, up to the last."""
        position = max(after + 1, 0)
        while True:
            if batch := self.log[position:]:
                position += len(batch)
                yield batch
            elif self.is_finished:
                return
            else:
                waiter = self._loop.create_future()
                self._waiters = [*self._waiters, waiter]
                try:
                    await waiter
                finally:
                    self._waiters = [other for other in self._waiters if other is not waiter]

    # The event log

    def _send(self, events: Sequence[Event]) -> Awaitable[None] | None:
        """Append events and send them, in the run's task. Returns an awaitable if sending has to wait."""
        self._append(events)
        if self._consumer is None:
            return None
        if self._unsent_from is not None:
            return self._send_unsent()
        self._sending = events
        sending = self._consumer(events)
        if sending is not None:
            return self._await_sending(sending)
        self._sending = ()
        return self._send_unsent() if self._unsent_from is not None else None

    async def _await_sending(self, sending: Awaitable[None]) -> None:
        await sending
        self._sending = ()
        if self._unsent_from is not None:
            await self._send_unsent()

    def _append(self, events: Sequence[Event]) -> None:
        self.log += events
        if not self.is_finished:  # The store has the last events already, and has released the run.
            self._record_first_output()
            if self._store.on_events is not None:
                self._store.on_events(self)
        if self._waiters:
            self._wake()

    def _record_first_output(self) -> None:
        """Set `first_output_at` at the first event after RunStarted."""
        if self.first_output_at is None and len(self.log) > 1:
            self.first_output_at = self.time()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _send_unsent(self) -> None:
        """Send, in the run's task, events that were added while it or another task was sending."""
        self._sending = _DEFERRED
        async with self._lock():
            await self._catch_up()
        self._sending = ()

    async def _flush(self) -> None:
        """Send, in a helper task, while the run's task is inside the workflow; otherwise that task sends the events."""
        async with self._lock():
            if not self._sending:
                await self._catch_up()

    def _lock(self) -> asyncio.Lock:
        if self._send_lock is None:
            self._send_lock = asyncio.Lock()
        return self._send_lock

    async def _catch_up(self) -> None:
        while self._unsent_from is not None and self._consumer is not None:
            if (batch := self.log[self._unsent_from :]) and (sending := self._consumer(batch)) is not None:
                await sending
            end = self._unsent_from + len(batch)
            self._unsent_from = end if end < len(self.log) else None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        _helper_tasks.add(task)
        task.add_done_callback(_helper_tasks.discard)
        return task

    # The run's task

    async def drive(self, producer: Producer) -> None:
        """Run the workflow to its end. The task that awaits this becomes the run's task."""
        self._task = asyncio.current_task(self._loop)
        detach_tracing = None if (tracer := self._services.tracer) is None else tracer.on_start(self)
        try:
            if (sending := self._send(self._grammar.start(self.started))) is not None:
                await sending
            if self._requested_end is None:
                values = producer(self.context)
                del producer  # It holds the arguments, which the workflow may have released.
                if isinstance(values, AsyncGeneratorType):
                    async with aclosing(values):
                        await self._consume(values)
                else:
                    await self._process_returned(await cast("Coroutine[Any, Any, object]", values))
                reader = self._reply_reader
                if self._requested_end is None and reader is not None and (remaining_values := reader.end()):
                    await self._feed(remaining_values)
            terminal = self._requested_end or self._terminal_event()
        except BaseException as error:  # Anything the author's code raises, SystemExit included, ends the run.
            terminal = self._terminal_event_after(error)
        if detach_tracing is not None:
            detach_tracing()
        await self._end(terminal)

    def _terminal_event_after(self, error: BaseException) -> TerminalEvent:
        if isinstance(error, StopReached):
            return self._requested_end or RunFinished()
        task = asyncio.current_task()
        assert task is not None
        was_cancelled = isinstance(error, asyncio.CancelledError) and task.cancelling() > 0
        while task.cancelling():
            task.uncancel()
        if self._requested_end is not None or was_cancelled:
            return self._requested_end or RunCancelled()
        return self._failure_event(error)

    def _failure_event(self, error: BaseException) -> RunFailed:
        disclosure, tracer = self._services.disclosure, self._services.tracer
        is_traced = tracer is not None and tracer.is_traced(self.call)
        trace_url = disclosure.trace_url(self.started.trace_id) if is_traced else ""
        debug, secrets = disclosure.shows_exceptions, self._secrets
        return failure_event(error, self, debug=debug, trace_url=trace_url, secrets=secrets)

    @property
    def _secrets(self) -> Sequence[str]:
        return [secret.reveal() for secret in self.call.secrets.values()]

    async def _consume(self, values: AsyncGenerator[object, None]) -> None:
        grammar, entries, consumer = self._grammar, self.log, self._consumer
        text = grammar.text if self.is_chat else None
        on_events, max_events, max_bytes = self._store.on_events, self._limits.events, self._limits.bytes
        remaining = min(_YIELD_EVERY, max_events - len(entries))
        is_silent = self.first_output_at is None
        async for value in values:
            if self._requested_end is not None:
                return  # The code ignored its cancellation.
            if text is None or type(value) is not str:
                await self._process_value(value)
                if self._requested_end is not None:
                    return
                remaining = min(remaining, max_events - len(entries))
            elif events := text(value):
                entries += events
                if is_silent:
                    is_silent = False
                    self._record_first_output()
                if on_events is not None:
                    on_events(self)
                if self._waiters:
                    self._wake()
                if consumer is not None:
                    if self._unsent_from is None:
                        self._sending = events
                        if (sending := consumer(events)) is not None:
                            await sending  # Backpressure: the workflow proceeds at the consumer's pace.
                        self._sending = ()
                    if self._unsent_from is not None:
                        await self._send_unsent()
                        if self._requested_end is not None:
                            return
            remaining -= 1
            if remaining <= 0 or grammar.size > max_bytes:
                remaining = await self._yield_to_loop()

    async def _process_returned(self, value: object) -> None:
        if self._requested_end is not None:
            return
        if not self.is_chat or type(value) is not str:
            await self._process_value(Returned(value))
            return
        self._check_limits()  # For what was emitted before.
        if (events := self._grammar.text(value)) and (sending := self._send(events)) is not None:
            await sending

    async def _process_value(self, value: object) -> None:
        """Process a value other than plain text of a chat: an iterable of values, or one for the reply reader."""
        nested_values = iterate_output(value, self.context)
        if nested_values is not None:
            async with aclosing(nested_values) as values:
                await self._consume(values)
            return
        await self._feed(self._get_reply_reader().feed(value))

    def _get_reply_reader(self) -> ReplyReader:
        if self._reply_reader is None:
            self._reply_reader = ReplyReader(is_chat=self.is_chat, history=self.call.messages)
        return self._reply_reader

    async def _feed(self, items: Iterable[OutputValue]) -> None:
        for item in items:
            if (events := self._feed_grammar(item)) and (sending := self._send(events)) is not None:
                await sending
            self._check_limits()
            if self._requested_end is not None:
                return

    def _feed_grammar(self, item: OutputValue) -> Sequence[Event]:
        events, tracer = self._grammar.feed(item), self._services.tracer
        if tracer is not None and events and (len(events) > 1 or type(events[0]) in TOOL_EVENTS):
            tracer.note_tools(self, events)  # Never for a delta, which comes alone.
        return events

    async def _yield_to_loop(self) -> int:
        """Check the limits and let other tasks run; returns the number of values until the next call."""
        self._check_limits()
        await asyncio.sleep(0)
        return min(_YIELD_EVERY, self._limits.events - len(self.log))

    def _check_limits(self) -> None:
        self._limits.check(events=len(self.log), size=self._grammar.size)

    # The end

    def _terminal_event(self) -> TerminalEvent:
        """Return the terminal event of a workflow whose code returned."""
        terminal = self._grammar.ending
        if terminal is None and self.is_chat:
            return RunFinished(finish=self.context.ending)
        terminal = terminal or RunFinished(finish=self.context.ending)
        if isinstance(terminal, RunFailed):
            return sanitize_failure(terminal, self._secrets)
        if isinstance(terminal, RunCancelled):
            return terminal
        value = self._get_reply_reader().value(terminal.value)
        if value is UNSET:
            return terminal if terminal.value is UNSET else msgspec.structs.replace(terminal, value=UNSET)
        self._limits.check_value(len(json.encode(value)))
        return msgspec.structs.replace(terminal, value=value)

    async def _end(self, terminal: TerminalEvent) -> None:
        """Close the stream, once: the end is recorded first, then readers see it."""
        if not self._is_producing:
            return
        self._is_producing = False
        if not isinstance(terminal, RunFinished):
            self.context.cancelled = True  # Sync code may still be running.
        if self._sending and self._sending is not _DEFERRED:
            self._unsent_from = self._sending[0].seq  # Sending was interrupted: send the batch again.
        self._sending = ()
        try:
            last = self._grammar.end(terminal, at=self.time())
            if (text_format := required_format(self.call.options)) is not None:
                last = await self._check_format(last, text_format)
            await self._close(last)
        finally:
            self.is_over = True
            for waiter in self._end_waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if self._reply_reader is not None:
                self.warnings = self._reply_reader.warnings
            self._services.on_end(self)
            # Others may hold the run for a while: release the connection and the state machines, and break the
            # reference cycles, which only the garbage collector could free.
            self._consumer = None
            self.context.close()
            del self._grammar, self._reply_reader

    async def _check_format(self, last: Sequence[Event], text_format: TextFormat) -> Sequence[Event]:
        """Return the last events; with a failure as terminal event if the reply does not have the required format."""
        mismatch = await asyncio.to_thread(find_format_mismatch, [*self.log, *last], text_format)
        if mismatch is None:
            return last
        *earlier_events, terminal = last
        assert isinstance(terminal, RunFinished)
        message = f"The reply does not match the required format: {mismatch}."
        failure = RunFailed(terminal.seq, FormatMismatch.code, message, usage=terminal.usage, at=terminal.at)
        return [*earlier_events, sanitize_failure(failure, self._secrets)]

    async def _close(self, last: Sequence[Event]) -> None:
        try:
            await self._store.record_end(self, last)  # Durable first, then visible to readers.
        except RunHandedOver:
            last = ()
        except Exception as error:  # Readers must not wait for a store that is gone.
            last = unrecorded_end(error, self, last)
            self._store.record_later(self, last)
        if self._unsent_from is not None:
            await asyncio.wait([self._spawn(self._flush())], timeout=_CANCEL_RETRY_S)
        self.is_finished = True
        if (sending := self._send(last)) is not None:
            await sending

    def _cancel_task(self, tries: int) -> None:
        """Cancel the task, again if its code ignores it; after the last try, end the run without it."""
        if not self._is_producing:
            return
        is_busy = bool(self._sending) or not self.log  # Only the workflow's code is cancelled, not sending or starting.
        if tries == 0 and not is_busy:
            assert self._requested_end is not None
            log.warning("The workflow %s is still running after its run was stopped (run %s).", self.name, self.id)
            self._spawn(self._end(self._requested_end))
            return
        if self._task is not None and (tries == 0 or not is_busy):
            self._task.cancel()
        self._loop.call_later(_CANCEL_RETRY_S, self._cancel_task, max(tries - 1, 0))

    # Calls from the workflow's context

    def _fetch(self, part: File) -> Any:
        """Implement `ctx.fetch(…)`: an awaitable on the event loop, the bytes in any other thread."""
        fetching = self._services.fetch(self.origin.project, part)
        if is_running_loop(self._loop):
            return fetching
        return asyncio.run_coroutine_threadsafe(fetching, self._loop).result()

    def _emit(self, value: object) -> None:
        """Implement `ctx.emit(…)`, from the event loop or any thread."""
        if is_running_loop(self._loop):
            self._emit_now(value)
            return
        result: Future[None] = Future()

        def emit() -> None:
            try:
                self._emit_now(value)
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(None)

        self._loop.call_soon_threadsafe(emit)
        result.result()

    def _emit_now(self, value: object) -> None:
        if not self._is_producing:
            raise RuntimeError("ctx.emit() called after the run has ended")
        self._check_limits()
        if self._consumer is not None and self._unsent_from is None:
            self._unsent_from = len(self.log)
            if not self._sending:
                # The run's task is inside the workflow and cannot send; it awaits this task before it sends again.
                self._spawn(self._flush())
        try:
            for item in self._get_reply_reader().feed_emitted(value):
                self._append(self._feed_grammar(item))
        except StopReached:
            self.cancel(RunFinished())
        self._check_limits()
