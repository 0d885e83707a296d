"""Does this machine's clock tell the time: by itself, beside the database's, and beside what is kept?"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from palaver.cli.doctoring.checks import Check, ok, problem, warning
from palaver.storage.diagnostics import DatabaseReport

_PAST = datetime(2025, 1, 1, tzinfo=UTC)
"""Before there was any Palaver."""
_JUMP, _SKEW, _APART = 1.0, 1.0, 10.0
_FUTURE = timedelta(minutes=1)
_DO = "Set it by NTP (timedatectl set-ntp true, or your system's way)."


class Tick(NamedTuple):
    """A look at both clocks at once."""

    wall: datetime
    monotonic: float


def check(first: Tick, last: Tick, look: DatabaseReport | None) -> Iterator[Check]:
    """Of two looks, one before and one after the other checks; and what the database says of its own clock."""
    moved = (last.wall - first.wall).total_seconds() - (last.monotonic - first.monotonic)
    if last.wall < _PAST:
        says = f"The clock says {last.wall:%Y-%m-%d}: keys never end, and what is kept has wrong times."
        yield problem("clock", says, _DO)
    elif last.monotonic < first.monotonic:
        yield problem("clock", "The monotonic clock went back: no time limit holds.", "The machine below it is broken.")
    elif abs(moved) > _JUMP:
        way = "ahead" if moved > 0 else "back"
        says = f"The clock was set {way} by {abs(moved):.1f} s while we looked."
        yield warning("clock", says, _DO)
    else:
        yield ok("clock", f"It is {last.wall:%Y-%m-%d %H:%M:%S} UTC, and the clock goes evenly.")
    if look is not None and look.clock_offset_s is not None:
        yield _beside(look.clock_offset_s)
    if look is not None and look.newest_at is not None and look.newest_at - last.wall > _FUTURE:
        says = f"The newest row is from {look.newest_at:%Y-%m-%d %H:%M:%S} UTC, which is to come."
        yield warning("clock", says, f"A clock was set back, or another machine's is ahead. {_DO}")


def _beside(ahead: float) -> Check:
    says = f"The database's clock is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}."
    if abs(ahead) > _APART:
        return problem("clock", says, f"Processes take each other for dead. {_DO}")
    if abs(ahead) > _SKEW:
        return warning("clock", says, _DO)
    return ok("clock", f"The database's clock agrees: {abs(ahead) * 1000:.0f} ms apart.")
