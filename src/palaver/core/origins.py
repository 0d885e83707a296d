"""Where a run came from and where it belongs. Set by the server from the credential and the route, never by a body."""

from typing import Any, Literal

import msgspec

from palaver.core.messages import Message

DEFAULT_PROJECT = "default"
"""The one that is always there."""

RunStatus = Literal["queued", "running", "finished", "failed", "cancelled", "interrupted"]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Whose run it is, how it was asked for, and what its answer joins."""

    project: str = DEFAULT_PROJECT
    key: str | None = None
    """The id of the key that asked."""
    protocol: str = ""
    """The name of the protocol, and its own frozen note of how to answer: for whoever answers again, later."""
    reading: Any = None
    stored: bool = False
    """May it be asked for again in the protocol that it was asked in?"""
    background: bool = False
    thread: str | None = None
    """The conversation that its answer joins, below the message that it answers."""
    answers: str | None = None
    previous: str | None = None
    """The run whose conversation it goes on with."""
    board: str | None = None
    """The board whose cell it fills: begun with others of that board, so many at once."""
    variant: str | None = None
    waited: bool = False
    """Was it kept before it began? It waited in the background."""
    said: tuple[Message, ...] | None = None
    """What of the call's messages is kept with the run; None: all. The rest is kept elsewhere."""

    @property
    def is_cell(self) -> bool:
        """Is it a cell of an evaluation? What it was asked and said is kept there, and not again with the run."""
        return self.protocol == "evaluation"

    @property
    def is_needed(self) -> bool:
        """Is it kept whatever its author says, because somebody asked to go on from it, or it begins later?"""
        return self.stored or (self.background and not self.is_cell) or self.thread is not None


NOWHERE = Origin()
"""Of a run that nobody asked for over a network."""
