"""One run: the task that drives a workflow, its event log and its readers."""

import asyncio
import logging
from abc import ABC, abstractmethod
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
from palaver.core.grammar import Grammar, OutputValue
from palaver.core.messages import File
from palaver.core.runs import Call, Origin
from palaver.engine.failures import failure_event, sanitize_failure, unrecorded_end
from palaver.engine.files import FileFetch
from palaver.engine.limits import RunLimits
from palaver.engine.store import RunHandedOver, RunStore
from palaver.engine.tracing import RunTracer
from palaver.errors import RunTimeout
from palaver.workflows.context import Context
from palaver.workflows.execution import Returned, iterate_output
from palaver.workflows.options import OnDisconnect
from palaver.workflows.replies import ReplyReader
from palaver.workflows.thread_pool import ThreadPool, is_running_loop
from palaver.workflows.workflow import Producer, Workflow

EventConsumer = Callable[[Sequence[Event]], Awaitable[None] | None]
"""The reader that started the run, told everything in order, one call at a time. What it gives back is awaited: the
run goes at its pace. It never raises: on error it stops listening, and the run goes on or is cancelled."""

DEFERRED = (RunStarted(),)
"""Stands for a batch whose place is kept elsewhere."""

_helper_tasks: set[asyncio.Task[None]] = set()  # Of all runs: a list for each would be empty nearly always.


class Log(ABC):
    """Events in order, and the telling of them. The part of a Run that knows nothing of workflows."""

    id: str
    name: str
    call: Call
    origin: Origin
    started: RunStarted

    def __init__(self, store: RunStore, attend: EventConsumer | None) -> None:
        self.log: list[Event] = []
        self.finished = False
        self.first_output_at: datetime | None = None
        """When it first said something."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiters: Sequence[asyncio.Future[None]] = ()
        # What the first reader is being told by the run's own task, and from where on nobody has told it yet.
        self._attend: EventConsumer | None = attend
        self._sending: Sequence[Event] = ()
        self._untold: int | None = None
        self._turn: asyncio.Lock | None = None  # Made by the first who needs it.

    @property
    def has_consumer(self) -> bool:
        """Is there a reader that started it, and is told in its own task?"""
        return self._attend is not None

    async def wait_recorded(self) -> None:
        """Wait until its last event is recorded, whoever is still being told."""
        async for _ in self.follow(len(self.log) - 1):
            pass

    async def follow(self, after: int = -1) -> AsyncGenerator[Sequence[Event]]:
        """Every event after that `seq`, in batches as they come, until the last. Any number may follow."""
        at = max(after + 1, 0)
        while True:
            if batch := self.log[at:]:
                at += len(batch)
                yield batch
            elif self.finished:
                return
            else:
                waiter = self._loop.create_future()
                self._waiters = [*self._waiters, waiter]
                try:
                    await waiter
                finally:
                    self._waiters = [other for other in self._waiters if other is not waiter]

    def _tell(self, events: Sequence[Event]) -> Awaitable[None] | None:
        """Note events and tell them, in the run's own task; gives back what is to be waited for, if anything."""
        self._put(events)
        if self._attend is None:
            return None
        if self._untold is not None:
            return self._look_up()
        self._sending = events
        sending = self._attend(events)
        if sending is not None:
            return self._told(sending)
        self._sending = ()
        return self._look_up() if self._untold is not None else None

    async def _told(self, sending: Awaitable[None]) -> None:
        await sending
        self._sending = ()
        if self._untold is not None:
            await self._look_up()

    def _put(self, events: Sequence[Event]) -> None:
        self.log += events
        if not self.finished:  # Its last events are in the store already, which has let go of it.
            self._note_output()
            if self._store.on_events is not None:
                self._store.on_events(self)
        if self._waiters:
            self._wake()

    def _note_output(self) -> None:
        """Note the time, if what was put first is more than that it started."""
        if self.first_output_at is None and len(self.log) > 1:
            self.first_output_at = self.time()

    @abstractmethod
    def time(self) -> datetime:
        """Now, by the run's own clock."""

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _look_up(self) -> None:
        """In the run's own task: something happened while it was sending, or another task is sending."""
        self._sending = DEFERRED
        async with self._lock():
            await self._catch_up()
        self._sending = ()

    async def _flush(self) -> None:
        """In a task of its own, while the run's is inside the workflow; when it is not, it will look up itself."""
        async with self._lock():
            if not self._sending:
                await self._catch_up()

    def _lock(self) -> asyncio.Lock:
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    async def _catch_up(self) -> None:
        """Tell the first reader, in order, what nobody has told it yet."""
        while self._untold is not None and self._attend is not None:
            if (batch := self.log[self._untold :]) and (sending := self._attend(batch)) is not None:
                await sending
            told = self._untold + len(batch)
            self._untold = told if told < len(self.log) else None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        _helper_tasks.add(task)  # The loop itself holds tasks weakly.
        task.add_done_callback(_helper_tasks.discard)
        return task


