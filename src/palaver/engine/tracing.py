"""Traces of runs: their spans are made when they are over, beside everything else, and handed to whoever keeps them.

While a run goes on nothing is done but to note when its tools were called and answered; nothing at all for a delta.
What its spans say is read from its log in a thread of our own, many runs at once. A run never waits for that: where too
much waits, spans are dropped and counted.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Token
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from palaver.core import steps
from palaver.core.calls import Record
from palaver.core.events import TERMINAL, TOOLS, Event, RunCancelled
from palaver.engine.steps import Hearing, hearing_of
from palaver.engine.store import Kept
from palaver.frameworks import telling
from palaver.traces import otel
from palaver.traces.facts import Facts, kept_of
from palaver.traces.otel import Place, Work
from palaver.traces.owner import Owner
from palaver.traces.record import Span
from palaver.workflows.threads import is_running

log = logging.getLogger("palaver.traces")

Clean = Callable[[str, str], Callable[[Span], Span] | None]
"""What the author of a workflow wants removed from its spans, by project and workflow; None: nothing."""
Sink = Callable[[Sequence[Span]], None]
"""Takes spans, on the loop, and never waits."""

DELAY = 0.1
"""Seconds that a run that is over waits for others."""
MOST = 10_000
"""Pieces of work that wait at most,"""
MOST_EVENTS = 1_000_000
"""and events that they hold."""
_LOT = 200
"""Pieces of work after which what was made of them is handed on."""
_BREATH, _TURN = 1e-5, 2e-4
"""Seconds that the thread sleeps after so many of work: without sleep it would have the interpreter back at once."""


class Traced(Kept, Protocol):
    """What is asked of a run."""

    @property
    def is_chat(self) -> bool:
        """Does its workflow answer with messages?"""
        ...

    def time(self) -> datetime:
        """Now, by the run's own clock."""
        ...


