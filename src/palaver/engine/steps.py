"""Hearing of a run's steps: what frameworks tell becomes spans as it ends, and what is still open ends with the run.

What is told twice is shown once. Where an instrumentation of the same framework speaks OpenTelemetry below the run, its
spans are shown and the framework's steps are not: somebody chose it. The same goes for one call of a model, where the
library that makes it has a span of its own within the step.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from palaver.core.calls import Record
from palaver.core.steps import Heard, Step, StepKind, Tell, overhearing
from palaver.engine.store import Kept
from palaver.traces.facts import Home, ToldTool
from palaver.traces.otel import Place, Work

if TYPE_CHECKING:
    from palaver.traces.record import Span

MOST = 2_000
"""Steps of one run of which spans are made."""


class Hearing:
    """Hears of the steps of one run, from any thread."""

    __slots__ = ("_also", "_closed", "_left", "_now", "_numbers", "_open", "_place", "_put", "_run", "memory", "tools")

    def __init__(
        self,
        run: Home,
        put: Callable[[Work], None],
        now: Callable[[], datetime],
        *,
        place: Place | None = None,
        most: int,
        also: Heard | None = None,
    ) -> None:
        self._run = run
        self._put = put  # Takes it from any thread, and at once.
        self._now = now
        self._place = place
        self._also = also
        self._left = most
        self._numbers = count()
        self._open: dict[int, Step] = {}
        self._closed = False
        self.memory: dict[Any, Any] = {}
        """What adapters keep with the run."""
        self.tools: list[ToldTool] = []
        """The tools of which was told: they need not be found among the run's events."""

    @property
    def is_cut(self) -> bool:
        """Were there more steps than spans are made of?"""
        return self._left < 0

    def begin(
        self,
        teller: Sequence[str],
        kind: StepKind,
        name: str,
        *,
        parent: Step | None = None,
        call_id: str | None = None,
        tell: Tell | None = None,
    ) -> Step | None:
        """A step begins now; None where there were too many, or the run is over."""
        if self._closed:
            return None
        self._left -= 1
        if self._left < 0:
            return None
        number, now = next(self._numbers), self._now()
        step = Step(self, teller, kind, name, number=number, began_at=now, parent=parent, call_id=call_id, tell=tell)
        self._open[number] = step
        return step

    def ended(self, step: Step) -> None:
        """It is over: its span can be made."""
        if self._open.pop(step.number, None) is not None:  # Else it has ended with its run, before.
            self._keep(step, None)

    def close(self, finish: str) -> None:
        """The run is over, and so are its steps, whatever their code is still doing."""
        self._closed = True
        for number in list(self._open):
            if (step := self._open.pop(number, None)) is not None:
                self._keep(step, finish)
        self.memory.clear()
        self._now = partial(datetime.now, UTC)  # The run's own clock would keep the run.

    def _keep(self, step: Step, finish: str | None) -> None:
        step.ended_at = self._now()
        if self._also is not None:
            self._also(step)
        if self._is_told(step):
            return
        if step.kind == "tool" or step.call_id is not None:
            self.tools.append(ToldTool(step.call_id, step.name))
        self._put(partial(_spans, step, self._run, finish))

    def _is_told(self, step: Step) -> bool:
        """Does OpenTelemetry tell of it?"""
        place = self._place
        if place is None:
            return False
        if any(word in _letters(scope) for scope in list(place.scopes) for word in step.teller):
            return True
        if step.kind in ("llm", "embedding"):
            for call in list(place.models):
                if step.began_at <= call[0] and (step.ended_at is None or call[1] <= step.ended_at):
                    with suppress(ValueError):  # In another thread it was another's, a moment ago.
                        place.models.remove(call)  # It is this call, and no other's.
                        return True
        return False


def hearing_of(
    run: Kept, record: Record, put: Callable[[Work], None], now: Callable[[], datetime], place: Place | None
) -> Hearing:
    """For one run that is beginning."""
    started = run.started
    home = Home(started.trace_id, started.span_id, run.origin.project, started.session, run.id, run.call, record)
    return Hearing(home, put, now, place=place, most=MOST, also=overhearing())


def _spans(step: Step, run: Home, finish: str | None) -> "Sequence[Span]":
    from palaver.traces.steps import spans_of  # The conventions are many: wanted when a step has ended, not before.

    return spans_of(step, run, finish)


def _letters(scope: str) -> str:
    """`openinference.instrumentation.openai_agents`, `pydantic-ai`: the same name is spelled in many ways."""
    return "".join(letter for letter in scope.lower() if letter.isalnum())
