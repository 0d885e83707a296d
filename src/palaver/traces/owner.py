"""Whose a span is that this process made: the run below which it stood, and how much of that may be recorded."""

from collections.abc import Sequence
from typing import NamedTuple

from palaver.core.runs import RecordMode


class Owner(NamedTuple):
    """The run that a span belongs to."""

    project: str
    session: str
    run_id: str
    record: RecordMode
    known: Sequence[str] = ()
    """The secrets that its caller gave to it alone."""
