"""The promise of whoever keeps runs. In memory there is nothing to keep: a run's log lives as long as the run does."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from palaver.core.events import Event, RunStarted
from palaver.core.runs import Call, Origin


class RunHandedOver(Exception):
    """Another process begins the run anew: here it ends without an end."""


class RecordableRun(Protocol):
    """What a store sees of a run."""

    @property
    def id(self) -> str:
        """The run's id."""
        ...

    @property
    def name(self) -> str:
        """The workflow's."""
        ...

    @property
    def call(self) -> Call:
        """What it was asked."""
        ...

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        ...

    @property
    def started(self) -> RunStarted:
        """Its first event."""
        ...

    @property
    def log(self) -> Sequence[Event]:
        """All its events so far; `seq` is the index."""
        ...

    @property
    def first_output_at(self) -> datetime | None:
        """When it first said something."""
        ...


class RunStore(Protocol):
    """Keeps runs."""

    @property
    def on_events(self) -> Callable[[RecordableRun], None] | None:
        """Called after every event, so it must cost next to nothing: note it, write later. None: nobody asks.

        The last ones are not told here: `closed` is given them.
        """
        ...

    def check(self) -> None:
        """Raise while nothing can be kept: a run that would be lost is not begun."""
        ...

    def on_start(self, run: RecordableRun) -> None:
        """A run has started."""
        ...

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Make `last`, which ends with the terminal event, durable; only then do readers see it.

        One that this process cannot end, and that may begin anew in another, is HandedOver.
        """
        ...

    def begin_handover(self) -> None:
        """This process has to go: what is interrupted from now on may begin anew in another."""
        ...

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """That failed, and readers were told this instead: keep it when it can be kept."""
        ...


class MemoryRunStore:
    """Keeps nothing beyond the engine's own memory."""

    on_events = None

    def check(self) -> None:
        """Nothing can be lost."""

    def on_start(self, run: RecordableRun) -> None:
        """Nothing to prepare."""

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Nothing to wait for."""

    def begin_handover(self) -> None:
        """There is no other process."""

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Nothing was."""
