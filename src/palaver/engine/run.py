"""One run: a task that drives the workflow, a log of its events, and those who read it.

The stages between workflow and reader (reply grammar, event grammar, encoders) are sync machines. The reader that started
the run is awaited in the run's own task, so that the workflow goes at the reader's pace; other readers follow the log and
are never waited for.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime

import msgspec

from palaver.core.calls import Call
from palaver.core.events import Event, RunCancelled, RunFailed, RunFinished, RunStarted, Terminal
from palaver.core.grammar import Grammar
from palaver.engine.store import Store
from palaver.errors import Failure, PalaverError, RunTimeout, TooManyEvents, TooMuchOutput
from palaver.workflows.context import Context
from palaver.workflows.options import OnDisconnect
from palaver.workflows.produce import unfold
from palaver.workflows.replies import Replies
from palaver.workflows.threads import Threads
from palaver.workflows.workflow import Producer, Workflow

Attend = Callable[[Sequence[Event]], Awaitable[None]]
"""The reader that started the run. It never raises: on error it stops listening, and the run goes on or is cancelled."""

log = logging.getLogger("palaver.run")


class Bounds(msgspec.Struct, frozen=True):
    """How far a run may go."""

    seconds: float = 600
    events: int = 200_000
    bytes: int = 64 * 1024 * 1024


class Run:
    """One call of one workflow, alive or just ended."""

    def __init__(
        self,
        *,
        run_id: str,
        workflow: Workflow,
        call: Call,
        started: RunStarted,
        bounds: Bounds,
        store: Store,
        threads: Threads,
        now: Callable[[], datetime],
        attend: Attend | None,
        debug: bool,
    ) -> None:
        self.id = run_id
        self.call = call
        self.name = workflow.description.name
        self.session = started.session
        self.started = started
        self.on_disconnect: OnDisconnect | None = workflow.options.on_disconnect
        self.log: list[Event] = []
        self.finished = False
        self.context = Context(
            run_id=run_id,
            session=started.session,
            call=call,
            flags=workflow.description.flags,
            emit=self._emit,
            threads=threads,
        )
        self._is_chat = workflow.description.is_chat
        self._grammar = Grammar(run_id, history=call.messages)
        self._replies = Replies(is_chat=self._is_chat, history=call.messages)
        self._bounds = bounds
        self._store = store
        self._now = now
        self._attend = attend
        self._debug = debug
        self._task: asyncio.Task[None] | None = None
        self._producing = False
        self._ordered: Terminal | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._unsent: list[Event] = []
        self._flusher: asyncio.Task[None] | None = None
        self._thread = threading.get_ident()

    # What others may ask of it

    @property
    def warnings(self) -> Sequence[str]:
        """What was repaired or left out of what the workflow gave."""
        return self._replies.warnings

    def begin(self, producer: Producer, *, ended: Callable[["Run"], None]) -> None:
        """Start the run's task; `ended` is told when it is over."""
        self._task = asyncio.create_task(self._drive(producer), name=self.id)
        self._task.add_done_callback(lambda _: ended(self))

    def cancel(self, terminal: Terminal | None = None) -> None:
        """Stop the run; stopping it twice, or when it has ended, is not an error."""
        if self._ordered is not None or self.finished:
            return
        self._ordered = terminal or RunCancelled()
        self.context.cancelled = True
        self._insist(tries=10)

    async def ended(self) -> None:
        """Wait until its last event is recorded and told to the reader that started it."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def follow(self, after: int = -1) -> AsyncIterator[Sequence[Event]]:
        """Every event after that `seq`, in batches as they come, until the last. Any number may follow."""
        at = after + 1
        while True:
            if batch := self.log[at:]:
                at += len(batch)
                yield batch
            elif self.finished:
                return
            else:
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter

    # Its task

    async def _drive(self, producer: Producer) -> None:
        self._producing = True
        terminal = await self._produced(producer)
        self._producing = False
        last = self._grammar.end(msgspec.structs.replace(terminal, at=self._now()))
        await self._store.closed(self, last)  # Durable first; then readers see it.
        self.finished = True
        await self._say(last)

    async def _produced(self, producer: Producer) -> Terminal:
        """Everything that the workflow gives, and how it ended."""
        deadline = asyncio.timeout(self._bounds.seconds)
        try:
            async with deadline:
                await self._say(self._grammar.start(self.started))
                if self._ordered is None:
                    async with aclosing(producer(self.context)) as values:
                        await self._consume(values)
            if self._ordered is not None:
                return self._ordered
            return self._grammar.ending or RunFinished(finish=self.context.ending, value=self._replies.value())
        except asyncio.CancelledError:
            if task := asyncio.current_task():
                task.uncancel()
            return self._ordered or RunCancelled()
        except TimeoutError as error:
            if not deadline.expired():
                return self._failed(error)
            self.context.cancelled = True
            return self._failed(RunTimeout(f"The run took longer than {self._bounds.seconds:g} seconds."))
        except Exception as error:  # noqa: BLE001 - whatever an author's code raises becomes the run's end
            return self._failed(error)

    async def _consume(self, values: AsyncGenerator[object, None]) -> None:
        grammar, entries, attend = self._grammar, self.log, self._attend
        text = grammar.text if self._is_chat else None
        grew, most_events, most_bytes = self._store.grew, self._bounds.events, self._bounds.bytes
        async for value in values:
            if text is None or type(value) is not str:
                await self._take(value)
            elif events := text(value):
                entries += events
                grew(self)
                if self._waiters:
                    self._wake()
                if self._flusher is not None:
                    await self._flushed()
                if attend is not None:
                    await attend(events)  # The reader's pace is the workflow's pace.
            if len(entries) > most_events or grammar.size > most_bytes:
                self._check_bounds()
            if self._ordered is not None:
                return  # It was told to stop and went on.

    async def _take(self, value: object) -> None:
        """Any value but a chat's text: one that gives values in turn, or one for the reply grammar."""
        inner = unfold(value, self.context)
        if inner is not None:
            async with aclosing(inner) as values:
                await self._consume(values)
            return
        for given in self._replies.feed(value):
            await self._say(self._grammar.feed(given))

    async def _say(self, events: Sequence[Event]) -> None:
        self._put(events)
        if self._flusher is not None:
            await self._flushed()
        if self._attend is not None and events:
            await self._attend(events)

    def _put(self, events: Sequence[Event]) -> None:
        self.log += events
        self._store.grew(self)
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _check_bounds(self) -> None:
        if len(self.log) > self._bounds.events:
            raise TooManyEvents(f"The run gave more than {self._bounds.events} events.")
        if self._grammar.size > self._bounds.bytes:
            raise TooMuchOutput(f"The run said more than {self._bounds.bytes} bytes.")

    def _insist(self, *, tries: int) -> None:
        """Cancel the task, again if its code will not listen."""
        if not self._producing or self._task is None or self.finished or tries == 0:
            return
        self._task.cancel()
        asyncio.get_running_loop().call_later(1, lambda: self._insist(tries=tries - 1))

    def _failed(self, error: Exception) -> RunFailed:
        if isinstance(error, PalaverError):
            status = error.status if isinstance(error, Failure) else None
            return RunFailed(code=error.code, message=error.message, status=status, details=error.details)
        log.error("The workflow %s failed (run %s).", self.name, self.id, exc_info=error)
        message = f"The workflow failed (run {self.id})."
        if self._debug:
            message = f"{message} {type(error).__name__}: {error}"
        return RunFailed(code="workflow_failed", message=message)

    # What the workflow says between its yields

    def _emit(self, said: object) -> None:
        """Take what `ctx.emit(…)` said, at once, from the loop or from any thread."""
        if threading.get_ident() == self._thread:
            self._emit_now(said)
        else:
            loop = self._waiting_loop()
            asyncio.run_coroutine_threadsafe(self._emit_later(said), loop).result()

    def _waiting_loop(self) -> asyncio.AbstractEventLoop:
        assert self._task is not None
        return self._task.get_loop()

    async def _emit_later(self, said: object) -> None:
        self._emit_now(said)

    def _emit_now(self, said: object) -> None:
        if self.finished or not self._producing:
            raise RuntimeError("ctx.emit() after the run has ended")
        for given in self._replies.emitted(said):
            events = self._grammar.feed(given)
            self._put(events)
            self._check_bounds()
            if self._attend is not None and events:
                self._unsent += events
        if self._unsent and self._flusher is None:
            # The run's task is inside the workflow and cannot send; it waits for this one before it sends again.
            self._flusher = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        assert self._attend is not None
        while self._unsent:
            batch, self._unsent = self._unsent, []
            await self._attend(batch)
        self._flusher = None

    async def _flushed(self) -> None:
        while self._flusher is not None:
            await asyncio.shield(self._flusher)
