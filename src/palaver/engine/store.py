"""The promise of whoever keeps runs. In memory there is nothing to keep: a run's log lives as long as the run does."""

from collections.abc import Sequence
from typing import Protocol

from palaver.core.events import Event


class Kept(Protocol):
    """What a store sees of a run."""

    @property
    def id(self) -> str:
        """The run's id."""
        ...

    @property
    def log(self) -> Sequence[Event]:
        """All its events so far; `seq` is the index."""
        ...


class Store(Protocol):
    """Keeps runs. `grew` is called after every event and must cost next to nothing: note it, write later."""

    def opened(self, run: Kept) -> None:
        """A run has started."""
        ...

    def grew(self, run: Kept) -> None:
        """Its log is longer than before."""
        ...

    async def closed(self, run: Kept, last: Sequence[Event]) -> None:
        """Make `last`, which ends with the terminal event, durable; only then do readers see it."""
        ...


class Memory:
    """Keeps nothing beyond the engine's own memory."""

    def opened(self, run: Kept) -> None:
        """Nothing to prepare."""

    def grew(self, run: Kept) -> None:
        """Nothing to write."""

    async def closed(self, run: Kept, last: Sequence[Event]) -> None:
        """Nothing to wait for."""
