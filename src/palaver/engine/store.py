"""The interface through which runs are recorded, and the store for engines without a database."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from palaver.core.events import Event, RunStarted
from palaver.core.runs import Call, Origin


class RunHandedOver(Exception):
    """The run was requeued for another process; do not emit a terminal event here."""


class RecordableRun(Protocol):
    """What a store needs to know about a run."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """The name of the workflow."""
        ...

    @property
    def call(self) -> Call: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def started(self) -> RunStarted: ...

    @property
    def log(self) -> Sequence[Event]:
        """All events so far; `seq` is the index."""
        ...

    @property
    def first_output_at(self) -> datetime | None: ...


class RunStore(Protocol):
    """Records runs."""

    @property
    def on_events(self) -> Callable[[RecordableRun], None] | None:
        """Called after every event except the last ones, which go to `record_end`. Must be cheap."""
        ...

    def check(self) -> None:
        """Raise while nothing can be recorded, so that no run is started that would be lost."""
        ...

    def on_start(self, run: RecordableRun) -> None: ...

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """Make `last`, which ends with the terminal event, durable before readers see it.

        Raises RunHandedOver for a run that another process repeats.
        """
        ...

    def begin_handover(self) -> None:
        """The process is shutting down: runs interrupted from now on may be handed over."""
        ...

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        """`record_end` failed and readers saw `last` instead: record it as soon as possible."""
        ...


class MemoryRunStore:
    """Records nothing: a run's log lives as long as the run."""

    on_events = None

    def check(self) -> None:
        pass

    def on_start(self, run: RecordableRun) -> None:
        pass

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        pass

    def begin_handover(self) -> None:
        pass

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        pass