log = logging.getLogger("palaver.run")

_YIELD_EVERY = 500  # Values after which a workflow that never waits lets others run.
_CANCEL_RETRY_S = 1.0  # Seconds until code that was cancelled and goes on is cancelled again.
_CANCEL_TRIES = 3  # How often; then the run ends without it.


class RunServices(NamedTuple):
    """What all runs of an engine share."""

    store: RunStore
    threads: ThreadPool
    now: Callable[[], datetime]
    debug: bool
    ended: Callable[["Run"], None]
    """Told when a run is over."""
    fetch: FileFetch
    tracing: RunTracer | None = None


class Run(Log):
    """One call of one workflow, alive or just ended.

    It has fewer than thirty attributes: with one more, CPython would give each run a dictionary of 1.5 KiB.
    """

    def __init__(
        self,
        house: RunServices,
        workflow: Workflow,
        call: Call,
        origin: Origin,
        started: RunStarted,
        bounds: RunLimits,
        attend: EventConsumer | None,
    ) -> None:
        super().__init__(house.store, attend)
        description = workflow.description
        self.id = started.run_id
        self.call = call
        self.origin = origin
        self.name = description.name
        self.started = started
        self.on_disconnect: OnDisconnect | None = workflow.options.on_disconnect
        self.context = Context(started, call, description.flags, self._emit, house.threads, self._fetch)
        self.warnings: Sequence[str] = ()
        """What was repaired or left out of what the workflow gave; told when it has ended."""
        self.is_chat = description.is_chat
        self._grammar = Grammar(started.run_id, history=call.messages)
        self._replies: ReplyReader | None = (
            None  # Made by the first value that is not just a text: most chats give none.
        )
        self._bounds = bounds
        self._house = house
        self._task: asyncio.Task[Any] | None = None
        self.expires_at = self._loop.time() + bounds.seconds
        self._producing = True
        self._ordered: TerminalEvent | None = None
        self._awaited: Sequence[asyncio.Future[None]] = ()  # By those who wait for the end.
        self.is_over = False
        """Has everything been recorded and told?"""

    # What others may ask of it

    def time(self) -> datetime:
        """Now: by a clock that may have been set back since it started, and nothing in it was before that."""
        now, started_at = self._house.now(), self.started.at
        return now if started_at is None else max(now, started_at)

    def start(self, producer: Producer) -> None:
        """Start the run in a task of its own."""
        self._task = self._loop.create_task(self.drive(producer), name=self.id)

    def cancel(self, terminal: TerminalEvent | None = None) -> None:
        """Stop the run; stopping it twice, or when it has ended, is not an error."""
        if self._ordered is not None or not self._producing:
            return
        self._ordered = terminal or RunCancelled()
        self.context.cancelled = True
        if self._sending and self._untold is None:
            self._untold = len(self.log)  # So that the run's task looks up when it has sent.
        self._insist(_CANCEL_TRIES)

    def note_disconnect(self) -> None:
        """Whoever asked has gone away without waiting for the end; whether it ends for that is said otherwise."""
        if (tracing := self._house.tracing) is not None:
            tracing.on_disconnect(self)

    async def wait_ended(self) -> None:
        """Wait until its last event is recorded and told to the reader that started it."""
        if not self.is_over:
            end = self._loop.create_future()
            self._awaited = (*self._awaited, end)
            await end

    # Its task

    async def drive(self, producer: Producer) -> None:
        """Everything that the workflow gives, and then its end. The task that runs this is the run's own."""
        self._task = asyncio.current_task(self._loop)
        leave = None if (tracing := self._house.tracing) is None else tracing.on_start(self)
        try:
            if (telling := self._tell(self._grammar.start(self.started))) is not None:
                await telling
            if self._ordered is None:
                values = producer(self.context)
                del producer  # It holds the arguments, which the workflow may have let go of.
                if isinstance(values, AsyncGeneratorType):
                    async with aclosing(values):
                        await self._consume(values)
                else:
                    await self._take_last(await cast("Coroutine[Any, Any, object]", values))
                if self._ordered is None and self._replies is not None and (more := self._replies.end()):
                    await self._feed(more)
            terminal = self._ordered or self._ending()
        except BaseException as error:  # Whatever an author's code raises, sys.exit included, becomes the run's end.
            terminal = self._broken_off(error)
        if leave is not None:
            leave()
        await self._end(terminal)

    def _broken_off(self, error: BaseException) -> TerminalEvent:
        task = asyncio.current_task()
        assert task is not None
        stopped = isinstance(error, asyncio.CancelledError) and task.cancelling() > 0
        while task.cancelling():
            task.uncancel()
        if self._ordered is not None or stopped:
            return self._ordered or RunCancelled()
        return failure_event(error, self, debug=self._house.debug, known=self._secrets)

    @property
    def _secrets(self) -> Sequence[str]:
        """What the caller gave to this run alone."""
        return [secret.reveal() for secret in self.call.secrets.values()]

    async def _consume(self, values: AsyncGenerator[object, None]) -> None:
        grammar, entries, attend = self._grammar, self.log, self._attend
        text = grammar.text if self.is_chat else None
        grew, most_events, most_bytes = self._store.on_events, self._bounds.events, self._bounds.bytes
        left = min(_YIELD_EVERY, most_events - len(entries))
        is_silent = self.first_output_at is None
        async for value in values:
            if self._ordered is not None:
                return  # It was told to stop and went on.
            if text is None or type(value) is not str:
                await self._take(value)
                if self._ordered is not None:
                    return
                left = min(left, most_events - len(entries))
            elif events := text(value):
                entries += events
                if is_silent:
                    is_silent = False
                    self._note_output()
                if grew is not None:
                    grew(self)
                if self._waiters:
                    self._wake()
                if attend is not None:
                    if self._untold is None:
                        self._sending = events
                        if (sending := attend(events)) is not None:
                            await sending  # The reader's pace is the workflow's pace.
                        self._sending = ()
                    if self._untold is not None:
                        await self._look_up()
                        if self._ordered is not None:
                            return
            left -= 1
            if left <= 0 or grammar.size > most_bytes:
                left = await self._breathe()

    async def _take_last(self, value: object) -> None:
        """What a coroutine returned."""
        if self._ordered is not None:
            return
        if not self.is_chat or type(value) is not str:
            await self._take(Returned(value))
            return
        self._check_bounds()  # What it emitted before.
        if (events := self._grammar.text(value)) and (telling := self._tell(events)) is not None:
            await telling

    async def _take(self, value: object) -> None:
        """Any value but a chat's text: one that gives values in turn, or one for the reply grammar."""
        inner = iterate_output(value, self.context)
        if inner is not None:
            async with aclosing(inner) as values:
                await self._consume(values)
            return
        await self._feed(self._reading().feed(value))

    def _reading(self) -> ReplyReader:
        """The reply grammar."""
        if self._replies is None:
            self._replies = ReplyReader(is_chat=self.is_chat, history=self.call.messages)
        return self._replies

    async def _feed(self, said: Iterable[OutputValue]) -> None:
        for given in said:
            if (events := self._fed(given)) and (telling := self._tell(events)) is not None:
                await telling
            self._check_bounds()
            if self._ordered is not None:
                return

    def _fed(self, given: OutputValue) -> Sequence[Event]:
        events, tracing = self._grammar.feed(given), self._house.tracing
        if tracing is not None and events and (len(events) > 1 or type(events[0]) in TOOL_EVENTS):
            tracing.note_tools(self, events)  # Never of a delta: it comes alone.
        return events

    async def _breathe(self) -> int:
        """Check the limits and let others run; how many values until the next time."""
        self._check_bounds()
        await asyncio.sleep(0)
        return min(_YIELD_EVERY, self._bounds.events - len(self.log))

    def _check_bounds(self) -> None:
        self._bounds.check(events=len(self.log), size=self._grammar.size)

    # Its end

    def _ending(self) -> TerminalEvent:
        """How it ended, when the workflow's code came to its end."""
        ending = self._grammar.ending
        if ending is None and self.is_chat:
            return RunFinished(finish=self.context.ending)
        ending = ending or RunFinished(finish=self.context.ending)
        if isinstance(ending, RunFailed):
            return sanitize_failure(ending, self._secrets)
        if isinstance(ending, RunCancelled):
            return ending
        value = self._reading().value(ending.value)
        if value is UNSET:
            return ending if ending.value is UNSET else msgspec.structs.replace(ending, value=UNSET)
        self._bounds.check_value(len(json.encode(value)))
        return msgspec.structs.replace(ending, value=value)

    async def _end(self, terminal: TerminalEvent) -> None:
        """Close the stream, once: what happened is kept first; then readers see the last of it."""
        if not self._producing:
            return
        self._producing = False
        if not isinstance(terminal, RunFinished):
            self.context.cancelled = True  # Sync code may still be running.
        if self._sending and self._sending is not DEFERRED:
            self._untold = self._sending[0].seq  # Sending was interrupted: it is told again.
        self._sending = ()
        try:
            last = self._grammar.end(terminal, at=self.time())
            await self._close(last)
        finally:
            self.is_over = True
            for waiter in self._awaited:
                if not waiter.done():
                    waiter.set_result(None)
            if self._replies is not None:
                self.warnings = self._replies.warnings
            self._house.ended(self)
            # We may be remembered for a while; the reader's connection and the machines need not be. And nothing may
            # lead from us back to us, or only the collector could let us go.
            self._attend = None
            self.context.close()
            del self._grammar, self._replies

    async def _close(self, last: Sequence[Event]) -> None:
        try:
            await self._store.record_end(self, last)  # Durable first; then readers see it.
        except RunHandedOver:
            last = ()
        except Exception as error:  # A store that is gone must not leave readers waiting.
            last = unrecorded_end(error, self, last)
            self._store.record_later(self, last)
        if self._untold is not None:
            await asyncio.wait([self._spawn(self._flush())], timeout=_CANCEL_RETRY_S)
        self.finished = True
        if (telling := self._tell(last)) is not None:
            await telling

    def expire(self) -> None:
        """Its time is up."""
        error = RunTimeout(f"The run took longer than {self._bounds.seconds:g} seconds.")
        self.cancel(failure_event(error, self, debug=self._house.debug))

    def _insist(self, tries: int) -> None:
        """Cancel the task, again if its code will not listen; in the end, end the run without it."""
        if not self._producing:
            return
        busy = self._sending or not self.log  # A cancellation is for the workflow's code, not for sending or starting.
        if tries == 0 and not busy:
            assert self._ordered is not None
            log.warning("The workflow %s goes on although its run was stopped (run %s).", self.name, self.id)
            self._spawn(self._end(self._ordered))
            return
        if self._task is not None and (tries == 0 or not busy):
            self._task.cancel()
        self._loop.call_later(_CANCEL_RETRY_S, self._insist, max(tries - 1, 0))

    # What the workflow asks for, and says between its yields

    def _fetch(self, part: File) -> Any:
        """What `ctx.fetch(…)` gives: on the loop what is to be awaited, in any other thread the bytes."""
        fetching = self._house.fetch(self.origin.project, part)
        if is_running_loop(self._loop):
            return fetching
        return asyncio.run_coroutine_threadsafe(fetching, self._loop).result()

    def _emit(self, said: object) -> None:
        """Take what `ctx.emit(…)` said, at once, from the loop or from any thread."""
        if is_running_loop(self._loop):
            self._emit_now(said)
            return
        taken: Future[None] = Future()

        def take() -> None:
            try:
                self._emit_now(said)
            except Exception as error:
                taken.set_exception(error)
            else:
                taken.set_result(None)

        self._loop.call_soon_threadsafe(take)
        taken.result()

    def _emit_now(self, said: object) -> None:
        if not self._producing:
            raise RuntimeError("ctx.emit() after the run has ended")
        self._check_bounds()
        if self._attend is not None and self._untold is None:
            self._untold = len(self.log)
            if not self._sending:
                # The run's task is inside the workflow and cannot send; it waits for this one before it sends again.
                self._spawn(self._flush())
        for given in self._reading().emitted(said):
            self._put(self._fed(given))
        self._check_bounds()
