"""Whose a span is that this process made: the run below which it stood, and how much of that may be recorded."""

from collections.abc import Sequence
from typing import NamedTuple

from palaver.core.calls import Record


class Owner(NamedTuple):
    """The run that a span belongs to."""

    project: str
    session: str
    run_id: str
    record: Record
    known: Sequence[str] = ()
    """The secrets that its caller gave to it alone."""