class Tracing:
    """Traces the runs of one engine. Everything but the work in its thread happens on one loop."""

    def __init__(
        self,
        sink: Sink,
        *,
        content: Record = "full",
        clean: Clean | None = None,
        delay: float = DELAY,
        most: int = MOST,
        most_events: int = MOST_EVENTS,
    ) -> None:
        self._sink = sink
        self._content: Record = content
        self._clean = clean
        self._delay = delay
        self._most = most
        self._most_events = most_events
        self._times: dict[str, dict[int, datetime]] = {}  # Of the runs that called tools.
        self._places: dict[str, Place] = {}  # Of all, where there is OpenTelemetry.
        self._hearings: dict[str, Hearing] = {}  # Of all that are recorded.
        self._left: dict[str, datetime] = {}  # When those who had asked went away.
        self._waiting: list[Work] = []
        self._held = 0  # Events that they hold.
        self._timer: asyncio.TimerHandle | None = None
        self._working: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self.dropped = 0
        """Runs, and spans below them, of which nothing was kept."""

    # What a run tells

    def began(self, run: Traced) -> Callable[[], None] | None:
        """The run's own task begins: until that is called its steps are heard, and OpenTelemetry has it for current."""
        call, started = run.call, run.started
        record, loaded = kept_of(call, self._content), otel.is_loaded()
        if record == "off" and not loaded:
            return None
        loop, place, heard = asyncio.get_running_loop(), None, None
        put = partial(self._from_anywhere, loop, run.origin.project, run.name)
        if record != "off":
            if loaded:
                known = [secret.reveal() for secret in call.secrets.values()]
                place = Place(Owner(run.origin.project, started.session, run.id, record, known), put)
                self._places[run.id] = place
            telling.listen()
            hearing = self._hearings[run.id] = hearing_of(run, record, put, run.time, place)
            heard = steps.listened_by(hearing)
        token = otel.entered(started.trace_id, started.span_id, place) if loaded else None
        return partial(_left, heard, token)

    def noted(self, run: Traced, events: Sequence[Event]) -> None:
        """Note when this was said, as far as it is about tools."""
        numbers = [event.seq for event in events if type(event) in TOOLS]
        if numbers and kept_of(run.call, self._content) != "off":
            at = run.time()
            self._times.setdefault(run.id, {}).update(dict.fromkeys(numbers, at))

    def left(self, run: Traced) -> None:
        """Whoever asked has gone away, and the run was not over."""
        if run.id in self._hearings:
            self._left[run.id] = run.time()

    def ended(self, run: Traced) -> None:
        """The run is over, and has told its last event."""
        times, place = self._times.pop(run.id, {}), self._places.pop(run.id, None)
        left_at = self._left.pop(run.id, None)
        last, hearing = run.log[-1] if run.log else None, self._hearings.pop(run.id, None)
        if hearing is not None:
            hearing.close("cancelled" if isinstance(last, RunCancelled) else "interrupted")
        if kept_of(run.call, self._content) == "off" or not isinstance(last, TERMINAL):
            return  # Without an end, it is begun anew elsewhere.
        facts = Facts(
            workflow=run.name,
            is_chat=run.is_chat,
            call=run.call,
            origin=run.origin,
            events=run.log,
            ended_at=last.at or run.time(),
            first_output_at=run.first_output_at,
            left_at=left_at,
            times=times,
            told=[*(() if place is None else place.tools), *(() if hearing is None else hearing.tools)],
            is_cut=hearing is not None and hearing.is_cut,
        )
        self.put(facts)

    def put(self, facts: Facts) -> None:
        """Trace a run that is over, wherever it was."""
        work = self._cleaned(facts.origin.project, facts.workflow, partial(_spans, facts, self._content))
        self._add(work, len(facts.events))

    # Work

    def _cleaned(self, project: str, workflow: str, work: Work) -> Work:
        """The same work, without what the workflow's author wants removed."""
        clean = None if self._clean is None else self._clean(project, workflow)
        return work if clean is None else lambda: [clean(span) for span in work()]

    def _from_anywhere(self, loop: asyncio.AbstractEventLoop, project: str, workflow: str, work: Work) -> None:
        work = self._cleaned(project, workflow, work)
        if is_running(loop):
            self._add(work, 1)
            return
        with suppress(RuntimeError):  # The loop has ended: there is nobody to keep it.
            loop.call_soon_threadsafe(self._add, work, 1)

    def _add(self, work: Work, events: int) -> None:
        if self._waiting and (len(self._waiting) >= self._most or self._held + events > self._most_events):
            if not self.dropped:
                log.warning("Runs end faster than their traces can be kept: some are dropped.")
            self.dropped += 1
            return
        self._waiting.append(work)
        self._held += events
        if self._timer is None and self._working is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._working = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        thread = self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="palaver-traces")
        try:
            while self._waiting:
                waiting, self._waiting, self._held = self._waiting, [], 0
                for first in range(0, len(waiting), _LOT):
                    spans = await loop.run_in_executor(thread, _made, waiting[first : first + _LOT])
                    self._hand_on(spans)
        finally:
            self._working = None

    def _hand_on(self, spans: Sequence[Span]) -> None:
        try:
            self._sink(spans)
        except Exception:
            self.dropped += len(spans)
            log.exception("%d spans could not be handed on", len(spans))

    async def flushed(self) -> None:
        """Wait until all that is known by now was handed on."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin()
        if self._working is not None:
            await asyncio.wait([self._working])

    async def close(self) -> None:
        """Hand on what is waiting, and let the thread go."""
        await self.flushed()
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None


def _left(heard: Token[steps.Listener | None] | None, token: Token[Any] | None) -> None:
    if token is not None:
        otel.left(token)
    if heard is not None:
        steps.unheard(heard)


def _spans(facts: Facts, content: Record) -> Sequence[Span]:
    from palaver.traces.runs import spans_of  # Conventions and dialects: wanted when a run has ended, not before.

    return spans_of(facts, content)


def _made(waiting: Sequence[Work]) -> list[Span]:
    """In the thread: the spans."""
    spans: list[Span] = []
    since = time.perf_counter()
    for work in waiting:
        try:
            spans += work()
        except Exception:  # A mistake of ours: the others are still good.
            log.exception("The spans of a run could not be made")
        if time.perf_counter() - since > _TURN:
            time.sleep(_BREATH)  # The loop may have deltas to tell, and would have to wait for the interpreter.
            since = time.perf_counter()
    return spans
